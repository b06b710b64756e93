"""Names of modules with a task or pipeline: from paths, those in the working directory, and the one that was probably meant.

The name of a task file is its path, `tasks/render.task.toml`.
"""

import difflib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from perago.errors import TaskDefinitionError

TASK_FILE = ".task.toml"
_MAX_DEPTH = 4
_MAX_FILES = 500
"""Enough for a project. A larger tree is not searched to its end, because a person waits for the answer."""


def dotted(given: str) -> str:
    """The module's name; `given` may be the path of its file below the working directory, or of a task file.

    Otherwise `TaskDefinitionError`.
    """
    if given.endswith(".toml"):
        return of_task_file(given)
    name = _of_path(given) if _is_path(given) else given
    if not name or not all(part.isidentifier() for part in name.split(".")):
        hint = (suggestion(name) if name else "") or "; write one as for 'python -m', such as tasks.features"
        raise TaskDefinitionError(f"{given!r} is not a module name{hint}")
    return name


def is_task_file(module: str) -> bool:
    """Whether the name of a module is the path of a task file."""
    return module.endswith(TASK_FILE)


def of_task_file(given: str) -> str:
    """The path of a task file from the working directory, absolute if it is not below; `TaskDefinitionError` for other files."""
    if not is_task_file(given) or Path(given).name == TASK_FILE:
        raise TaskDefinitionError(f"{given!r} is not a task file; the name of one ends in {TASK_FILE}, such as render{TASK_FILE}")
    file = Path(os.path.abspath(given))  # noqa: PTH100 - links are kept: the name is that of the path as it was typed
    here = Path.cwd()
    return str(file.relative_to(here)) if file.is_relative_to(here) else str(file)


def label(module: str) -> str:
    """The name of a module as a part of file names and of worker ids: `tasks.render` for `tasks/render.task.toml`."""
    if not is_task_file(module):
        return module
    parts = Path(module.removesuffix(TASK_FILE)).parts
    return ".".join(parts if not Path(module).is_absolute() else parts[-1:])


def suggestion(name: str) -> str:
    """Which module of the working directory was probably meant: one that declares this name, or a similar one. Or nothing."""
    sources = dict(_sources())
    for module, source in sources.items():
        if found := _named(name, source, in_task_file=is_task_file(module)):
            return f"; that is the name of a {found}: write its module, {module}"
    close = difflib.get_close_matches(name, list(sources), n=1, cutoff=0.7)
    return f"; did you mean {close[0]}?" if close else ""


def in_working_directory() -> Iterator[str]:
    """The names of the files that seem to declare a task or a pipeline, without importing them."""
    return (module for module, _ in _sources())


def _named(name: str, source: str, *, in_task_file: bool) -> str | None:
    """Whether a source declares a task or a pipeline of this name."""
    written = rf"""\bname\s*=\s*["']{re.escape(name)}["']"""
    if in_task_file:
        return "task" if re.search(rf"^{written}", source, re.MULTILINE) else None
    if re.search(rf"\bcommand\([^)]*{written}", source):
        return "task"
    found = re.search(rf"@(task|pipeline)\([^)]*{written}", source)
    return None if found is None else found[1]


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
            is_module = ending == ".py" and stem.isidentifier()
            if not is_module and not is_task_file(file):
                continue
            looked_at += 1
            if looked_at > _MAX_FILES:
                return
            if source := _declaration(Path(folder, file)):
                yield ".".join([*parts, stem]) if is_module else "/".join([*parts, file]), source


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
    declares = is_task_file(file.name) or any(word in source for word in ("@task", "@pipeline", "perago.command(", "= command("))
    return source if declares else ""
