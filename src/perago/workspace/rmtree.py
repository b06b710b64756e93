"""Remove directory trees of any depth and with any modes. What cannot be removed is returned, not raised."""

import os
import stat
import uuid
from pathlib import Path


def remove_tree(path: Path) -> str | None:
    """Returns None, or the first path that could not be removed and the reason. Symlinks are removed, never followed."""
    not_removed = empty_directory(path)
    try:
        path.rmdir()
    except FileNotFoundError:
        return None
    except OSError as error:
        return not_removed or f"{path}: {error.strerror}"
    return not_removed


def empty_directory(path: Path, keep: str = "") -> str | None:
    """Delete everything below `path` except its direct child named `keep`; returns as `remove_tree` does.

    Each subdirectory is first moved to the top, so that neither recursion nor path length grows with depth.
    """
    remover = _TreeRemover(str(path), keep)
    while remover.todo:
        remover.visit(remover.todo.pop())
    return remover.not_removed


class _TreeRemover:
    def __init__(self, top: str, keep: str) -> None:
        self._top = top
        self._keep = keep
        self._tag = f".removed-{uuid.uuid4().hex}"
        self._moved = 0
        self.todo = [top]
        self.not_removed: str | None = None

    def visit(self, directory: str) -> None:
        try:
            _allow_owner(directory)
            with os.scandir(directory) as entries:
                found = [
                    (entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries if not self._is_kept(directory, entry)
                ]
        except FileNotFoundError:
            return
        except OSError as error:
            self._note(directory, error)
            return
        for path, is_directory in found:
            self._remove_entry(path, is_directory=is_directory)
        if directory != self._top:
            self._rmdir(directory)

    def _is_kept(self, directory: str, entry: os.DirEntry[str]) -> bool:
        return directory == self._top and entry.name == self._keep

    def _remove_entry(self, path: str, *, is_directory: bool) -> None:
        try:
            if is_directory:
                self._move_up(path)
            else:
                os.unlink(path)  # noqa: PTH108 (strings throughout: a tree may hold 100,000 files)
        except FileNotFoundError:
            return
        except OSError as error:
            self._note(path, error)

    def _move_up(self, path: str) -> None:
        _allow_owner(path)
        self._moved += 1
        moved = f"{self._top}/{self._tag}-{self._moved}"
        os.rename(path, moved)  # noqa: PTH104
        self.todo.append(moved)

    def _rmdir(self, directory: str) -> None:
        try:
            os.rmdir(directory)  # noqa: PTH106
        except FileNotFoundError:
            return
        except OSError as error:
            self._note(directory, error)

    def _note(self, path: str, error: OSError) -> None:
        self.not_removed = self.not_removed or f"{path}: {error.strerror}"


def _allow_owner(directory: str) -> None:
    """Restore the owner's permissions, which a body may have removed. Never called for a symlink."""
    status = os.lstat(directory)
    if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(directory, stat.S_IMODE(status.st_mode) | stat.S_IRWXU)  # noqa: PTH101
