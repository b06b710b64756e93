"""Hashes large input files while the body of the task already uses them. A process of `input_verification`.

Each file is hashed as far as it was received. Before the body starts, the process takes a read lease on each file: the kernel
then lets anything that opens the file for writing, or truncates it, wait until the file is hashed and the lease is given back. It
is a process and not a thread, because code that holds the interpreter lock while it opens a file would otherwise wait for itself.

Stdin has one JSON message per line: `{"file": path, "size": n, "checksum": text}`, `{"received": path, "bytes": n}`,
`{"seal": true}` when everything is received. The answers: `{"unprotected": [path, …]}` to the seal, and one
`{"file": path, "md5": text, "matches": bool, "intact": bool}` per file, or `{"file": path, "error": text}`.
"""

import hashlib
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from perago.lake import multipart_etag
from perago.workspace import read_lease

_BLOCK = 1 << 20
_BLOCKS_PER_TURN = 8
_LOWEST_PRIORITY = 19
_LEASE_SECONDS = Path("/proc/sys/fs/lease-break-time")
_LEAST_LEASE_SECONDS = 30


class InputFile:
    """One file. `received` is the number of bytes from its beginning that are there."""

    def __init__(self, path: str, size: int, checksum: str) -> None:
        self.path = path
        self.size = size
        self.received = 0
        self.is_taken = False
        self._checksum = checksum
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._hashed = 0
        self._sealed: tuple[int, int, int] | None = None
        self._is_leased = False

    @property
    def has_work(self) -> bool:
        return not self.is_taken and self._hashed < self.received

    @property
    def is_hashed(self) -> bool:
        return self._hashed == self.size

    @property
    def is_awaited(self) -> bool:
        """Whether something waits until it may write to the file."""
        return self._is_leased and not self._holds_lease()

    def seal(self) -> bool:
        """Protect the file from changes; False if this file system cannot."""
        self._sealed = self._status()
        self._is_leased = read_lease.take(self._descriptor)
        return self._is_leased

    def hash_some(self) -> None:
        """Hash the next blocks. `OSError` if the file cannot be read or is shorter than what was received."""
        for _ in range(_BLOCKS_PER_TURN):
            wanted = min(_BLOCK, self.received - self._hashed)
            if not wanted:
                return
            block = os.pread(self._descriptor, wanted, self._hashed)
            if not block:
                raise OSError(0, "it ends early")
            self._md5.update(block)
            self._hashed += len(block)

    def result(self) -> dict[str, Any]:
        """The MD5, whether it is the announced one, and whether the hashed bytes are certainly those that were received."""
        md5 = self._md5.hexdigest()
        matches = (
            not multipart_etag.is_digest(self._checksum)
            or md5 == self._checksum
            or multipart_etag.match(Path(f"/proc/self/fd/{self._descriptor}"), self.size, md5, self._checksum)
        )
        intact = self._holds_lease() or self._sealed is None or self._status() == self._sealed
        return {"file": self.path, "md5": md5, "matches": matches, "intact": intact}

    def close(self) -> None:
        """Gives the lease back too."""
        os.close(self._descriptor)

    def _holds_lease(self) -> bool:
        return self._is_leased and read_lease.is_held(self._descriptor)

    def _status(self) -> tuple[int, int, int]:
        status = os.fstat(self._descriptor)
        return status.st_size, status.st_mtime_ns, status.st_ctime_ns


class VerificationProcess:
    """All files, and the threads that hash them: one of lowest priority while files are received, one per core afterwards."""

    def __init__(self) -> None:
        self._files: dict[str, InputFile] = {}
        self._change = threading.Condition()
        self._is_sealed = False
        self._output = threading.Lock()

    def serve(self) -> None:
        """Until the owner closes stdin, or until everything is hashed."""
        self._start(polite=True)
        for line in sys.stdin:
            self._take(json.loads(line))
        os._exit(0)

    def _take(self, message: dict[str, Any]) -> None:
        if "seal" in message:
            self._seal()
            return
        with self._change:
            if "file" in message:
                path = message["file"]
                self._files[path] = InputFile(path, message["size"], message["checksum"])
            elif file := self._files.get(message["received"]):
                # Several threads send these, in any order, so the last number may have come before this one.
                file.received = max(file.received, message["bytes"])
            self._change.notify_all()

    def _seal(self) -> None:
        with self._change:
            can_protect = _leases_last()
            unprotected = [file.path for file in self._files.values() if not (can_protect and file.seal())]
            self._is_sealed = True
            self._say({"unprotected": unprotected})
            self._end_if_done()
            self._change.notify_all()
        for _ in range(min(os.cpu_count() or 1, len(self._files))):
            self._start(polite=False)

    def _start(self, *, polite: bool) -> None:
        threading.Thread(target=self._work, args=(polite,), daemon=True).start()

    def _work(self, polite: bool) -> None:
        if polite:
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST_PRIORITY)
        while (file := self._next_file(polite=polite)) is not None:
            try:
                file.hash_some()
                answer = file.result() if file.is_hashed else None
            except OSError as error:
                answer = {"file": file.path, "error": error.strerror}
            with self._change:
                file.is_taken = False
                self._change.notify_all()
                if answer is not None:
                    self._finish(file, answer)

    def _next_file(self, *, polite: bool) -> InputFile | None:
        with self._change:
            while not (polite and self._is_sealed):
                candidates = [file for file in self._files.values() if file.has_work]
                if candidates:
                    file = next((file for file in candidates if file.is_awaited), candidates[0])
                    file.is_taken = True
                    return file
                self._change.wait()
        return None

    def _finish(self, file: InputFile, answer: dict[str, Any]) -> None:
        del self._files[file.path]
        file.close()
        self._say(answer)
        self._end_if_done()

    def _end_if_done(self) -> None:
        if self._is_sealed and not self._files:
            os._exit(0)

    def _say(self, answer: dict[str, Any]) -> None:
        with self._output:
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


def _leases_last() -> bool:
    """Whether the kernel lets a writer wait long enough; 0 means for any time."""
    try:
        seconds = int(_LEASE_SECONDS.read_text())
    except (OSError, ValueError):
        return False
    return seconds == 0 or seconds >= _LEAST_LEASE_SECONDS


if __name__ == "__main__":
    VerificationProcess().serve()
