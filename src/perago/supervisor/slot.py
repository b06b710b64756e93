"""A slot: a name that stays, and under it one executor process after another. Takes an attempt, gives back its outcome."""

import asyncio
import collections
import contextlib
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from perago import ipc
from perago.attempt import outcome as failures
from perago.errors import ConductorError, TaskInputError, TaskStatus
from perago.model import Outcome, Snapshot
from perago.process.exit_status import ExitStatus
from perago.process.orphan_reaper import OrphanReaper
from perago.supervisor import logs
from perago.supervisor.executor_process import Ears, ExecutorProcess
from perago.supervisor.supervised_attempt import Running

CALLED_OFF_SECONDS = 5.0
"""For a body that asks `perago.cancelled()`; then it is interrupted."""
INTERRUPTED_SECONDS = 5.0
"""For an interrupted body to end; then its executor is killed."""
HARD_SECONDS = 1.0
KILLED_SECONDS = 6.0
"""A bit more than a guardian takes at most."""
KEPT_LINES = 40
TURNS = 3
"""Of the loop, in which what the body printed last, and flushed before it finished, is read and still counts as the attempt's."""
LONGEST_BACKOFF = 30.0


@dataclass(frozen=True, slots=True)
class Crew:
    """What all slots share."""

    modules: Sequence[str]
    orphan_reaper: OrphanReaper
    journal: logs.Journal
    stopping: asyncio.Event
    restarted: Callable[["Slot", ExitStatus], None]


