"""A slot: a fixed name with one executor process at a time, which runs one attempt at a time."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from perago import ipc
from perago.attempt import lost_executor
from perago.attempt import outcome as failures
from perago.errors import AttemptCancelled, TaskInputError
from perago.model import ExecutionId, Outcome
from perago.process.backoff import Backoff
from perago.process.exit_status import ExitStatus
from perago.process.orphan_reaper import OrphanReaper
from perago.supervisor import logs, recorder
from perago.supervisor.executor_process import ExecutorProcess
from perago.supervisor.shutdown import Shutdown
from perago.supervisor.supervised_attempt import SupervisedAttempt

CANCEL_SECONDS = 5.0
"""Seconds that a cancelled body has to end by itself before it is interrupted."""
INTERRUPT_SECONDS = 5.0
"""Seconds that an interrupted body has to end before its executor is killed."""
HARD_SECONDS = 1.0
"""The same after a hard stop; also the time that an executor has to exit when its channel is closed."""
KILL_SECONDS = 6.0
"""Seconds that a guardian has to kill everything before it is killed itself; slightly more than it needs."""
OUTPUT_TURNS = 3
"""Turns of the event loop after an attempt in which the last output of its body is read and still attributed to it."""
RESTART_BACKOFF = Backoff(first=0.5, longest=30.0)
"""Applies from the second restart in a row; the first is immediate."""


@dataclass(frozen=True, slots=True)
class SlotSetup:
    """What all slots share."""

    modules: Sequence[str]
    orphan_reaper: OrphanReaper
    log_files: logs.LogFiles
    shutdown: Shutdown
    observe: recorder.Observe
    on_sources: Callable[[Sequence[str]], None] = lambda _files: None
    """Called with the source files that an executor has imported."""
    on_exit: Callable[[], None] = lambda: None
    """Called when an executor has ended by itself or was killed."""


class Slot:
    def __init__(self, name: str, setup: SlotSetup) -> None:
        self.name = name
        self.attempt: SupervisedAttempt | None = None
        self.state = "starting"
        self.restarts = 0
        self.modules_loaded: asyncio.Future[tuple[ipc.TaskFacts, ...]] = asyncio.get_running_loop().create_future()
        self.rejection: ipc.ModulesRejected | None = None
        self._setup = setup
        self._shutdown = setup.shutdown
        self._process: ExecutorProcess | None = None
        self._pid: int | None = None
        self._is_ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._exits_in_a_row = 0
        self._log: logs.Logger = None
        self._file: logs.LogFile | None = None

    @property
    def pid(self) -> int | None:
        """Of the executor itself, once it is ready."""
        return self._pid if self._process is not None and self._process.is_alive else None

    @property
    def can_run(self) -> bool:
        return self._process is not None and self._process.is_alive and self._is_ready.done()

    def describe(self) -> dict[str, Any]:
        """For the status file."""
        about: dict[str, Any] = {"name": self.name, "state": self.state, "pid": self.pid, "restarts": self.restarts}
        if self.attempt is not None:
            stats = self.attempt.stats
            about["attempt"] = {
                **logs.of_attempt(self.attempt.attempt, self.attempt.execution_id),
                **self.attempt.origin,
                "phase": stats.phase.value,
                "progress": stats.progress_text(),
                "seconds": round(time.monotonic() - stats.began, 1),
            }
        return about

    # the executor process

    def start(self) -> ExecutorProcess:
        """Start a new process; returns before it is ready."""
        self._is_ready = asyncio.get_running_loop().create_future()
        self.state = "starting"
        self._pid = None
        self._process = ExecutorProcess.start(
            self._setup.modules, self._on_message, self._on_line, lambda: self.attempt, self._setup.orphan_reaper
        )
        if self._file is not None:
            self._file.close()
        self._log, self._file = self._setup.log_files.logger(self.name, self._process.pid)
        return self._process

    async def ready(self) -> bool:
        """Wait for an executor that has imported the modules; restart one that has ended. False if the worker drains."""
        while not self._shutdown.is_draining:
            if self.can_run:
                self.state = "idle"
                return True
            process = self._process or self.start()
            waited = {process.ended, self._is_ready, self._shutdown.draining}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if process.ended.done():
                await self._after_exit(process.ended.result())
        return False

    async def _after_exit(self, exit_status: ExitStatus) -> None:
        self._exits_in_a_row += 1
        self.restarts += 1
        self.state = "restarting"
        self._process = None
        self._setup.on_exit()
        if not self._shutdown.is_draining:
            rejection = self.rejection and self.rejection.message
            self._setup.observe(recorder.ExecutorRestarted(self.name, exit_status, rejection))
            await self._shutdown.sleep(RESTART_BACKOFF.pause(self._exits_in_a_row - 1))

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    async def close(self) -> None:
        """Close the channel, which ends the executor; kill what does not end by itself."""
        self.state = "stopped"
        process = self._process
        if process is not None:
            process.close_channel()
            await asyncio.wait({process.ended}, timeout=HARD_SECONDS)
            process.kill()
            await asyncio.wait({process.ended}, timeout=KILL_SECONDS)
            process.kill_guardian()
            await asyncio.wait({process.ended})
        if self._file is not None:
            self._file.close()

    # the attempt

    async def run(self, attempt: SupervisedAttempt) -> Outcome:
        """Run the attempt; returns its outcome, also if the process dies. `settle` must follow."""
        self.attempt, self.state = attempt, "busy"
        while not self.can_run:
            # It ended after its last attempt. This attempt has not started, so the next process can run it.
            if not await self.ready():
                attempt.finish(failures.failed(AttemptCancelled("the worker stopped before the attempt started")))
                return attempt.outcome.result()
            self.state = "busy"
        return await self._run(attempt)

    async def settle(self, attempt: SupervisedAttempt) -> None:
        """Wait until the executor has cleaned up after the attempt; a hard stop ends the wait, and the executor."""
        process = self._process
        if process is not None and not attempt.executor_is_done.done():
            done = {attempt.executor_is_done, process.ended}
            await asyncio.wait({*done, self._shutdown.hard}, return_when=asyncio.FIRST_COMPLETED)
            if not any(one.done() for one in done):
                await asyncio.wait(done, timeout=HARD_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                process.kill()
                await asyncio.wait(done, return_when=asyncio.FIRST_COMPLETED)
            if not attempt.executor_is_done.done():
                attempt.lose_executor(process.ended.result(), attempt.outcome.result())
        self.attempt = None
        self.state = "idle"

    async def _run(self, attempt: SupervisedAttempt) -> Outcome:
        process = self._process
        assert process is not None  # noqa: S101  ready() has returned True
        try:
            process.send(ipc.Run(attempt.polled, attempt.execution_id, attempt.lease.deadline, attempt.stats.began))
        except ValueError as error:
            # Half of a surrogate pair, for example. Every retry gets the same input.
            attempt.finish(failures.failed(TaskInputError(f"the input cannot be sent to the executor: {error}")))
            return attempt.outcome.result()
        ended = {attempt.outcome, process.ended}
        await asyncio.wait({*ended, attempt.cancellation}, return_when=asyncio.FIRST_COMPLETED)
        if attempt.cancellation.done() and not attempt.outcome.done():
            await self._cancel(attempt, process)
            await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
            process.end_orphans()
        if attempt.outcome.done():
            self._exits_in_a_row = 0
            await self._read_output(process)
            return attempt.outcome.result()
        exit_status = process.ended.result()
        lost = executor_lost(attempt, exit_status, attempt.printed.take())
        attempt.lose_executor(exit_status, lost)
        return lost

    async def _cancel(self, attempt: SupervisedAttempt, process: ExecutorProcess) -> None:
        """Notify the body, then interrupt it, then kill the executor; a hard stop shortens the waits."""
        process.send(ipc.Cancel(attempt.execution_id, attempt.cancellation.result()))
        if await self._ends_within(attempt, process, CANCEL_SECONDS, if_hard=0.0):
            return
        process.interrupt()
        if await self._ends_within(attempt, process, INTERRUPT_SECONDS, if_hard=HARD_SECONDS):
            return
        process.kill()

    async def _ends_within(self, attempt: SupervisedAttempt, process: ExecutorProcess, seconds: float, *, if_hard: float) -> bool:
        ended, hard = {attempt.outcome, process.ended}, self._shutdown.hard
        await asyncio.wait({*ended, hard}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if hard.done() and if_hard:
            await asyncio.wait(ended, timeout=if_hard, return_when=asyncio.FIRST_COMPLETED)
        return any(one.done() for one in ended)

    async def _read_output(self, process: ExecutorProcess) -> None:
        for _ in range(OUTPUT_TURNS):
            if process.all_output_read:
                return
            await asyncio.sleep(0)

    def send(self, execution_id: ExecutionId, message: ipc.ToExecutor) -> None:
        """Dropped unless this execution runs here: a later execution must not get an answer to a request of an earlier one."""
        if self._process is not None and self.attempt is not None and self.attempt.execution_id == execution_id:
            self._process.send(message)

    def _on_message(self, message: ipc.ToSupervisor) -> None:
        match message:
            case ipc.SourcesImported(files):
                self._setup.on_sources(files)
            case ipc.ModulesLoaded(tasks):
                if not self.modules_loaded.done():
                    self.modules_loaded.set_result(tasks)
            case ipc.ModulesRejected():
                self.rejection = message
            case ipc.Ready(pid):
                self._pid = pid
                if not self._is_ready.done():
                    self._is_ready.set_result(None)
            case ipc.LogLine(level, text):
                self._write_log(level, text, self.attempt)
            case _:
                if self.attempt is not None:
                    self.attempt.handle_message(message)

    def _on_line(self, stream: str, line: str, attempt: SupervisedAttempt | None) -> None:
        """`attempt` was running when the line was read; it may have ended since."""
        if attempt is not None:
            attempt.printed.add(stream, line)
        self._write_log("info", line, attempt, stream=stream)

    def _write_log(self, level: str, text: str, attempt: SupervisedAttempt | None, **fields: str) -> None:
        about = {} if attempt is None else logs.of_attempt(attempt.attempt, attempt.execution_id)
        getattr(self._log, level)(text, **about, **fields)


def executor_lost(attempt: SupervisedAttempt, exit_status: ExitStatus, last_lines: Sequence[str]) -> Outcome:
    """The outcome of an attempt whose executor died. It is reported at once, so that Conductor does not wait for a timeout."""
    seconds = time.monotonic() - attempt.stats.began
    return lost_executor.outcome(exit_status, attempt.stats.phase, seconds, last_lines, attempt.cancel_reason)
