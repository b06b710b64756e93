"""One process of the worker under test, with proxies of its own between it and both servers."""

import contextlib
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perago.certify import contract
from perago.errors import ProvisionError, SetupError
from perago.fault_proxy.messages import Message
from perago.fault_proxy.proxy import FaultProxy
from perago.model import LakeAccess
from perago.process import child_process, guardian
from perago.process.child_process import ChildProcess, Command
from perago.settings import ConductorAccess

_GRACE_SECONDS = 5.0
_POLL = re.compile(rb"^(GET [^ ]*/tasks/poll/[^ ?]*)(\?[^ ]*)?( HTTP)")
_DOMAIN = re.compile(rb"(?<=[?&])domain=[^&]*&?")


@dataclass(frozen=True, slots=True)
class WorkerCommand:
    """How workers are started, and which servers they use (through proxies)."""

    words: Sequence[str]
    """The program and its arguments."""
    task_type: str
    conductor: ConductorAccess
    lakefs: LakeAccess
    directory: Path
    """For the files of all workers of the run."""
    logs: Path
    """For their output, a file for each process."""

    def environment(self, conductor_url: str, lakefs_url: str) -> dict[str, str]:
        """Of this process, with the settings of the servers. Those of Perago's own directories do not matter to other workers."""
        settings = {
            "CONDUCTOR_SERVER_URL": conductor_url,
            "CONDUCTOR_AUTH_KEY": self.conductor.auth_key,
            "CONDUCTOR_AUTH_SECRET": self.conductor.auth_secret,
            "LAKECTL_SERVER_ENDPOINT_URL": lakefs_url,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": self.lakefs.access_key_id,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": self.lakefs.secret_access_key,
            "PERAGO_SERVE_BUILT_IN_TASKS": "false",
            contract.TASK_TYPE_VARIABLE: self.task_type,
        }
        roots = {f"PERAGO_{root}_ROOT": str(self.directory / root.lower()) for root in ("WORKSPACE", "LOG", "CACHE")}
        given = {name: value for name, value in settings.items() if value is not None}
        return {**os.environ, **roots, **given, "PATH": search_path()}


def search_path() -> str:
    """Where the program is looked for. `perago` is found also where its environment is not activated."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])


class WorkerProcess:
    """The worker and everything that it starts run under a guardian, which ends all of them with this process.

    All its polls are for one domain of Conductor, which the proxy adds: it takes only tasks that were meant for it, whatever
    other workers run, and does not have to know that.
    """

    def __init__(self, command: WorkerCommand, name: str, domain: str) -> None:
        self.name = name
        self.log = command.logs / f"{name}.log"
        self._task_type = command.task_type
        with contextlib.ExitStack() as opened:
            self.conductor = opened.enter_context(FaultProxy(command.conductor.url, amend=_domain_adder(domain)))
            self.lakefs = opened.enter_context(FaultProxy(command.lakefs.url))
            self._child = self._start(command)
            self._proxies = opened.pop_all()
        self._stopped: set[int] = set()

    def _start(self, command: WorkerCommand) -> ChildProcess:
        environment = command.environment(self.conductor.url, self.lakefs.url)
        try:
            return ChildProcess(Command(command.words, Path.cwd(), self.log, environment, _GRACE_SECONDS))
        except ProvisionError as error:
            raise SetupError(f"the worker cannot be started: {error}; check --worker {shlex.join(command.words)!r}") from error

    @property
    def has_polled(self) -> bool:
        """Whether it has asked Conductor for a task of the type under test."""
        return bool(self.conductor.requests(rf"GET .*/tasks/poll/(batch/)?{re.escape(self._task_type)}(\?|$)"))

    def is_running(self) -> bool:
        return self._child.exit_code() is None

    def require_running(self) -> None:
        """`SetupError` with the last line of its output if it has ended by itself."""
        if (code := self._child.exit_code()) is not None:
            raise SetupError(f"the worker ended with exit code {code} before it was stopped; {self.last_output()}")

    def last_output(self) -> str:
        """The last line that it printed."""
        lines = child_process.tail(self.log).split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f"its last output: {last[:500]}" if last else "it printed nothing"

    def pause(self) -> None:
        """Stop the processes of the worker, as a hypervisor does. Repeated, because one may just have started another."""
        while found := {self._child.pid, *guardian.descendants(self._child.pid)} - self._stopped:
            self._signal(found, signal.SIGSTOP)
            self._stopped |= found

    def go_on(self) -> None:
        self._signal(self._stopped, signal.SIGCONT)
        self._stopped.clear()

    def kill(self) -> None:
        """With SIGKILL, all its processes, as a crash of its machine would. Its connections stay open until `close`."""
        self._child.kill()

    def close(self) -> None:
        """End it, and the proxies."""
        self._child.kill()
        self._proxies.close()

    @staticmethod
    def _signal(pids: set[int], number: signal.Signals) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def _domain_adder(domain: str) -> Callable[[Message], Message]:
    """Makes polls for the domain of all polls; other requests stay as they are."""

    def amended(request: Message) -> Message:
        found = _POLL.match(request.head)
        if found is None:
            return request
        others = _DOMAIN.sub(b"", found[2] or b"?")
        line = b"".join([found[1], others, b"" if others.endswith((b"?", b"&")) else b"&", f"domain={domain}".encode(), found[3]])
        return replace(request, head=line + request.head[found.end() :])

    return amended
