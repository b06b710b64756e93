"""A thread that reports the progress of a running body's jobs, and cancels them when the attempt is cancelled."""

import threading
import time
from collections.abc import Callable

from perago import events
from perago.spark.session import AttemptSession, JobProgress

CHECK_SECONDS = 0.25
REPORT_SECONDS = 1.0


class JobMonitor:
    def __init__(self, watched: AttemptSession, is_cancelled: Callable[[], bool], emit: events.Emit) -> None:
        self._session = watched
        self._is_cancelled = is_cancelled
        self._emit = emit
        self._stopped = threading.Event()
        self._reported: JobProgress | None = None
        self._thread = threading.Thread(target=self._run, name="perago-spark-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        reported_at = 0.0
        while not self._stopped.wait(CHECK_SECONDS):
            if self._is_cancelled():
                # Repeatedly, because the body may start another job.
                self._session.cancel()
            elif time.monotonic() - reported_at >= REPORT_SECONDS:
                reported_at = time.monotonic()
                self._report()

    def _report(self) -> None:
        work = self._session.progress()
        if work is not None and work != self._reported:
            self._reported = work
            self._emit(progress(work))


def progress(work: JobProgress) -> events.Progress:
    stages = "1 stage" if work.stages == 1 else f"{work.stages} stages"
    rows = f", {work.rows:,} rows written" if work.rows else ""
    note = f"{stages}: {work.tasks_done} of {work.tasks} tasks{rows}"
    return events.Progress(
        events.Phase.BODY, files=work.tasks_done, total_files=work.tasks, bytes=work.bytes, note=note, unit="tasks"
    )
