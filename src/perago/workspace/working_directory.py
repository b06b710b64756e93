"""The working directory of a body: its workspace, or a scratch directory for bodies whose workspace is no directory."""

import contextlib
import os
import sys
from collections.abc import Callable, Generator
from pathlib import Path

from perago.workspace import attempt_directory

Warn = Callable[[str], None]
_SHOWN = 5


@contextlib.contextmanager
def for_body(argument: object, scratch: Callable[[], attempt_directory.AttemptDirectory], warn: Warn) -> Generator[None]:
    """Run the body in `argument` if that is a directory, otherwise in a new scratch directory, which is removed afterwards.

    Files that a body leaves in a scratch directory are lost, so `warn` names them.
    """
    if isinstance(argument, Path):
        with inside(argument, warn):
            yield
        return
    directory = scratch()
    try:
        with inside(directory.work, warn):
            yield
        if left := left_files(directory.work):
            warn(_lost(left, publishes=argument is not None))
    finally:
        if not_removed := directory.remove():
            warn(f"failed to remove the body's working directory: {not_removed}")


@contextlib.contextmanager
def inside(directory: Path, warn: Warn) -> Generator[None]:
    """Change into the directory and back. Modules are found as before: relative entries of `sys.path` are made absolute."""
    before = os.getcwd()  # noqa: PTH109  text, as chdir takes it
    entries = sys.path[:]
    absolute = [os.path.abspath(entry) for entry in entries]  # noqa: PTH100  "" is an entry
    os.chdir(directory)
    sys.path[:] = absolute
    entered = os.getcwd()  # noqa: PTH109  as above
    try:
        yield
    finally:
        if _current() != entered:
            warn("the body changed the working directory")
        os.chdir(before)
        if sys.path == absolute:
            # Otherwise the body added entries, which stay.
            sys.path[:] = entries


def left_files(directory: Path) -> list[str]:
    """What is not a directory below it, in order."""
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_symlink() or not path.is_dir())


def _current() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109  as above
    except FileNotFoundError:
        return None


def _lost(left: list[str], *, publishes: bool) -> str:
    names = ", ".join(left[:_SHOWN]) + (f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else "")
    advice = (
        "write to workspace.output(...), or with workspace.write_text" if publishes else "return what is needed in the result"
    )
    return f"the body left files in its working directory, which are not published: {names}; {advice}"
