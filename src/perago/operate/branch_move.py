"""An operator's right to move a branch: a staging branch like those of attempts, which every attempt sees and may delete."""

import time
import uuid
from dataclasses import dataclass
from os import urandom

from perago import events
from perago.attempt import instrumentation
from perago.attempt.restore import Restoration
from perago.attempt.staging import Staging
from perago.attempt.target_branch import TargetBranch
from perago.conductor.direct_fence import DirectFence
from perago.model import Attempt, TaskId, TaskType, WorkerId, WorkflowId, WorkspaceRef
from perago.operate.servers import Servers
from perago.protocol import rivals, staging_names

PUBLISH_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Operation:
    """`staging` and `branch` of an execution that Conductor never heard of: an attempt that publishes meanwhile goes first."""

    staging: Staging
    branch: TargetBranch

    @property
    def restoration(self) -> Restoration:
        return Restoration(self.staging, self.branch, PUBLISH_SECONDS)

    def live_rivals(self) -> list[str]:
        """Revokes the rivals that Conductor no longer waits for, unless one of them is live; the steps of those that are."""
        known = [self.branch.ask_about(name) for name in self.branch.list_rivals(but=[self.staging.name])]
        live = [str(rival) for rival in known if rivals.is_live(rival, self.staging.attempt)]
        if not live:
            self.branch.revoke(known)
        return live


def begin(servers: Servers, command: str, target: WorkspaceRef, emit: events.Emit = events.ignore) -> Operation:
    """`command` names the operation in the staging branch, so that one that was left tells its origin."""
    name = f"perago-{command}"
    attempt = Attempt(
        WorkflowId(name), TaskId(str(uuid.uuid4())), 0, name, 0, 0, TaskType(name), WorkerId(""), start_time=0, poll_count=0
    )
    recorder = instrumentation.EffectRecorder(emit, time.monotonic)
    execution = staging_names.execution_id(time.time(), urandom(8))
    staging = Staging(servers.lake, recorder, attempt, execution, target)
    fence = DirectFence(servers.conductor, lease=0)
    return Operation(staging, TargetBranch(servers.lake, fence, recorder, attempt, target))
