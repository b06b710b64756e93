"""One server process: starts it, waits until it is healthy, explains its end, and can start it again."""

import contextlib
import random
import shutil
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from perago.errors import DevStackError, SetupError
from perago.http.failure import ConnectionBroken
from perago.http.fetch import fetch
from perago.process import child_process
from perago.process.exit_status import ExitStatus
from perago.process.stop_request import StopRequest
from perago.provision.artifact_cache import no_space
from perago.provision.progress import InstallProgress, Report

HOST = "127.0.0.1"
_HEALTH_PAUSE = 0.1
_HEALTH_TIMEOUT = 2.0
_START_SECONDS = 300.0
# Below the range from which systems take ports for outgoing connections, so that a restarted server gets its port again.
_FREE_PORTS = range(20000, 30000)
_OK = 200


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """The address of the health check, and whether a response body means healthy."""

    port: int
    path: str
    healthy: Callable[[bytes], bool]


class Server:
    """A server with a fixed port and directory. After `kill` or `stop` it can be started again, with the same state."""

    __slots__ = ("_child", "_command", "_health", "_report", "_stop_request", "name")

    def __init__(
        self, name: str, command: child_process.Command, health: HealthCheck, *, stop_request: StopRequest, report: Report
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
        if self._command.log is None:
            raise AssertionError("a server has a log")
        return self._command.log

    @property
    def descriptor(self) -> int:
        """Readable when the server has ended."""
        return self._running().descriptor

    def start(self) -> None:
        self.launch()
        self.wait_healthy()

    def launch(self) -> None:
        """Starts the process, without waiting until it is healthy."""
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
            self._report(InstallProgress(step, f"waiting for health, {waited:.0f} s"))
            self._stop_request.wait([self.descriptor], _HEALTH_PAUSE)
        self._report(InstallProgress(step, f"healthy after {time.monotonic() - began:.1f} s", finished=True))

    def check(self) -> None:
        """Raises, with the reason, if the server has ended."""
        code = self._running().exit_code()
        if code is not None:
            raise exit_error(self.name, code, self._kept_log(), self.port)

    def _kept_log(self) -> Path:
        """The log, copied to another directory if its own will be removed."""
        kept = self._command.keep_log
        if kept is None:
            return self.log
        with contextlib.suppress(OSError):
            shutil.copyfile(self.log, kept)
        return kept

    def kill(self) -> None:
        """Kills it, as a crash would end it."""
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


def exit_error(name: str, code: int, log: Path, port: int) -> SetupError:
    """How a server ended in one line, with the reason if its log shows it."""
    output = child_process.tail(log).lower()
    if "no space left on device" in output or "disk is full" in output:
        return no_space(log.parent)
    why = f" (port {port} is in use)" if "already in use" in output and code > 0 else ""
    return DevStackError(f"{name} {ExitStatus(code)}{why}; log: {log}")


def check_port(name: str, port: int, option: str) -> None:
    """Raises DevStackError if the port is in use. Port 0 means any free one."""
    if port and not _is_free(port):
        raise DevStackError(f"port {port} for {name} is in use; stop what uses it or choose another with {option}")


def free_port() -> int:
    """A port that is not in use at this moment."""
    for port in random.sample(_FREE_PORTS, 100):
        if _is_free(port):
            return port
    raise DevStackError(
        f"no free port found between {_FREE_PORTS[0]} and {_FREE_PORTS[-1]}; name two with --conductor-port and --lakefs-port"
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the servers do: a port whose last connections are in TIME_WAIT can be bound.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except PermissionError as error:
            raise DevStackError(f"port {port} is reserved for the system; choose one from 1024 up") from error
        except OSError:
            return False
    return True
