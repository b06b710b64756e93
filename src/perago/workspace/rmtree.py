"""Directories out of the way, whatever a body did to their modes and depth. What cannot be removed is reported, not raised."""

import os
import stat
import uuid
from pathlib import Path


def remove_tree(path: Path) -> str | None:
    """The first thing that stayed and why, or None when all is gone. Symlinks are removed, never followed."""
    left = empty_directory(path)
    try:
        path.rmdir()
    except FileNotFoundError:
        return None
    except OSError as fault:
        return left or f"{path}: {fault.strerror}"
    return left


def empty_directory(path: Path, keep: str = "") -> str | None:
    """Delete everything below `path` except its direct child named `keep`.

    Each directory that is met is first moved up to the top, so that neither recursion nor path length grows with depth.
    """
    sweep = _Emptying(str(path), keep)
    while sweep.todo:
        sweep.visit(sweep.todo.pop())
    return sweep.left


class _Emptying:
    def __init__(self, top: str, keep: str) -> None:
        self._top = top
        self._keep = keep
        self._tag = f".gone-{uuid.uuid4().hex}"
        self._moved = 0
        self.todo = [top]
        self.left: str | None = None

    def visit(self, directory: str) -> None:
        try:
            _allow_owner(directory)
            with os.scandir(directory) as entries:
                found = [
                    (entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries if not self._is_kept(directory, entry)
                ]
        except FileNotFoundError:
            return
        except OSError as fault:
            self._note(directory, fault)
            return
        for path, is_directory in found:
            self._discard(path, is_directory=is_directory)
        if directory != self._top:
            self._rmdir(directory)

    def _is_kept(self, directory: str, entry: os.DirEntry[str]) -> bool:
        return directory == self._top and entry.name == self._keep

    def _discard(self, path: str, *, is_directory: bool) -> None:
        try:
            if is_directory:
                self._move_up(path)
            else:
                os.unlink(path)  # noqa: PTH108 (strings throughout: a tree may hold 100,000 files)
        except FileNotFoundError:
            return
        except OSError as fault:
            self._note(path, fault)

    def _move_up(self, path: str) -> None:
        _allow_owner(path)
        self._moved += 1
        aside = f"{self._top}/{self._tag}-{self._moved}"
        os.rename(path, aside)  # noqa: PTH104
        self.todo.append(aside)

    def _rmdir(self, directory: str) -> None:
        try:
            os.rmdir(directory)  # noqa: PTH106
        except FileNotFoundError:
            return
        except OSError as fault:
            self._note(directory, fault)

    def _note(self, path: str, fault: OSError) -> None:
        self.left = self.left or f"{path}: {fault.strerror}"


def _allow_owner(directory: str) -> None:
    """A body may have taken our own right to list or change a directory. Only called on what `scandir` said is no symlink."""
    status = os.lstat(directory)
    if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(directory, stat.S_IMODE(status.st_mode) | stat.S_IRWXU)  # noqa: PTH101
