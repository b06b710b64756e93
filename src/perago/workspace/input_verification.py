"""Verification of large input files that goes on while the body runs. Nothing is published or completed before it has succeeded.

One core computes the MD5 of a file at about 600 MB/s, which is slower than a fast network. So the download does not wait for it;
`verification_process` hashes the files, and protects them from changes by the body until it has.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from perago.errors import LakeCorrupt, PeragoError, WorkspaceError
from perago.model import FilePath

LARGEST = 8 << 30
"""Bytes of the largest file that is verified while the body runs. The kernel lets a writer wait for a file for 45 seconds."""
MAX_PENDING = 256
"""Files that may be open for verification at once."""
COMMAND = (sys.executable, "-P", "-m", "perago.workspace.verification_process")
_TICK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class _Pending:
    path: FilePath
    what: str
    checksum: str


class InputVerification:
    """Used by the threads of one attempt: add, received, then once protect and wait; `stop` always."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._change = threading.Condition()
        self._sending = threading.Lock()
        self._reserved = 0
        self._pending: dict[str, _Pending] = {}
        self._verified: dict[FilePath, str] = {}
        self._unprotected: set[str] | None = None
        self._error: PeragoError | None = None
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self.files = 0
        self.bytes = 0

    def reserve(self) -> bool:
        """Whether another file may be added; if so, it must be."""
        with self._change:
            if self._reserved == MAX_PENDING:
                return False
            self._reserved += 1
            return True

    def add(self, path: FilePath, what: str, size: int, checksum: str) -> None:
        """A new file, of which nothing was received so far. `what` names it in errors."""
        at = f"{self._root}/{path}"
        with self._change:
            self._pending[at] = _Pending(path, what, checksum)
            self.files += 1
            self.bytes += size
        self._send({"file": at, "size": size, "checksum": checksum})

    def received(self, path: FilePath, count: int) -> None:
        """The first `count` bytes of the file are complete. The last time, no other descriptor is open for writing any more."""
        self._send({"received": f"{self._root}/{path}", "bytes": count})

    def protect(self, tick: Callable[[], None]) -> None:
        """Call it before the body starts. Where files cannot be protected from changes, waits until they are verified."""
        if self._process is None:
            return
        self._send({"seal": True})
        self._wait_until(lambda: self._unprotected is not None and self._unprotected.isdisjoint(self._pending), tick)

    def wait(self, tick: Callable[[], None]) -> Mapping[FilePath, str]:
        """Wait until all files are verified; returns their MD5s. `LakeCorrupt` names one with other bytes than announced."""
        self._wait_until(lambda: not self._pending, tick)
        return self._verified

    def stop(self) -> None:
        """End the process; waiting threads get an error."""
        if self._process is not None:
            self._process.kill()
        if self._reader is not None:
            self._reader.join()

    def _wait_until(self, is_reached: Callable[[], bool], tick: Callable[[], None]) -> None:
        while True:
            with self._change:
                if self._error is not None:
                    raise self._error
                if is_reached():
                    return
                self._change.wait(_TICK_SECONDS)
            tick()

    def _send(self, message: Mapping[str, object]) -> None:
        with self._sending:
            process = self._process or self._start()
            if process.stdin is None:
                raise AssertionError("the process has been started with a pipe")
            try:
                process.stdin.write(json.dumps(message) + "\n")
                process.stdin.flush()
            except OSError as error:
                raise self._ended() from error

    def _start(self) -> subprocess.Popen[str]:
        try:
            self._process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        except OSError as error:
            raise WorkspaceError(f"cannot start the process that verifies large files: {error.strerror}") from error
        self._reader = threading.Thread(target=self._read, args=(self._process,), name="perago-verify", daemon=True)
        self._reader.start()
        return self._process

    def _read(self, process: subprocess.Popen[str]) -> None:
        """Take the answers. The process ends by itself after the last one."""
        with process:
            for line in process.stdout or ():
                with self._change:
                    self._take(json.loads(line))
                    self._change.notify_all()
        with self._change:
            if self._pending:
                self._error = self._error or self._ended()
            self._change.notify_all()

    def _take(self, answer: Mapping[str, Any]) -> None:
        if "unprotected" in answer:
            self._unprotected = set(answer["unprotected"])
            return
        file = self._pending.pop(answer["file"])
        self._reserved -= 1
        problem = _problem(file, answer)
        if problem is None:
            self._verified[file.path] = answer["md5"]
        else:
            self._error = self._error or problem

    def _ended(self) -> WorkspaceError:
        return WorkspaceError("the process that verifies large files has ended before it had verified all of them")


def _problem(file: _Pending, answer: Mapping[str, Any]) -> PeragoError | None:
    if "error" in answer:
        return WorkspaceError(f"cannot read {str(file.path)!r} in the workspace to verify it: {answer['error']}")
    if not answer["intact"]:
        return WorkspaceError(
            f"{str(file.path)!r} was changed before it was verified, so it is unknown whether its input was right"
        )
    if not answer["matches"]:
        return LakeCorrupt(f"{file.what}: MD5 {answer['md5']}, {file.checksum} was announced")
    return None
