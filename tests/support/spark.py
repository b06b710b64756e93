"""Spark attempts on a real lakeFS, run by the real transaction, with an in-memory Conductor."""

import io
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from tests.support.attempts import AttemptScene
from tests.support.recording import RecordingTask

from perago import SparkWorkspace, events
from perago.conductor.port import Polled
from perago.model import Commit, CommitId, LakeAccess, Listing, Outcome, WorkspaceRef
from perago.operate.protocol_check.dict_task import Files
from perago.spark import session, workspace

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a JVM that lives for seconds or a few minutes: compiling less costs less than it saves."""
Body = Callable[[SparkWorkspace], object]


@dataclass
class SparkHarness:
    """Runs bodies as attempts in one repository, on one running Spark engine."""

    scene: AttemptScene
    engine: session.SparkEngine
    access: LakeAccess
    is_cancelled: Callable[[], bool] = lambda: False
    heard: list[events.Event] = field(default_factory=list[events.Event])

    def run(self, body: Body, polled: Polled | None = None, *, read_only: bool = False, **checks: Any) -> Outcome:
        task = RecordingTask(cast("Callable[[Files], object]", body), read_only, **checks)
        return self.scene.run(polled or self.scene.start(), task, workspaces=self.workspace)

    def workspace(self, ref: WorkspaceRef) -> workspace.SparkBranchWorkspace:
        around = workspace.SparkDependencies(self.engine, self.access, self.is_cancelled, self.heard.append)
        return workspace.SparkBranchWorkspace(self.scene.lake, ref, "/in", around)

    def cancel_when_tasks_run(self) -> list[float]:
        """Cancel the next attempt once it has reported running tasks; the returned list then contains the time of that."""
        cancelled_at: list[float] = []

        def is_cancelled() -> bool:
            if not cancelled_at and any(isinstance(event, events.Progress) and event.unit == "tasks" for event in self.heard):
                cancelled_at.append(time.monotonic())
            return bool(cancelled_at)

        self.is_cancelled = is_cancelled
        return cancelled_at

    def head(self) -> Commit:
        return self.scene.head()

    def paths(self, ref: CommitId | None = None) -> list[str]:
        return [info.path for info in self.scene.lake.objects(self.scene.repository, ref or self.head().id, "").objects]

    def csv(self, path: str, rows: int = 10) -> CommitId:
        """Publish a file with the rows `0,a`, `1,b`, … as the input of the next attempt."""
        text = io.StringIO()
        for number in range(rows):
            text.write(f"{number},{'ab'[number % 2]}\n")
        self.scene.a = self.scene.publish({f"in/{path}": text.getvalue().encode()}).id
        return self.scene.a


def requires(fragment: str) -> Callable[[Listing], None]:
    """A check that requires a file whose path contains `fragment`."""

    def check(listing: Listing) -> None:
        assert any(fragment in path for path in listing.files), f"{fragment} is not among {listing.files}"

    return check
