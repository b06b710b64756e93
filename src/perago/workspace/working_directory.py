"""The working directory of a body: its workspace, or a scratch directory for bodies whose workspace is no directory."""

import contextlib
import os
import sys
from collections.abc import Callable, Generator
from pathlib import Path

from perago.errors import WorkspaceError
from perago.model import Attempt, ExecutionId
from perago.workspace import attempt_directory
from perago.workspace.attempt_directory import AttemptDirectory

Warn = Callable[[str], None]
_SHOWN = 5


class ScratchDirectory:
    """The working directory of bodies that have no workspace directory, one after another.

    A directory that a body left empty is passed on to the next: creating and removing one takes longer than a small task.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._kept: AttemptDirectory | None = None

    @contextlib.contextmanager
    def taken(self, attempt: Attempt, execution_id: ExecutionId, warn: Warn) -> Generator[AttemptDirectory]:
        directory = self._take(attempt, execution_id, warn)
        try:
            yield directory
        finally:
            try:
                directory.set_aside()
            except WorkspaceError:
                _remove(directory, warn)
            else:
                self._kept = directory

    def remove(self) -> None:
        """Remove what is kept, at the end of the process."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.remove()

    def _take(self, attempt: Attempt, execution_id: ExecutionId, warn: Warn) -> AttemptDirectory:
        kept, self._kept = self._kept, None
        if kept is not None:
            try:
                kept.pass_on(attempt, execution_id)
            except WorkspaceError:
                _remove(kept, warn)
            else:
                return kept
        return attempt_directory.create(self._root, attempt, execution_id)


Take = Callable[[Warn], contextlib.AbstractContextManager[AttemptDirectory]]


@contextlib.contextmanager
def scratch_once(root: Path, attempt: Attempt, execution_id: ExecutionId, warn: Warn) -> Generator[AttemptDirectory]:
    """A scratch directory for one body."""
    scratch = ScratchDirectory(root)
    try:
        with scratch.taken(attempt, execution_id, warn) as directory:
            yield directory
    finally:
        scratch.remove()


@contextlib.contextmanager
def for_body(argument: object, scratch: Take, warn: Warn) -> Generator[None]:
    """Run the body in `argument` if that is a directory, otherwise in a scratch directory.

    Files that a body leaves in a scratch directory are lost, so `warn` names them.
    """
    if isinstance(argument, Path):
        with inside(argument, warn):
            yield
        return
    with scratch(warn) as directory:
        with inside(directory.work, warn):
            yield
        if not _is_empty(directory.work) and (left := left_files(directory.work)):
            warn(_lost(left, publishes=argument is not None))


def _is_empty(directory: Path) -> bool:
    try:
        with os.scandir(directory) as entries:
            return not any(entries)
    except OSError:
        return False


def _remove(directory: AttemptDirectory, warn: Warn) -> None:
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
