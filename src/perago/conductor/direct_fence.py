"""The attempt fence and look-ups by a process that sends requests to Conductor itself, without a supervisor in between."""

from dataclasses import dataclass

from perago.conductor.port import Conductor
from perago.model import Attempt, Snapshot, TaskId, WorkflowId


@dataclass(frozen=True, slots=True)
class DirectFence:
    """Implements `perago.conductor.port.AttemptFence`.

    `lease` is what it answers about the lease, which nothing measures here: 0 where only look-ups are expected, so that an
    attempt fence never passes.
    """

    conductor: Conductor
    lease: float = 60.0

    def snapshot(self, attempt: Attempt) -> Snapshot:
        return self.conductor.snapshot(attempt.workflow_id, attempt.task_id)

    def look_up(self, task_id: TaskId, workflow_id: WorkflowId | None = None) -> Snapshot:
        return self.conductor.task(task_id) if workflow_id is None else self.conductor.snapshot(workflow_id, task_id)

    def lease_seconds_left(self) -> float:
        return self.lease
