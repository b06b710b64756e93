"""After a report that Conductor did not accept: restores the commit that it accepted instead."""

import time

from perago.attempt import instrumentation
from perago.attempt.restore import Restoration
from perago.attempt.staging import Staging
from perago.attempt.target_branch import TargetBranch
from perago.conductor.direct_fence import DirectFence
from perago.conductor.port import Conductor
from perago.events import Event
from perago.lake.port import Lake
from perago.model import CommitId
from perago.supervisor.supervised_attempt import SupervisedAttempt


def restore(attempt: SupervisedAttempt, accepted: CommitId, lake: Lake, conductor: Conductor) -> list[Event]:
    """Restore `accepted` on the target branch of the attempt; returns the events."""
    target = attempt.workspace
    if target is None:
        return []
    emitted: list[Event] = []
    recorder = instrumentation.EffectRecorder(emitted.append, time.monotonic)
    staging = Staging(lake, recorder, attempt.attempt, attempt.execution_id, target)
    branch = TargetBranch(lake, DirectFence(conductor, lease=0), recorder, attempt.attempt, target)
    Restoration(staging, branch, attempt.facts.publish_seconds).restore(accepted)
    return emitted
