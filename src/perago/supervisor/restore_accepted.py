"""After a report that Conductor did not accept: restores the commit that it accepted instead."""

import time
from dataclasses import dataclass

from perago.attempt import instrumentation
from perago.attempt.restore import Restoration
from perago.attempt.staging import Staging
from perago.attempt.target_branch import TargetBranch
from perago.conductor import port
from perago.events import Event
from perago.lake.port import Lake
from perago.model import Attempt, CommitId, Snapshot, TaskId, WorkflowId
from perago.supervisor.supervised_attempt import SupervisedAttempt


@dataclass(frozen=True, slots=True)
class LookUps:
    """Implements `perago.conductor.port.AttemptFence` for an attempt that has ended."""

    conductor: port.Conductor

    def snapshot(self, attempt: Attempt) -> Snapshot:
        return self.conductor.snapshot(attempt.workflow_id, attempt.task_id)

    def look_up(self, task_id: TaskId, workflow_id: WorkflowId | None = None) -> Snapshot:
        return self.conductor.task(task_id) if workflow_id is None else self.conductor.snapshot(workflow_id, task_id)

    def lease_seconds_left(self) -> float:
        return 0.0


def restore(attempt: SupervisedAttempt, accepted: CommitId, lake: Lake, conductor: port.Conductor) -> list[Event]:
    """Restore `accepted` on the target branch of the attempt; returns the events."""
    target = attempt.workspace
    if target is None:
        return []
    emitted: list[Event] = []
    recorder = instrumentation.EffectRecorder(emitted.append, time.monotonic)
    look_ups = LookUps(conductor)
    staging = Staging(lake, recorder, attempt.attempt, attempt.execution_id, target)
    branch = TargetBranch(lake, look_ups, recorder, attempt.attempt, target)
    Restoration(staging, branch, attempt.facts.publish_seconds).restore(accepted)
    return emitted
