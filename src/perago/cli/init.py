"""`perago init`: writes a small project that passes `perago check`, `perago run` and pytest."""

import re
from collections.abc import Iterator
from enum import StrEnum
from importlib import resources
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Annotated

import typer
from rich.text import Text

from perago import distribution
from perago.errors import SetupError
from perago.terminal import console

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="A new or an empty directory.")]


class Language(StrEnum):
    """Of the task that writes the report."""

    PYTHON = "python"
    TYPESCRIPT = "typescript"
    SHELL = "shell"


LanguageOption = Annotated[Language, typer.Option("--language", help="The language of one of the two tasks.")]

_SUFFIX = ".template"
"""Hides the templates from linters, test runners and ignore files."""
_COMMON = "common"
"""The folder of the templates of every language."""
_DOTTED = {"gitignore": ".gitignore", "env.example": ".env.example"}

_NEXT_STEPS = (
    ("perago check sales_pipeline", "validate the pipeline and its tasks"),
    ("perago run sales_pipeline --workspace sample/repository --params @sample/params.json", "show what it would publish"),
    ("python -m pytest", "run the tests"),
)


def init(directory: Directory, language: LanguageOption = Language.PYTHON) -> None:
    """Write a small project: two tasks, a pipeline, tests, sample data.

    With --language, the task that writes the report is a command: a program for Node with TypeScript's types, or a shell script.

    Nothing is overwritten: DIR must not exist or be empty. Exit codes: 0 written, 1 not written, 2 wrong usage.
    """
    show(directory, create(directory, language))


def create(directory: Path, language: Language = Language.PYTHON) -> list[Path]:
    """Write the project; the paths of its files, relative to `directory`."""
    _refuse_occupied(directory)
    name = _project_name(directory)
    written: list[Path] = []
    try:
        for relative, text in _templates(language):
            target = directory / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(_filled_in(text, name), encoding="utf-8")
            written.append(Path(relative))
    except OSError as error:
        raise SetupError(f"cannot write {error.filename}: {error.strerror}") from error
    return sorted(written)


def show(directory: Path, written: list[Path]) -> None:
    """Print what was written and what to type next."""
    out = console.stdout()
    out.print(Text.assemble(("created ", "green"), (console.printable(str(directory)), "bold"), f" with {len(written)} files"))
    for path in written:
        out.print(Text(f"  {path}", style="dim"))
    out.print(Text("next:", style="bold"))
    if directory.resolve() != Path.cwd():
        out.print(Text(f"  cd {console.printable(str(directory))}"))
    for line, purpose in _next_steps():
        out.print(Text.assemble(f"  {line}", (f"  # {purpose}", "dim")))


def _next_steps() -> Iterator[tuple[str, str]]:
    """Pytest must be installed in the environment of Perago, because another installation would not find Perago."""
    if find_spec("pytest") is None:
        *before, (line, purpose) = _NEXT_STEPS
        yield from [*before, (f"pip install pytest && {line}", purpose)]
    else:
        yield from _NEXT_STEPS


def _refuse_occupied(directory: Path) -> None:
    try:
        if directory.exists() and not directory.is_dir():
            raise SetupError(f"{directory} is a file; name a new or an empty directory")
        if directory.is_dir() and any(directory.iterdir()):
            raise SetupError(f"{directory} is not empty; name a new or an empty directory")
    except OSError as error:
        raise SetupError(f"cannot look into {directory}: {error.strerror}") from error


def _project_name(directory: Path) -> str:
    name = re.sub(r"[^A-Za-z0-9]+", "-", directory.resolve().name).strip("-").lower()
    return name or "perago-project"


def _filled_in(text: str, name: str) -> str:
    return text.replace("@NAME@", name).replace("@PERAGO@", distribution.requirement())


def _templates(language: Language) -> Iterator[tuple[PurePosixPath, str]]:
    for folder in (_COMMON, language.value):
        yield from _walk(resources.files("perago.cli") / "templates" / folder, PurePosixPath())


def _walk(folder: Traversable, at: PurePosixPath) -> Iterator[tuple[PurePosixPath, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, at / entry.name)
            continue
        name = entry.name.removesuffix(_SUFFIX)
        yield at / _DOTTED.get(name, name), entry.read_text(encoding="utf-8")