class Slot:
    def __init__(self, name: str, crew: Crew) -> None:
        self.name = name
        self.running: Running | None = None
        self.state = "starting"
        self.restarts = 0
        self.declared: asyncio.Future[tuple[ipc.TaskFacts, ...]] = asyncio.get_running_loop().create_future()
        self.refusal: ipc.Refused | None = None
        self._crew = crew
        self._process: ExecutorProcess | None = None
        self._pid: int | None = None
        self._is_ready = asyncio.Event()
        self._deaths_in_a_row = 0
        self._last_lines: collections.deque[str] = collections.deque(maxlen=KEPT_LINES)
        self._answers: set[asyncio.Task[None]] = set()
        self._log: logs.Logger = None
        self._file: logs.LogFile | None = None

    @property
    def pid(self) -> int | None:
        """The executor's own, once it is ready."""
        return self._pid if self._process is not None and self._process.is_alive else None

    @property
    def process(self) -> ExecutorProcess | None:
        return self._process

    def start(self) -> ExecutorProcess:
        """A new process under this name; not ready yet."""
        self._is_ready.clear()
        self.state = "starting"
        self._last_lines.clear()
        self._pid = None
        self._process = ExecutorProcess.start(self._crew.modules, Ears(self._heard, self._printed), self._crew.orphan_reaper)
        if self._file is not None:
            self._file.close()
        self._log, self._file = self._crew.journal.logger(self.name, self._process.pid)
        return self._process

    async def ready(self) -> bool:
        """A living, imported, connected executor; restarts dead ones with growing pauses. False once the worker stops."""
        while not self._crew.stopping.is_set():
            if self.can_run:
                self.state = "idle"
                return True
            process = self._process or self.start()
            await self._started_or_dead(process)
            if process.ended.done():
                await self._after_death(process.ended.result())
        return False

    async def _started_or_dead(self, process: ExecutorProcess) -> None:
        events = [asyncio.create_task(event.wait()) for event in (self._is_ready, self._crew.stopping)]
        await asyncio.wait([process.ended, *events], return_when=asyncio.FIRST_COMPLETED)
        for event in events:
            event.cancel()

    async def run(self, running: Running) -> Outcome:
        """The attempt's outcome, whatever becomes of the process."""
        self.running, self.state = running, "busy"
        try:
            while not self.can_run:
                # It died between its last attempt and this one, which was not begun: the next process takes it.
                if not await self.ready():
                    return Outcome(TaskStatus.FAILED, None, "the worker stopped before the attempt began")
                self.state = "busy"
            return await self._run(running)
        finally:
            self.running = None
            self.state = "idle"

    async def _run(self, running: Running) -> Outcome:
        process = self._process
        assert process is not None  # noqa: S101  ready() has just said so
        running.tell = process.send
        try:
            process.send(ipc.Run(running.polled, running.execution_id, running.lease.deadline))
        except ValueError as error:
            # Half of a surrogate pair, for one. No other attempt gets another input.
            return failures.failed(TaskInputError(f"the input cannot be passed on: {error}"))
        if running.cancel_reason is not None:
            process.send(ipc.Cancel(running.execution_id, running.cancel_reason))
        await asyncio.wait({running.outcome, process.ended}, return_when=asyncio.FIRST_COMPLETED)
        if running.outcome.done():
            self._deaths_in_a_row = 0
            if running.cancel_reason is not None:
                process.end_orphans()
            for _ in range(TURNS):
                if process.is_heard_out:
                    break
                await asyncio.sleep(0)
            return running.outcome.result()
        running.death = process.ended.result()
        lost = died(running, running.death, self._last_lines)
        running.finished(lost)
        return lost

    async def interrupt(self, running: Running, *, hard: bool) -> None:
        """For an attempt that was called off: SIGTERM, then SIGKILL, each after a while (a short one if `hard`)."""
        process = self._process
        if process is None:
            return
        for pause, act in (
            (0.0 if hard else CALLED_OFF_SECONDS, process.interrupt),
            (HARD_SECONDS if hard else INTERRUPTED_SECONDS, process.kill),
        ):
            await asyncio.wait({running.outcome, process.ended}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            if running.outcome.done() or self.running is not running:
                return
            act()

    def shown(self) -> dict[str, Any]:
        """For people who look at the worker."""
        about: dict[str, Any] = {"name": self.name, "state": self.state, "pid": self.pid, "restarts": self.restarts}
        if self.running is not None:
            tally = self.running.tally
            about["attempt"] = {
                **logs.of_attempt(self.running.attempt, self.running.execution_id),
                "phase": tally.phase.value,
                "progress": tally.shown_progress(),
                "seconds": round(time.monotonic() - tally.began, 1),
            }
        return about

    async def close(self) -> None:
        """Hang up; kill what does not end by itself."""
        self.state = "stopped"
        process = self._process
        if process is not None:
            process.hang_up()
            await asyncio.wait({process.ended}, timeout=HARD_SECONDS)
            process.kill()
            await asyncio.wait({process.ended}, timeout=KILLED_SECONDS)
            process.kill_guardian()
            await process.ended
        if self._file is not None:
            self._file.close()

    @property
    def can_run(self) -> bool:
        return self._process is not None and self._process.is_alive and self._is_ready.is_set()

    async def _after_death(self, death: ExitStatus) -> None:
        self._deaths_in_a_row += 1
        self.restarts += 1
        self.state = "restarting"
        self._process = None
        if self._crew.stopping.is_set():
            return
        self._crew.restarted(self, death)
        pause = backoff(self._deaths_in_a_row)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._crew.stopping.wait(), pause)

    def _heard(self, message: ipc.ToSupervisor) -> None:
        match message:
            case ipc.Declared(tasks):
                if not self.declared.done():
                    self.declared.set_result(tasks)
            case ipc.Refused():
                self.refusal = message
            case ipc.Ready(pid):
                self._pid = pid
                self._is_ready.set()
            case ipc.Remark(level, text):
                self._say(level, text)
            case ipc.Fence() | ipc.LookUp() | ipc.Happened() | ipc.Finished():
                if self.running is not None:
                    self._heard_of(self.running, message)

    def _heard_of(self, running: Running, message: ipc.Fence | ipc.LookUp | ipc.Happened | ipc.Finished) -> None:
        match message:
            case ipc.Fence(request):
                self._keep(asyncio.create_task(self._answer(request, running.fence())))
            case ipc.LookUp(request, task_id, workflow_id):
                self._keep(asyncio.create_task(self._answer(request, running.look_up(task_id, workflow_id))))
            case ipc.Happened(event):
                running.heard(event)
            case ipc.Finished(execution_id, outcome):
                if running.execution_id == execution_id:
                    running.finished(outcome)

    async def _answer(self, request: int, asked: Coroutine[Any, Any, Snapshot]) -> None:
        running, process = self.running, self._process
        if running is None or process is None:
            asked.close()
            return
        try:
            answer = ipc.Answer(request, await asked)
        except ConductorError as error:
            answer = ipc.Answer(request, error=type(error).__name__, message=str(error))
        process.send(ipc.LeaseMoved(running.lease.deadline))
        process.send(answer)

    def _printed(self, stream: str, line: str) -> None:
        if stream == "stderr":
            self._last_lines.append(line)
        self._say("info", line, stream=stream)

    def _say(self, level: str, text: str, **fields: str) -> None:
        about = {} if self.running is None else logs.of_attempt(self.running.attempt, self.running.execution_id)
        getattr(self._log, level)(text, **about, **fields)

    def _keep(self, task: "asyncio.Task[None]") -> None:
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)


def died(running: Running, death: ExitStatus, last_lines: Sequence[str]) -> Outcome:
    """What Conductor is told at once, instead of finding out after its timeout."""
    seconds = time.monotonic() - running.tally.began
    why = f"; the attempt had been called off: {running.cancel_reason}" if running.cancel_reason else ""
    reason = f"the executor {death} in phase {running.tally.phase.value}, {seconds:.1f} s into the attempt{why}"
    return Outcome(TaskStatus.FAILED, None, reason, (reason, *last_lines))


def backoff(deaths_in_a_row: int) -> float:
    """None after the first, then 0.5, 1, 2 … seconds."""
    return 0.0 if deaths_in_a_row <= 1 else min(LONGEST_BACKOFF, 0.5 * 2 ** min(deaths_in_a_row - 2, 10))
