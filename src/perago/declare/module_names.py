"""Names of modules with a task or pipeline: from paths, those in the working directory, and the one that was probably meant."""

import difflib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from perago.errors import TaskDefinitionError

_MAX_DEPTH = 4
_MAX_FILES = 500
"""Enough for a project. A larger tree is not searched to its end, because a person waits for the answer."""


def dotted(given: str) -> str:
    """The module's name; `given` may be the path of its file below the working directory. Otherwise `TaskDefinitionError`."""
    name = _of_path(given) if _is_path(given) else given
    if not name or not all(part.isidentifier() for part in name.split(".")):
        hint = (suggestion(name) if name else "") or "; write one as for 'python -m', such as tasks.features"
        raise TaskDefinitionError(f"{given!r} is not a module name{hint}")
    return name


def suggestion(name: str) -> str:
    """Which module of the working directory was probably meant: one that declares this name, or a similar one. Or nothing."""
    sources = dict(_sources())
    for module, source in sources.items():
        if found := re.search(rf"""@(task|pipeline)\([^)]*\bname\s*=\s*["']{re.escape(name)}["']""", source):
            return f"; that is the name of a {found[1]}: write its module, {module}"
    close = difflib.get_close_matches(name, list(sources), n=1, cutoff=0.7)
    return f"; did you mean {close[0]}?" if close else ""


def in_working_directory() -> Iterator[str]:
    """The names of the files that seem to declare a task or a pipeline, without importing them."""
    return (module for module, _ in _sources())


def _sources() -> Iterator[tuple[str, str]]:
    """The modules and their text."""
    looked_at = 0
    for folder, folders, files in os.walk("."):
        parts = Path(folder).parts
        folders[:] = (
            sorted(one for one in folders if one.isidentifier() and one != "__pycache__") if len(parts) < _MAX_DEPTH else []
        )
        for file in sorted(files):
            stem, ending = os.path.splitext(file)  # noqa: PTH122 - text is faster, and a path is not needed
            if ending != ".py" or not stem.isidentifier():
                continue
            looked_at += 1
            if looked_at > _MAX_FILES:
                return
            if source := _declaration(Path(folder, file)):
                yield ".".join([*parts, stem]), source


def _is_path(given: str) -> bool:
    return given.endswith(".py") or "/" in given or os.sep in given


def _of_path(given: str) -> str:
    file = Path(given if given.endswith(".py") else f"{given.rstrip('/')}.py")
    here = Path.cwd()
    below = Path(os.path.abspath(file))  # noqa: PTH100 - links are kept: the name is that of the path as it was typed
    if not below.is_relative_to(here):
        raise TaskDefinitionError(
            f"{given!r} is not in the working directory {here}; run the command in the directory of the project"
        )
    name = ".".join(below.relative_to(here).with_suffix("").parts)
    if not file.is_file():
        raise TaskDefinitionError(f"there is no file {str(file)!r}{suggestion(name)}")
    return name.removesuffix(".__init__")


def _declaration(file: Path) -> str:
    """The text of a file that seems to declare a task or a pipeline, otherwise nothing."""
    try:
        source = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return source if "@task" in source or "@pipeline" in source else ""
