"""Spark attempts on a real lakeFS, run by the real transaction, with an in-memory Conductor."""

import io
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

Body = Callable[[SparkWorkspace], object]


@dataclass
class SparkHarness:
    """One repository, one warm engine, and bodies that run on them as attempts."""

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

    def head(self) -> Commit:
        return self.scene.head()

    def paths(self, ref: CommitId | None = None) -> list[str]:
        return [info.path for info in self.scene.lake.objects(self.scene.repository, ref or self.head().id, "").objects]

    def csv(self, path: str, rows: int = 10) -> CommitId:
        """Rows `0,a` … as the input of the next attempt."""
        text = io.StringIO()
        for number in range(rows):
            text.write(f"{number},{'ab'[number % 2]}\n")
        self.scene.a = self.scene.publish({f"in/{path}": text.getvalue().encode()}).id
        return self.scene.a


def requires(fragment: str) -> Callable[[Listing], None]:
    """A check that wants such a file."""

    def check(listing: Listing) -> None:
        assert any(fragment in path for path in listing.files), f"{fragment} is not among {listing.files}"

    return check
