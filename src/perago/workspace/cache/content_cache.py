"""A cache of file contents of limited size, shared by all executors and tasks of this host.

Small contents are rows of `small_object_db`; a larger one is a file named by its MD5 and size. Only this module writes these
files: bodies get copies. A complete file gets a fixed modification time, derived from the boot id. It is missing after a crash of
the writer, a later write changes it, and a power failure changes the boot id; a file without it is hashed before it is used.
"""

import contextlib
import hashlib
import os
import stat
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path

from perago.process.lock_file import LockFile
from perago.workspace.cache import eviction, small_object_db
from perago.workspace.transfer import file_copy

DEFAULT_LIMIT = 10 << 30
_USE_STEP_NS = 3600 * 10**9
"""Last use is recorded to the hour, to save one system call per file and attempt."""
_USAGE_STEP_BYTES = 64 << 20
"""Additions are added to the shared total in steps of this size."""


def _assume_intact(_: str) -> bool:
    return True


class ContentCache:
    """Safe for use by several threads and processes. A failure of the cache itself is a miss and never fails an attempt."""

    def __init__(self, root: Path, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._root = str(root.absolute())
        self._stamp_ns = _boot_stamp_ns()
        self._lock = threading.Lock()
        self._uncounted = 0
        self._usable = limit > 0 and _own_directory(root)
        self._small = small_object_db.SmallObjectDb(self._root)

    @property
    def is_enabled(self) -> bool:
        return self._usable

    @property
    def root(self) -> Path:
        return Path(self._root)

    def restore(self, md5: str, size: int, target: str, mode: int = file_copy.FILE_MODE) -> os.stat_result | None:
        """Copy the content to the new file `target` and return its status; None if the cache does not have it."""
        if not self._usable:
            return None
        restore = self._restore_small if size <= small_object_db.MAX_SIZE else self._restore_entry
        return restore(md5, size, target, mode)

    def get_small(self, md5s: Collection[str]) -> dict[str, bytes]:
        """Those of at most `small_object_db.MAX_KEYS` small contents that are cached, by MD5."""
        return self._small.get_many(md5s) if self._usable and md5s else {}

    def insert(self, source: str, md5: str, size: int, *, is_intact: Callable[[str], bool] = _assume_intact) -> None:
        """Cache the content of a file whose MD5 and size are known.

        If the file may still be written to, `is_intact` gets the path of the copy and decides whether it is kept.
        """
        if not self._usable or eviction.cost(size) > self._limit:
            return
        if size <= small_object_db.MAX_SIZE:
            self._insert_small_file(source, md5, size)
            return
        name = self._entry(md5, size)
        try:
            if self._insert_file(source, name, size, is_intact):
                self.count_file(size)
        except OSError:
            self._usable = _own_directory(Path(self._root)) and not _is_full(self._root)

    def adopt(self, source: int, path: str, md5: str, size: int) -> bool:
        """Move a file into the cache that nothing can write to any more; False if that is not possible.

        `source` is the open file at `path`.
        """
        name = self._entry(md5, size)
        if not self._usable or size <= small_object_db.MAX_SIZE or eviction.cost(size) > self._limit or _exists(name):
            return False
        try:
            Path(name).parent.mkdir(mode=0o700, exist_ok=True)
            os.fchmod(source, 0o600)
            os.rename(path, name)  # noqa: PTH104 (strings throughout: see file_copy)
            os.utime(source, ns=(time.time_ns(), self._stamp_ns))
        except OSError:
            return False
        self.count_file(size)
        return True

    def insert_small(self, md5: str, data: bytes) -> None:
        """Cache at most `small_object_db.MAX_SIZE` bytes that have this MD5."""
        if self._usable and small_object_db.cost(len(data)) <= self._limit:
            self._small.put(md5, data)
            self._count(small_object_db.cost(len(data)), min(_USAGE_STEP_BYTES, self._limit // 8))

    def contains(self, md5: str, size: int) -> bool:
        if size <= small_object_db.MAX_SIZE:
            return bool(self.get_small([md5]))
        return self._usable and _exists(self._entry(md5, size))

    def flush(self) -> None:
        """Write what this process added and count it; trims the cache if it exceeds its limit."""
        if self._usable:
            self._count(0, 1)
            self._small.flush()

    def trim(self) -> None:
        """Remove the least recently used contents until the limit is met, and what crashed writers left behind."""
        with contextlib.suppress(OSError), self._usage_file() as usage:
            usage.write(b"%d" % self._evict())

    def _restore_small(self, md5: str, size: int, target: str, mode: int) -> os.stat_result | None:
        data = self.get_small([md5]).get(md5)
        if data is None or len(data) != size:
            return None
        try:
            return file_copy.create(data, target, mode)
        except OSError:
            return None

    def _restore_entry(self, md5: str, size: int, target: str, mode: int) -> os.stat_result | None:
        name = self._entry(md5, size)
        try:
            source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError:
            eviction.unlink(name)
            return None
        try:
            if not self._is_intact(source, md5, size):
                eviction.unlink(name)
                return None
            return file_copy.copy(source, size, target, mode)
        except OSError:
            return None
        finally:
            os.close(source)

    def _insert_small_file(self, source: str, md5: str, size: int) -> None:
        """Hashes the content, because a wrong entry would keep the right one from being inserted."""
        try:
            descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                data = os.read(descriptor, size + 1)
            finally:
                os.close(descriptor)
        except OSError:
            return
        if len(data) == size and hashlib.md5(data, usedforsecurity=False).hexdigest() == md5:
            self.insert_small(md5, data)

    def _evict(self) -> int:
        self._small.flush()
        try:
            return eviction.evict(self._root, self._limit, self._small.evictable())
        finally:
            self._small.flush()

    def _is_intact(self, source: int, md5: str, size: int) -> bool:
        status = os.fstat(source)
        if status.st_size != size or not stat.S_ISREG(status.st_mode):
            return False
        now = time.time_ns()
        if status.st_mtime_ns != self._stamp_ns:
            if _digest(source) != md5:
                return False
        elif now - status.st_atime_ns < _USE_STEP_NS:
            return True
        with contextlib.suppress(OSError):
            os.utime(source, ns=(now, self._stamp_ns))
        return True

    def _insert_file(self, source: str, name: str, size: int, is_intact: Callable[[str], bool]) -> bool:
        """Write under the final name and stamp when complete: this saves the rename of a temporary file.

        False if the file exists already, or if the copy is wrong because its source was changed meanwhile.
        """
        reader = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            written = _new_copy(reader, size, name)
        except FileExistsError:
            return False
        finally:
            os.close(reader)
        if written.st_size != size or not is_intact(name):
            eviction.unlink(name)
            return False
        os.utime(name, ns=(time.time_ns(), self._stamp_ns))
        return True

    def _entry(self, md5: str, size: int) -> str:
        return f"{self._root}/objects/{md5[:2]}/{md5}-{size}"

    def count_file(self, size: int) -> None:
        """Count a new file of that size in the cache's directory."""
        self._count(eviction.cost(size), min(_USAGE_STEP_BYTES, self._limit // 8))

    def _count(self, cost: int, threshold: int) -> None:
        with self._lock:
            self._uncounted += cost
            if not self._usable or self._uncounted < threshold:
                return
            added, self._uncounted = self._uncounted, 0
        with contextlib.suppress(OSError):
            self._add_to_total(added)

    def _add_to_total(self, added: int) -> None:
        """The total is an estimate, which may be wrong after a crash; each eviction computes it again."""
        with self._usage_file() as usage:
            total = _read_number(usage) + added
            if total > self._limit:
                total = self._evict()
            usage.write(b"%d" % total)

    def _usage_file(self) -> LockFile:
        return LockFile(f"{self._root}/usage", wait=True)


def _own_directory(root: Path) -> bool:
    """Create it; False if another user could write there, and so put wrong bytes into every later workspace."""
    try:
        for directory in (root, root / "objects", root / "listings", root / "new"):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = root.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _is_full(root: str) -> bool:
    free = os.statvfs(root)
    return free.f_bavail == 0 or (free.f_files > 0 and free.f_favail == 0)


def _boot_stamp_ns() -> int:
    """Whole even seconds between 2001 and 2009: no file system rounds them, and no present clock produces them."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    except OSError:
        boot = b""
    offset = int.from_bytes(hashlib.sha256(boot).digest()[:4], "big") % (1 << 28)
    return (1_000_000_000 + offset // 2 * 2) * 10**9


def _digest(source: int) -> str:
    checksum = hashlib.md5(usedforsecurity=False)
    while block := os.read(source, file_copy.BLOCK):
        checksum.update(block)
    os.lseek(source, 0, os.SEEK_SET)
    return checksum.hexdigest()


def has_md5(path: str, md5: str) -> bool:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _digest(descriptor) == md5
    finally:
        os.close(descriptor)


def _exists(path: str) -> bool:
    try:
        os.lstat(path)
    except OSError:
        return False
    return True


def _new_copy(reader: int, size: int, name: str) -> os.stat_result:
    try:
        return file_copy.copy(reader, size, name, 0o600)
    except FileNotFoundError:
        Path(name).parent.mkdir(mode=0o700, exist_ok=True)
        return file_copy.copy(reader, size, name, 0o600)


def _read_number(file: LockFile) -> int:
    text = file.read().strip()
    return int(text) if text.isdigit() else 0
