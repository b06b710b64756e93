"""Scan a workspace directory: regular files with the stat data that reveals a change, empty directories, and special files."""

import errno
import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from perago.errors import WorkspaceError
from perago.model import OWN_NAMES, FilePath, Listing

HASH_BLOCK = 1 << 20
OWNER_EXECUTES = stat.S_IXUSR


class FileStat(NamedTuple):
    """Stat data that changes with a file's content or mode. A tuple, because a workspace may hold 100,000 of them."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    executable: bool


class SpecialFile(NamedTuple):
    """A symlink, socket, fifo or device, which cannot be published; `kind` is its plural name."""

    path: FilePath
    kind: str


@dataclass(frozen=True, slots=True)
class ScanResult:
    files: Mapping[FilePath, FileStat]
    empty_directories: Sequence[FilePath]
    special_files: Sequence[SpecialFile]

    def listing(self) -> Listing:
        return Listing(sorted(self.files), sorted(self.empty_directories))


def file_stat(status: os.stat_result) -> FileStat:
    return FileStat(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, (status.st_mode & OWNER_EXECUTES) != 0)


def scan(root: str) -> ScanResult:
    """Everything below `root`, without following symlinks. `WorkspaceError` for a directory that cannot be read."""
    scanner = _TreeScanner(root)
    while scanner.todo:
        scanner.visit(scanner.todo.pop())
    return ScanResult(scanner.files, scanner.empty_directories(), sorted(scanner.special_files))


class _TreeScanner:
    def __init__(self, root: str) -> None:
        self._root = root
        self.todo = [""]
        self.files: dict[FilePath, FileStat] = {}
        self.special_files: list[SpecialFile] = []
        self._directories: set[str] = set()

    def visit(self, directory: str) -> None:
        below = directory + "/" if directory else ""
        try:
            with os.scandir(os.path.join(self._root, directory)) as entries:  # noqa: PTH118 (one string join per directory, not a Path)
                for entry in entries:
                    self._add(below + entry.name, entry)
        except OSError as error:
            raise _unreadable(directory or ".", error) from error

    def _add(self, path: str, entry: os.DirEntry[str]) -> None:
        if entry.is_dir(follow_symlinks=False):
            self._directories.add(path)
            self.todo.append(path)
        elif entry.is_file(follow_symlinks=False):
            if entry.name not in OWN_NAMES:
                self.files[FilePath(path)] = file_stat(entry.stat(follow_symlinks=False))
        else:
            self.special_files.append(SpecialFile(FilePath(path), _kind(entry.stat(follow_symlinks=False).st_mode)))

    def empty_directories(self) -> list[FilePath]:
        """Directories with no file at any depth."""
        filled: set[str] = set()
        for path in self.files:
            end = path.rfind("/")
            while end > 0 and path[:end] not in filled:
                filled.add(path[:end])
                end = path.rfind("/", 0, end)
        return [FilePath(path) for path in self._directories - filled]


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "symlinks"
    if stat.S_ISSOCK(mode):
        return "sockets"
    return "fifos" if stat.S_ISFIFO(mode) else "devices"


def require_publishable(found: ScanResult) -> None:
    """`WorkspaceError` if there is a file that lakeFS cannot hold."""
    if found.special_files:
        first = found.special_files[0]
        raise WorkspaceError(f"workspace publication does not support {first.kind}: {first.path}")


def digest(root: str, path: FilePath, expected: FileStat) -> str:
    """Hex MD5 of a scanned file; `WorkspaceError` if it was changed or replaced since the scan."""
    checksum = hashlib.md5(usedforsecurity=False)
    try:
        descriptor = os.open(f"{root}/{path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            while block := os.read(descriptor, HASH_BLOCK):
                checksum.update(block)
            after = file_stat(os.fstat(descriptor))
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _unreadable(path, error) from error
    if after != expected:
        raise changed_meanwhile(path)
    return checksum.hexdigest()


def require_unchanged(root: str, path: FilePath, expected: FileStat) -> None:
    """`WorkspaceError` unless the file is as scanned, so that what was read of it since the scan is its content."""
    if not is_unchanged(root, path, expected):
        raise changed_meanwhile(path)


def is_unchanged(root: str, path: FilePath, expected: FileStat) -> bool:
    try:
        return file_stat(os.lstat(f"{root}/{path}")) == expected
    except OSError as error:
        raise _unreadable(path, error) from error


def changed_meanwhile(path: str) -> WorkspaceError:
    return WorkspaceError(f"file {path!r} changed while it was read for publication; something still writes to the workspace")


def _unreadable(path: str, error: OSError) -> WorkspaceError:
    if error.errno == errno.ENOENT:
        return WorkspaceError(f"{path!r} vanished from the workspace while it was read for publication")
    return WorkspaceError(f"cannot read {path!r} in the workspace: {error.strerror}")
