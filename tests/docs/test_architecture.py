"""The architecture page describes the source as it is: packages, import direction, and the path of an attempt."""

import re
import tomllib

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
