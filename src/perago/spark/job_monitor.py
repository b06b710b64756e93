"""Beside a running body: tells how far its jobs are, and cancels them as soon as nobody wants their result any more."""

import threading
import time
from collections.abc import Callable

from perago import events
from perago.spark.session import AttemptSession, JobProgress

LOOK_SECONDS = 0.25
TELL_SECONDS = 1.0


class JobMonitor:
    def __init__(self, watched: AttemptSession, is_cancelled: Callable[[], bool], emit: events.Emit) -> None:
        self._session = watched
        self._is_cancelled = is_cancelled
        self._emit = emit
        self._over = threading.Event()
        self._told: JobProgress | None = None
        self._thread = threading.Thread(target=self._look, name="perago-spark-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        told_at = 0.0
        while not self._over.wait(LOOK_SECONDS):
            if self._is_cancelled():
                # Again and again: the body may go on and start the next job.
                self._session.cancel()
            elif time.monotonic() - told_at >= TELL_SECONDS:
                told_at = time.monotonic()
                self._tell()

    def _tell(self) -> None:
        work = self._session.progress()
        if work is not None and work != self._told:
            self._told = work
            self._emit(progress(work))


def progress(work: JobProgress) -> events.Progress:
    stages = "1 stage" if work.stages == 1 else f"{work.stages} stages"
    rows = f", {work.rows:,} rows written" if work.rows else ""
    note = f"{stages}: {work.tasks_done} of {work.tasks} tasks{rows}"
    return events.Progress(
        events.Phase.BODY, files=work.tasks_done, total_files=work.tasks, bytes=work.bytes, note=note, unit="tasks"
    )
