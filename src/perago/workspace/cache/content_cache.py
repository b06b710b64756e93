"""File contents that this host already has, shared by all executors and tasks, within a size bound.

Small contents lie together in a `drawer`; what is larger is an entry of its own, named by its content (MD5 and size). Nobody but
this module opens one for writing: bodies get copies. A complete entry gets a fixed modification time, made from the boot id. A
crash of its writer leaves it without, whoever writes to it later moves that time, and a power failure changes the boot id: an
entry that may be damaged is hashed before it is used.
"""

import contextlib
import fcntl
import hashlib
import os
import stat
import threading
import time
from collections.abc import Callable, Collection, Generator
from pathlib import Path

from perago.workspace.cache import eviction, small_object_db
from perago.workspace.transfer import file_copy

DEFAULT_LIMIT = 10 << 30
_USE_STEP_NS = 3600 * 10**9
"""Last use is kept to the hour: one more system call per file and attempt would buy nothing."""
_REPORT_BYTES = 64 << 20


def _trusted(_: str) -> bool:
    return True


class Cache:
    """All methods are safe between threads and processes. A fault of the cache itself never fails an attempt: it just misses."""

    def __init__(self, root: Path, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._root = str(root.absolute())
        self._stamp_ns = _boot_stamp_ns()
        self._lock = threading.Lock()
        self._unreported = 0
        self._usable = limit > 0 and _own_directory(root)
        self._small = small_object_db.Drawer(self._root)

    @property
    def is_on(self) -> bool:
        return self._usable

    @property
    def root(self) -> Path:
        return Path(self._root)

    def restore(self, md5: str, size: int, target: str, mode: int = file_copy.FILE_MODE) -> os.stat_result | None:
        """A copy of the content in the new file `target`, or None if the cache does not have it (any more)."""
        if not self._usable:
            return None
        restore = self._restore_small if size <= small_object_db.LARGEST else self._restore_entry
        return restore(md5, size, target, mode)

    def small(self, md5s: Collection[str]) -> dict[str, bytes]:
        """Contents that it has, of at most `small_object_db.TAKEN_TOGETHER` small ones."""
        return self._small.take(md5s) if self._usable and md5s else {}

    def insert(self, source: str, md5: str, size: int, *, is_right: Callable[[str], bool] = _trusted) -> None:
        """Keep the content of a file whose MD5 and size the caller knows.

        Where somebody might still write to it, `is_right` has to vouch for the copy, whose path it gets.
        """
        if not self._usable or eviction.cost(size) > self._limit:
            return
        if size <= small_object_db.LARGEST:
            self._insert_small(source, md5, size)
            return
        name = self._entry(md5, size)
        try:
            if self._place(source, name, size, is_right):
                self.count(size)
        except OSError:
            self._usable = _own_directory(Path(self._root)) and not _is_full(self._root)

    def keep(self, md5: str, data: bytes) -> None:
        """The same for bytes at hand that have this MD5; at most `small_object_db.LARGEST` of them."""
        if self._usable and small_object_db.cost(len(data)) <= self._limit:
            self._small.put(md5, data)
            self._report(small_object_db.cost(len(data)), min(_REPORT_BYTES, self._limit // 8))

    def holds(self, md5: str, size: int) -> bool:
        if size <= small_object_db.LARGEST:
            return bool(self.small([md5]))
        return self._usable and _exists(self._entry(md5, size))

    def flush(self) -> None:
        """Write and book what this process added; trims if the cache has outgrown its limit."""
        if self._usable:
            self._report(0, 1)
            self._small.flush()

    def trim(self) -> None:
        """Throw out what was not used for longest until the limit is kept, and what crashed writers left behind."""
        with contextlib.suppress(OSError), self._usage_file() as usage:
            _write_number(usage, self._evict())

    def _restore_small(self, md5: str, size: int, target: str, mode: int) -> os.stat_result | None:
        data = self.small([md5]).get(md5)
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
            if not self._is_sound(source, md5, size):
                eviction.unlink(name)
                return None
            return file_copy.copy(source, size, target, mode)
        except OSError:
            return None
        finally:
            os.close(source)

    def _insert_small(self, source: str, md5: str, size: int) -> None:
        """Hashed here, because a wrong entry would stand in the way of the right one."""
        try:
            descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                data = os.read(descriptor, size + 1)
            finally:
                os.close(descriptor)
        except OSError:
            return
        if len(data) == size and hashlib.md5(data, usedforsecurity=False).hexdigest() == md5:
            self.keep(md5, data)

    def _evict(self) -> int:
        self._small.flush()
        try:
            return eviction.evict(self._root, self._limit, self._small.held())
        finally:
            self._small.flush()

    def _is_sound(self, source: int, md5: str, size: int) -> bool:
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

    def _place(self, source: str, name: str, size: int, is_right: Callable[[str], bool]) -> bool:
        """Written under its own name, and believed only once it is stamped: one directory entry instead of a second and a rename.

        False where somebody else was quicker, or where the copy is not what it should be because its source changed meanwhile.
        """
        reader = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            written = _new_copy(reader, size, name)
        except FileExistsError:
            return False
        finally:
            os.close(reader)
        if written.st_size != size or not is_right(name):
            eviction.unlink(name)
            return False
        os.utime(name, ns=(time.time_ns(), self._stamp_ns))
        return True

    def _entry(self, md5: str, size: int) -> str:
        return f"{self._root}/objects/{md5[:2]}/{md5}-{size}"

    def count(self, size: int) -> None:
        """A file of that size is new in the cache's directory."""
        self._report(eviction.cost(size), min(_REPORT_BYTES, self._limit // 8))

    def _report(self, cost: int, threshold: int) -> None:
        with self._lock:
            self._unreported += cost
            if not self._usable or self._unreported < threshold:
                return
            added, self._unreported = self._unreported, 0
        with contextlib.suppress(OSError):
            self._book(added)

    def _book(self, added: int) -> None:
        """The running total is an estimate that a crash may leave wrong; each trim counts anew."""
        with self._usage_file() as usage:
            total = _read_number(usage) + added
            if total > self._limit:
                total = self._evict()
            _write_number(usage, total)

    @contextlib.contextmanager
    def _usage_file(self) -> Generator[int]:
        descriptor = os.open(f"{self._root}/usage", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)


def _own_directory(root: Path) -> bool:
    """Ours alone: whoever else could write there could put wrong bytes into every later workspace."""
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
    """Whole even seconds between 2001 and 2009: no file system rounds them, and no clock of today writes them by itself."""
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


def has_digest(path: str, md5: str) -> bool:
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


def _read_number(descriptor: int) -> int:
    text = os.pread(descriptor, 32, 0).strip()
    return int(text) if text.isdigit() else 0


def _write_number(descriptor: int, number: int) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, b"%d" % number, 0)
