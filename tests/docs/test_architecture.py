"""The architecture page describes the source as it is: packages, import direction, and the path of an attempt."""

import ast
import re
import tomllib
from pathlib import Path

from tests.support import manual

PAGE = manual.DOCS / "architecture.md"
PACKAGE = manual.ROOT / "src" / "perago"
_NOT_MODULES = {"__pycache__", "py.typed"}


def _text_block_after(heading: str) -> list[str]:
    """The lines of the first text block below the heading."""
    section = PAGE.read_text().split(f"# {heading}\n", 1)[1]
    return section.split("```text\n", 1)[1].split("\n```", 1)[0].splitlines()


def test_tree_lists_every_module_and_package() -> None:
    listed = {line.split()[0] for line in _text_block_after("Packages")[1:]}
    assert listed == {f"{path.name}/" if path.is_dir() else path.name for path in PACKAGE.iterdir()} - _NOT_MODULES - {
        "__pycache__/"
    }


def test_import_direction_matches_the_linter() -> None:
    configured = tomllib.loads((manual.ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in configured if contract["type"] == "layers")
    assert _text_block_after("Import direction") == [re.sub(r"perago\.|[()]", "", layer) for layer in layers]


def test_functions_on_the_path_of_an_attempt_exist() -> None:
    named = re.findall(r"^ +([\w/]+\.py) +([\w.]+) ", "\n".join(_text_block_after("The path of an attempt")), re.MULTILINE)
    assert len(named) > 20
    assert [(file, name) for file, name in named if name not in _functions(PACKAGE / file)] == []


def test_path_of_an_attempt_fits_on_one_screen() -> None:
    assert len(_text_block_after("The path of an attempt")) <= 45


def _functions(file: Path) -> set[str]:
    """Functions, and methods as `Class.method`."""
    tree = ast.parse(file.read_text())
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    methods = {f"{one.name}.{node.name}" for one in classes for node in one.body if isinstance(node, _FUNCTION)}
    return methods | {node.name for node in tree.body if isinstance(node, _FUNCTION)}


_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
