"""The worker: starts executors, serves until it is told to stop, and stops in good order. One call from settings to exit code."""

import asyncio
import contextlib
import hashlib
import os
import signal
import socket
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from perago import errors, ipc
from perago.conductor.client import ConductorClient
from perago.errors import RuntimeConfigError, SetupError
from perago.events import Event
from perago.executor import main
from perago.lake.client import LakeFS
from perago.model import CommitId, TaskType
from perago.process.exit_status import ExitStatus
from perago.process.orphan_reaper import OrphanReaper
from perago.settings import Settings
from perago.supervisor import crash_cleanup, lakefs_health, logs, lost_polls, preflight, restore_accepted
from perago.supervisor.attempt_loop import Broker
from perago.supervisor.blocking_calls import Desk
from perago.supervisor.health_server import HealthServer
from perago.supervisor.metrics import Metrics
from perago.supervisor.poller import Polling, Queue
from perago.supervisor.slot import Crew, Slot
from perago.supervisor.status import StatusFile
from perago.supervisor.supervised_attempt import Running

CONDUCTOR_TIMEOUT = 10.0
STATUS_SECONDS = 1.0
LONGEST_LABEL = 120
SETTLE_SECONDS = 7.0
"""After a hard stop, for the last reports; a server that hangs is not waited for any longer."""


class ExitCode(IntEnum):
    """What a process manager above us may rely on. 1 and 2 are the command line's: cannot start, wrong usage."""

    STOPPED = 0
    """Told to stop, and everything that ran was finished and delivered."""
    CUT_SHORT = 3
    """Stopped hard: attempts were called off and reported FAILED."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What `perago start` was told."""

    modules: Sequence[str]
    slots: int = 1
    register: bool = False
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"


