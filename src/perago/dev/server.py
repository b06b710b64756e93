"""One server process: a command and a health address go in; it starts, tells why it died, and starts again."""

import contextlib
import random
import shutil
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from perago.errors import DevStackError, SetupError
from perago.http.failure import ConnectionBroken
from perago.http.fetch import fetch
from perago.process import child_process
from perago.process.stop_request import StopRequest
from perago.provision.cache import no_space
from perago.provision.progress import Progress, Report

HOST = "127.0.0.1"
_HEALTH_PAUSE = 0.1
_HEALTH_TIMEOUT = 2.0
_START_SECONDS = 300.0
# Below the range from which systems take ports for outgoing connections, so that a server can come back on its port.
_FREE_PORTS = range(20000, 30000)
_OK = 200


@dataclass(frozen=True, slots=True)
class Health:
    """Where to ask, and how to read the answer."""

    port: int
    path: str
    healthy: Callable[[bytes], bool]


class Server:
    """A server on a fixed port and directory; `start` after `kill` or `stop` brings back the same one."""

    __slots__ = ("_child", "_command", "_health", "_report", "_stop_request", "name")

    def __init__(
        self, name: str, command: child_process.Command, health: Health, *, stop_request: StopRequest, report: Report
    ) -> None:
        self.name = name
        self._command = command
        self._health = health
        self._stop_request = stop_request
        self._report = report
        self._child: child_process.ChildProcess | None = None

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def port(self) -> int:
        return self._health.port

    @property
    def log(self) -> Path:
        return self._command.log

    @property
    def descriptor(self) -> int:
        """Readable when the server has ended."""
        return self._running().descriptor

    def start(self) -> None:
        self.launch()
        self.wait_healthy()

    def launch(self) -> None:
        """Starts the process and does not wait for it."""
        if self._child is not None and self._child.exit_code() is None:
            raise DevStackError(f"{self.name} runs already")
        self._child = child_process.ChildProcess(self._command)

    def wait_healthy(self) -> None:
        step = f"{self.name} on port {self.port}"
        began = time.monotonic()
        while not self._answers():
            self.check()
            waited = time.monotonic() - began
            if waited > _START_SECONDS:
                raise DevStackError(f"{self.name} is not healthy after {_START_SECONDS:.0f} s; log: {self._kept_log()}")
            self._report(Progress(step, f"waiting for health, {waited:.0f} s"))
            self._stop_request.wait([self.descriptor], _HEALTH_PAUSE)
        self._report(Progress(step, f"healthy after {time.monotonic() - began:.1f} s", finished=True))

    def check(self) -> None:
        """Raises, with the reason, if the server has ended."""
        code = self._running().exit_code()
        if code is not None:
            raise died(self.name, code, self._kept_log(), self.port)

    def _kept_log(self) -> Path:
        """A log in a directory that is about to disappear is copied out of it."""
        kept = self._command.keep_log
        if kept is None:
            return self.log
        with contextlib.suppress(OSError):
            shutil.copyfile(self.log, kept)
        return kept

    def kill(self) -> None:
        """Ends it as a crash would."""
        if self._child is not None:
            self._child.kill()

    def stop(self) -> None:
        if self._child is not None:
            self._child.stop()

    def _running(self) -> child_process.ChildProcess:
        if self._child is None:
            raise DevStackError(f"{self.name} was not started")
        return self._child

    def _answers(self) -> bool:
        try:
            reply = fetch(f"http://{HOST}:{self._health.port}{self._health.path}", timeout=_HEALTH_TIMEOUT)
        except ConnectionBroken:
            return False
        return reply.status == _OK and self._health.healthy(reply.body)


def died(name: str, code: int, log: Path, port: int) -> SetupError:
    """Says in one line how a server ended, and why if its log gives it away."""
    said = child_process.tail(log).lower()
    if "no space left on device" in said or "disk is full" in said:
        return no_space(log.parent)
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    why = f" (port {port} is in use)" if "already in use" in said and code > 0 else ""
    return DevStackError(f"{name} {how}{why}; log: {log}")


def check_port(name: str, port: int, option: str) -> None:
    """Refuses a port that somebody else has; 0 leaves the choice to us."""
    if port and not _free(port):
        raise DevStackError(f"port {port} for {name} is in use; stop what uses it or choose another with {option}")


def free_port() -> int:
    """Any port that nobody has just now."""
    for port in random.sample(_FREE_PORTS, 100):
        if _free(port):
            return port
    raise DevStackError(
        f"no free port found between {_FREE_PORTS[0]} and {_FREE_PORTS[-1]}; name two with --conductor-port and --lakefs-port"
    )


def _free(port: int) -> bool:
    with socket.socket() as probe:
        # As the servers do: a port whose last connections are still fading away counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except PermissionError as error:
            raise DevStackError(f"port {port} is reserved for the system; choose one from 1024 up") from error
        except OSError:
            return False
    return True
