"""Runs a worker: starts executors, checks the servers, serves until it is stopped, and shuts down in order."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from perago import ipc
from perago.conductor.client import ConductorClient
from perago.conductor.port import Polled
from perago.errors import ConductorError, SetupError
from perago.events import Event
from perago.lake.client import TRANSFER_TIMEOUTS, LakeFS
from perago.model import CommitId, TaskType
from perago.process.orphan_reaper import OrphanReaper
from perago.settings import Settings
from perago.supervisor import (
    crash_cleanup,
    kept_collector,
    lakefs_health,
    logs,
    monitoring,
    preflight,
    restore_accepted,
    server_wait,
    source_watch,
    worker_name,
)
from perago.supervisor.context import BlockingCalls, OnPolled, WorkerContext, log_defects
from perago.supervisor.kept_collector import KeptCollector
from perago.supervisor.lane_collector import LaneCollector
from perago.supervisor.lost_polls import LostPolls
from perago.supervisor.metrics import Metrics
from perago.supervisor.poller import Poller, PollTarget
from perago.supervisor.recorder import Recorder
from perago.supervisor.reporter import Reporter
from perago.supervisor.shutdown import Shutdown
from perago.supervisor.slot import Slot, SlotSetup
from perago.supervisor.slot_loop import serve_slot
from perago.supervisor.status import StatusFile
from perago.supervisor.supervised_attempt import SupervisedAttempt

CONDUCTOR_TIMEOUT = 10.0
SETTLE_SECONDS = 7.0
"""Time for the last reports after a hard stop; the worker does not wait longer for a server that does not respond."""


class ExitCode(IntEnum):
    """For process managers. The command line uses 1 (cannot start) and 2 (wrong usage)."""

    STOPPED = 0
    """Stopped on request; all running attempts were finished and reported."""
    CUT_SHORT = 3
    """Stopped hard: running attempts were cancelled and reported FAILED."""


@dataclass(frozen=True, slots=True)
class StartOptions:
    """The options of `perago start`."""

    modules: Sequence[str]
    slots: int = 1
    register: bool = False
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"
    wait: float = 0.0
    """Seconds to wait for servers that do not answer yet."""
    reload: bool = False
    """Restart the executors when a source file of the modules changes."""


def start(options: StartOptions, settings: Settings) -> ExitCode:
    """Serve until stopped. Raises `SetupError` or `ConductorError` if the worker cannot start."""
    preflight.require_writable("PERAGO_LOG_ROOT", settings.perago_log_root)
    prefix = settings.worker_id_prefix(worker_name.short(options.modules, ""))
    with contextlib.closing(worker_name.claim(prefix, settings.perago_log_root)) as name:
        return asyncio.run(_serve_until_stopped(options, settings, name))


async def _serve_until_stopped(options: StartOptions, settings: Settings, name: worker_name.WorkerName) -> ExitCode:
    """Serve with a new supervisor after each reload. Its first error ends the worker, later ones are those of a change."""
    sources = source_watch.SourceWatch()
    is_first = True
    while True:
        supervisor = Supervisor(options, settings, name, sources)
        code = await supervisor.run(wait_after_error=not is_first)
        if not supervisor.is_reloading:
            return code
        is_first = False


class Supervisor:
    def __init__(
        self, options: StartOptions, settings: Settings, name: worker_name.WorkerName, sources: source_watch.SourceWatch
    ) -> None:
        access = settings.require_conductor("perago start")
        self._options = options
        self._settings = settings
        self._name = name
        self._sources = sources
        self.is_reloading = False
        """Whether it drains because a source file has changed; false again if the worker is then stopped by a signal."""
        self._stop_requested: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        threads = 3 * options.slots + 8
        self._client = ConductorClient(
            access.url,
            timeout=CONDUCTOR_TIMEOUT,
            connections=threads,
            auth_key=access.auth_key,
            auth_secret=access.auth_secret,
        )
        self._calls = BlockingCalls(self._client, ThreadPoolExecutor(max_workers=threads, thread_name_prefix="blocking"))
        log_files = logs.LogFiles(
            settings.perago_log_root / worker_name.short(options.modules, "+"),
            settings.perago_log_file_max_size,
            settings.perago_log_retention,
            logs.Console(),
        )
        self._log, self._log_file = log_files.logger(name.of_process(0))
        self._metrics = Metrics()
        self._recorder = Recorder(self._metrics, self._log)
        self._slots: list[Slot] = []
        self._shutdown = Shutdown(self._kill_executors)
        self._slot_setup = SlotSetup(
            options.modules, OrphanReaper(), log_files, self._shutdown, self._recorder.observe, sources.add, self._sweep_soon
        )
        self._lake: LakeFS | None = None
        self._monitoring = monitoring.Monitoring(
            options.modules, self._slots, self._shutdown, self._recorder, self._metrics, self._log
        )

    async def run(self, *, wait_after_error: bool = False) -> ExitCode:
        """Serve until stopped, or until `is_reloading`. With `wait_after_error` an error at the start waits for a change."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        try:
            async with self._monitoring.health_server(self._options.metrics_host, self._options.metrics_port):
                return await self._run()
        except (SetupError, ConductorError) as error:
            if not wait_after_error:
                raise
            self._log.error("cannot start after a change; waiting for the next one", error=str(error))
            await self._unless_stopped(self._reload_after_change())
            return ExitCode.STOPPED
        finally:
            self._shutdown.drain()
            await asyncio.gather(*(slot.close() for slot in self._slots))
            crash_cleanup.sweep_spark(self._settings)
            self._calls.pool.shutdown(wait=False, cancel_futures=True)
            self._client.close()
            self._log_file.close()

    async def _run(self) -> ExitCode:
        tasks = await self._load_modules()
        if tasks is None or not await self._unless_stopped(self._preflight(tasks)):
            return ExitCode.STOPPED
        self._metrics.start_at_zero([task.task_type for task in tasks])
        self._monitoring.all_need_lakefs = all(task.needs_lake for task in tasks if not task.is_built_in)
        self._slots += [Slot(self._name.of_process(number), self._slot_setup) for number in range(2, self._options.slots + 1)]
        with contextlib.closing(StatusFile(self._settings.perago_log_root)) as status:
            return await self._serve(tasks, status)

    def _on_signal(self) -> None:
        """A signal during a reload only makes it a stop: the attempts have not been given time because of a signal before."""
        if self.is_reloading and not self._stop_requested.done():
            self.is_reloading = False
            self._stop_requested.set_result(None)
        else:
            self._shutdown.on_signal()

    # start

    async def _load_modules(self) -> tuple[ipc.TaskFacts, ...] | None:
        """The tasks of the modules, which the first executor imports; None if the worker is stopped meanwhile."""
        first = Slot(self._name.of_process(1), self._slot_setup)
        self._slots.append(first)
        process = first.start()
        waited = {first.modules_loaded, process.ended, self._shutdown.draining}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if first.modules_loaded.done():
            return first.modules_loaded.result()
        if self._shutdown.is_draining:
            return None
        raise preflight.setup_error(first.rejection, process.ended.result())

    async def _preflight(self, tasks: Sequence[ipc.TaskFacts]) -> None:
        preflight.require_distinct(tasks)
        preflight.require_settings(tasks, self._settings)
        for warning in (text for task in tasks for text in task.warnings):
            self._log.warning(warning)
        if self._settings.lakefs is not None:
            access = self._settings.lakefs
            self._lake = LakeFS(access.url, access.access_key_id, access.secret_access_key, timeouts=TRANSFER_TIMEOUTS)
        await server_wait.until_up(lambda: self._check_servers(tasks), self._options.wait, self._log)

    async def _check_servers(self, tasks: Sequence[ipc.TaskFacts]) -> None:
        await self._calls.run(self._client.check)
        if self._lake is not None and preflight.need_lake(tasks):
            await self._calls.run(preflight.require_lake, self._lake)
        register = self._options.register
        for warning in await self._calls.run(preflight.require_definitions, tasks, self._client, register=register):
            self._log.warning(warning)

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Run `work`; False if a signal came first."""
        task = asyncio.create_task(work)
        await asyncio.wait({task, self._shutdown.draining}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            return False
        task.result()
        return True

    # serve

    async def _serve(self, tasks: Sequence[ipc.TaskFacts], status: StatusFile) -> ExitCode:
        """Run slots and background tasks until a signal, then until all attempts are reported or a hard stop has ended."""
        lost_polls = LostPolls(self._calls, self._recorder.observe)
        targets = [PollTarget(TaskType(task.task_type), is_built_in=task.is_built_in) for task in tasks]
        poller = Poller(self._calls, targets, self._options.slots, self._shutdown, self._recorder.observe, lost_polls.add)
        lakefs = lakefs_health.of_worker(self._calls, poller, tasks, self._settings.lakefs, self._recorder.observe)
        work = [
            self._monitoring.write_status(status),
            crash_cleanup.sweep_at_intervals(self._calls, self._settings, self._log),
            lost_polls.run(),
            *([lakefs.run()] if lakefs else []),
        ]
        work += [self._reload_after_change()] if self._options.reload else []
        collectors = self._collectors()
        work += [collector.run() for collector in collectors]
        on_failure = lakefs.check_soon if lakefs else lambda: None
        self._monitoring.is_serving = True
        self._log.info("worker started", modules=list(self._options.modules), slots=self._options.slots)
        async with asyncio.TaskGroup() as group:
            background = [group.create_task(log_defects(one, self._recorder.observe)) for one in work]

            def on_polled(polled: Polled) -> None:
                for collector in collectors:
                    collector.watch(polled)

            slots = group.create_task(self._serve_slots(tasks, poller, on_failure, on_polled))
            await self._until_stopped(slots)
            for task in background:
                task.cancel()
        await self._calls.run(self._sweep)
        cancelled = self._recorder.cancelled
        if not self.is_reloading:
            self._log.info("worker stopped", cut_short=cancelled)
        return ExitCode.CUT_SHORT if cancelled and self._shutdown.is_hard else ExitCode.STOPPED

    def _collectors(self) -> Sequence[LaneCollector | KeptCollector]:
        """What deletes branches that are left over in lakeFS; nothing without lakeFS."""
        if self._lake is None:
            return ()
        interval = kept_collector.interval(self._settings)
        return (
            LaneCollector(self._calls, self._lake, self._log.info),
            KeptCollector(self._calls, self._lake, self._log.info, interval),
        )

    async def _serve_slots(
        self, tasks: Sequence[ipc.TaskFacts], poller: Poller, on_failure: Callable[[], None], on_polled: OnPolled
    ) -> None:
        """Run the slots until they have ended and all their attempts are reported."""
        by_type = {task.task_type: task for task in tasks}
        try:
            async with asyncio.TaskGroup() as group:
                context = WorkerContext(self._calls, by_type, self._recorder.observe, self._shutdown, group, on_polled)
                reporter = Reporter(context, self._options.slots, self._clean_up, self._restore, on_failure)
                for slot in self._slots:
                    group.create_task(serve_slot(slot, context, poller, reporter))
        finally:
            # A slot that fails is a defect of Perago and ends the worker.
            self._shutdown.drain()

    async def _until_stopped(self, slots: "asyncio.Task[None]") -> None:
        """Wait for the first signal, then for the slots, and no longer than a few seconds after a hard stop."""
        await asyncio.wait({self._shutdown.draining})
        if self.is_reloading:
            self._log.info("reloading; running attempts finish first", running=self._monitoring.busy)
            await asyncio.wait({slots, self._stop_requested}, return_when=asyncio.FIRST_COMPLETED)
        if self.is_reloading:
            return
        self._log.info("worker is stopping; running attempts finish first", running=self._monitoring.busy)
        await self._shutdown.until_done_or_hard(slots, within=self._settings.perago_shutdown_force_kill_after)
        if not slots.done():
            self._log.warning("worker stops hard; running attempts are cancelled", running=self._monitoring.busy)
            for slot in self._slots:
                if slot.attempt is not None:
                    slot.attempt.cancel("the worker was stopped")
            await asyncio.wait({slots}, timeout=SETTLE_SECONDS)
            slots.cancel()

    def _kill_executors(self) -> None:
        for slot in self._slots:
            slot.kill()

    def _sweep_soon(self) -> None:
        self._calls.pool.submit(self._sweep)

    def _sweep(self) -> None:
        crash_cleanup.sweep(self._settings.perago_workspace_root, 0.0, self._log.warning)

    def _clean_up(self, attempt: SupervisedAttempt) -> None:
        crash_cleanup.clean_up(attempt, self._settings.perago_workspace_root, self._lake, self._log.warning)

    def _restore(self, attempt: SupervisedAttempt, accepted: CommitId) -> list[Event]:
        return restore_accepted.restore(attempt, accepted, self._lake, self._client) if self._lake is not None else []

    # background tasks

    async def _reload_after_change(self) -> None:
        files = await self._sources.changed()
        self._log.info("source files have changed", files=files)
        self.is_reloading = True
        self._shutdown.drain()