class Supervisor:
    def __init__(self, orders: Orders, settings: Settings) -> None:
        access = settings.require_conductor("perago start")
        self._orders = orders
        self._settings = settings
        self._prefix = settings.worker_id_prefix(short(orders.modules, ""))
        self._client = ConductorClient(
            access.url,
            timeout=CONDUCTOR_TIMEOUT,
            connections=3 * orders.slots + 8,
            auth_key=access.auth_key,
            auth_secret=access.auth_secret,
        )
        self._pool = ThreadPoolExecutor(max_workers=3 * orders.slots + 8, thread_name_prefix="desk")
        self._desk = Desk(self._client, self._pool)
        self._metrics = Metrics()
        journal = logs.Journal(
            settings.perago_log_root / short(orders.modules, "+"),
            settings.perago_log_file_max_size,
            settings.perago_log_retention,
            logs.Console(),
        )
        self._journal = journal
        self._log, self._log_file = journal.logger(f"{self._prefix}0000")
        self._stopping = asyncio.Event()
        self._signals = 0
        self._signalled = asyncio.Event()
        self._slots: list[Slot] = []
        self._lake: LakeFS | None = None
        self._started_at = time.time()
        self._broker: Broker | None = None
        self._polling: Polling | None = None

    async def run(self) -> ExitCode:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        try:
            return await self._run(Crew(self._orders.modules, OrphanReaper(), self._journal, self._stopping, self._restarted))
        finally:
            self._stopping.set()
            await asyncio.gather(*(slot.close() for slot in self._slots))
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._client.close()
            self._log_file.close()

    # start

    async def _run(self, crew: Crew) -> ExitCode:
        tasks = await self._introduced(crew)
        if tasks is None or not await self._unless_stopped(self._checked(tasks)):
            return ExitCode.STOPPED
        broker, polling = self._wired(tasks)
        self._slots += [Slot(self._name(number), crew) for number in range(2, self._orders.slots + 1)]
        async with contextlib.AsyncExitStack() as open_things:
            await self._open(open_things, broker)
            self._log.info("worker started", modules=list(self._orders.modules), slots=self._orders.slots)
            working = asyncio.create_task(self._work(broker, polling))
            await self._until_stopped(working, broker, polling)
        self._log.info("worker stopped", cut_short=broker.cut_short)
        return ExitCode.CUT_SHORT if broker.cut_short and self._is_hard else ExitCode.STOPPED

    async def _introduced(self, crew: Crew) -> tuple[ipc.TaskFacts, ...] | None:
        """The first executor imports the modules and says what they declare; None if the worker is stopped meanwhile."""
        first = Slot(self._name(1), crew)
        self._slots.append(first)
        process = first.start()
        stop = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([first.declared, process.ended, stop], return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if first.declared.done():
            return first.declared.result()
        if self._stopping.is_set():
            return None
        raise _refusal(first, process.ended.result())

    async def _checked(self, tasks: Sequence[ipc.TaskFacts]) -> None:
        preflight.require_distinct(tasks)
        preflight.require_settings(tasks, self._settings)
        for warning in (text for task in tasks for text in task.warnings):
            self._log.warning(warning)
        await self._desk.call(self._client.check)
        if self._settings.lakefs is not None:
            access = self._settings.lakefs
            self._lake = LakeFS(access.url, access.access_key_id, access.secret_access_key, timeouts=main.LAKE_TIMEOUTS)
            if any(task.needs_lake for task in tasks):
                await self._desk.call(preflight.require_lake, self._lake)
        for warning in await self._desk.call(preflight.require_definitions, tasks, self._client, register=self._orders.register):
            self._log.warning(warning)

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Whether it was done before a signal came."""
        task, stop = asyncio.create_task(work), asyncio.create_task(self._stopping.wait())
        await asyncio.wait([task, stop], return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if not task.done():
            task.cancel()
            return False
        task.result()
        return True

    def _wired(self, tasks: Sequence[ipc.TaskFacts]) -> tuple[Broker, Polling]:
        broker = Broker(
            self._desk, {task.task_type: task for task in tasks}, self._metrics, self._log, self._clear, self._restore
        )
        queues = [Queue(TaskType(task.task_type)) for task in tasks]
        polling = Polling(
            self._desk,
            queues,
            self._orders.slots,
            failed=broker.conductor_failed,
            answered=broker.conductor_answered,
            lost=lost_polls.LostPolls(self._desk, self._log, self._stopping).add,
        )
        if self._settings.lakefs is not None:
            url = self._settings.lakefs.url
            needing = [TaskType(task.task_type) for task in tasks if task.needs_lake]
            broker.watch_lake(
                lakefs_health.LakeWatch(
                    self._desk, polling, needing, lambda: lakefs_health.answers(url), self._log, self._stopping
                )
            )
        self._broker, self._polling = broker, polling
        return broker, polling

    async def _open(self, things: contextlib.AsyncExitStack, broker: Broker) -> None:
        if self._orders.metrics_port is not None:
            server = HealthServer(self._rendered, lambda: self._can_take(broker))
            port = await server.start(self._orders.metrics_host, self._orders.metrics_port)
            things.push_async_callback(server.close)
            self._log.info("metrics and health are served", port=port)
        status = StatusFile(self._settings.perago_log_root)
        things.callback(status.close)
        for chore in (self._show(status), self._sweep()):
            task = asyncio.create_task(chore)
            things.push_async_callback(_cancelled, task)

    # stop

    def _on_signal(self) -> None:
        """Runs in the loop, not in the signal handler itself."""
        self._signals += 1
        self._stopping.set()
        self._signalled.set()
        if self._signals > 2:  # noqa: PLR2004  drain, hard, now
            for slot in self._slots:
                if slot.process is not None:
                    slot.process.kill()

    @property
    def _is_hard(self) -> bool:
        return self._signals > 1

    async def _work(self, broker: Broker, polling: Polling) -> None:
        """Serve until stopped, then finish and deliver what runs. A slot that fails is a defect of ours, and ends the worker."""
        try:
            await asyncio.gather(*(broker.serve(slot, polling) for slot in self._slots))
        finally:
            self._stopping.set()
        await broker.settle()

    async def _until_stopped(self, working: "asyncio.Task[None]", broker: Broker, polling: Polling) -> None:
        """Wait for the first signal, then for the work, then for the second signal or the bound, whichever is first."""
        await self._stopping.wait()
        polling.stop()
        self._log.info("worker stops; attempts that run are finished first", running=self._busy)
        await self._until_done_or_hard(working)
        if not working.done():
            self._log.warning("worker stops hard; attempts that run are called off", running=self._busy)
            broker.stop_hard(self._slots)
            await asyncio.wait([working], timeout=SETTLE_SECONDS)
        if working.done():
            working.result()

    async def _until_done_or_hard(self, working: "asyncio.Task[None]") -> None:
        patience = self._settings.perago_shutdown_force_kill_after
        deadline = None if patience is None else time.monotonic() + patience
        while not self._is_hard and not working.done():
            self._signalled.clear()
            signalled = asyncio.create_task(self._signalled.wait())
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            done, _ = await asyncio.wait([signalled, working], timeout=left, return_when=asyncio.FIRST_COMPLETED)
            signalled.cancel()
            if not done:
                self._signals += 1

    # chores

    def _clear(self, running: Running) -> None:
        crash_cleanup.clear(running, self._settings.perago_workspace_root, self._lake, self._log.warning)

    def _restore(self, running: Running, accepted: CommitId) -> list[Event]:
        return restore_accepted.restore(running, accepted, self._lake, self._client) if self._lake is not None else []

    async def _sweep(self) -> None:
        """At once what earlier lives left behind, then now and then what was missed, by age."""
        age = 0.0
        while True:
            gone = await self._desk.call(crash_cleanup.sweep, self._settings.perago_workspace_root, age, self._log.warning)
            if gone:
                self._log.info("swept workspaces of dead executors", count=gone)
            age = self._settings.perago_workspace_gc_ttl
            await asyncio.sleep(self._settings.perago_workspace_gc_interval)

    async def _show(self, status: StatusFile) -> None:
        while True:
            await asyncio.to_thread(status.write, self._state())
            await asyncio.sleep(STATUS_SECONDS)

    def _restarted(self, slot: Slot, death: ExitStatus) -> None:
        self._metrics.restarted(death)
        self._log.error(
            "executor is started again", slot=slot.name, cause=f"it {death}", refusal=slot.refusal and slot.refusal.message
        )

    def _rendered(self) -> bytes:
        self._metrics.slots(self._busy, len(self._slots))
        return self._metrics.render()

    def _state(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "started_at": self._started_at,
            "modules": list(self._orders.modules),
            "state": "stopping" if self._stopping.is_set() else "serving",
            "conductor_is_up": self._broker is None or self._broker.conductor_is_up,
            "slots": [slot.shown() for slot in self._slots],
            "recent": list(self._broker.recent) if self._broker else [],
        }

    def _can_take(self, broker: Broker) -> bool:
        """Now or when an attempt has ended: somebody who only restarts executors that die again is not ready."""
        return not self._stopping.is_set() and broker.conductor_is_up and any(slot.can_run for slot in self._slots)

    @property
    def _busy(self) -> int:
        return sum(slot.running is not None for slot in self._slots)

    def _name(self, number: int) -> str:
        return f"{self._prefix}{number:04d}"


async def _cancelled(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def short(modules: Sequence[str], glue: str) -> str:
    """All of them, or what a file name can hold of them: then a digest tells this worker's modules from others'."""
    whole = glue.join(modules)
    if len(whole) <= LONGEST_LABEL:
        return whole
    return glue.join((whole[: LONGEST_LABEL - 20], hashlib.sha256(" ".join(modules).encode()).hexdigest()[:12]))


def _refusal(first: Slot, death: ExitStatus) -> SetupError:
    """As the executor raised it, so that its code is the right one."""
    if first.refusal is None:
        return RuntimeConfigError(f"the first executor {death} while it imported the modules")
    known: type[SetupError] = getattr(errors, first.refusal.error, RuntimeConfigError)
    return known(first.refusal.message)


def start(orders: Orders, settings: Settings) -> ExitCode:
    """Until it is told to stop."""
    preflight.require_writable("PERAGO_LOG_ROOT", settings.perago_log_root)

    async def supervise() -> ExitCode:
        return await Supervisor(orders, settings).run()

    return asyncio.run(supervise())
