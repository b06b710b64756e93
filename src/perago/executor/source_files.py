"""The source files of the project that this process has imported or read, for `perago start --reload`."""

import os
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path

import perago
from perago.declare import source_record

_INSTALLED = {
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    str(Path(perago.__file__).parent),
}
"""Their files change with an upgrade, during which nothing should restart."""


def imported(modules: Sequence[str], error: BaseException | None = None) -> tuple[str, ...]:
    """Files below the working directory and below the directories that the task modules are imported from, and task files.

    `error` is that of a failed import: the files in its traceback are not in `sys.modules`.
    """
    loaded = {name: file for name, module in list(sys.modules.items()) if (file := getattr(module, "__file__", None))}
    roots = {os.getcwd(), *(_root(name, loaded[name]) for name in modules if name in loaded)}  # noqa: PTH109  as text
    return tuple(sorted(of_project([*loaded.values(), *_of_error(error)], roots, _INSTALLED) | source_record.recorded()))


def of_project(files: Iterable[str], roots: Iterable[str], installed: Iterable[str]) -> set[str]:
    """Python files below one of the roots and not in a directory of installed packages."""
    inside, outside = tuple(map(Path, roots)), tuple(map(Path, installed))
    sources = (Path(file).absolute() for file in files if file.endswith(".py"))
    return {str(file) for file in sources if _is_below(file, inside) and not _is_below(file, outside)}


def _root(name: str, file: str) -> str:
    """The directory on the module search path: `/project` for `tasks.features` in `/project/tasks/features.py`."""
    levels = name.count(".") + (Path(file).name == "__init__.py")
    return str(Path(file).parents[levels])


def _of_error(error: BaseException | None) -> list[str]:
    found: list[str] = []
    while error is not None:
        found += [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
        if isinstance(error, SyntaxError) and error.filename:
            found.append(error.filename)
        error = error.__cause__ or error.__context__
    return found


def _is_below(file: Path, directories: Iterable[Path]) -> bool:
    return any(file.is_relative_to(directory) for directory in directories)
