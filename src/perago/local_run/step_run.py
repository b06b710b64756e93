"""One step of a pipeline that ran without servers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from perago.declare.task import TaskDeclaration
from perago.errors import TaskStatus
from perago.local_run.changes import FileChange
from perago.local_run.local_attempts import AttemptRun
from perago.local_run.table_changes import TableChange
from perago.model import CommitId


@dataclass(frozen=True, slots=True)
class StepRun:
    """How a step ended, and what it changed in the repository."""

    ref: str
    """Conductor's reference name: `train__2` in the second iteration of a loop; `nightly/clean` in the pipeline that the call
    `nightly` runs."""
    task: str
    optional: bool
    attempt: AttemptRun
    before: CommitId
    after: CommitId
    """The commits of its workspace. A step without one has those of the pipeline's workspace."""
    changes: tuple[FileChange, ...] = ()
    """With paths from the root of the repository."""
    tables: tuple[TableChange, ...] = ()
    """Those among the changes."""

    @property
    def ok(self) -> bool:
        return self.attempt.outcome.status is TaskStatus.COMPLETED

    @property
    def result(self) -> Mapping[str, Any] | None:
        output = self.attempt.outcome.output
        return None if output is None else cast("Mapping[str, Any]", output["result"])


class Watch(Protocol):
    """Is told about the steps of a run."""

    def begins(self, ref: str, task: TaskDeclaration) -> None: ...

    def ended(self, step: StepRun) -> None: ...


class StepFailed(Exception):
    """The pipeline ends here."""

    def __init__(self, step: StepRun) -> None:
        super().__init__(step.ref)
        self.step = step
