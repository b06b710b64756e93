"""One execution of one attempt: its identity, its limits and the ports through which it reaches task, lakeFS and Conductor."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from perago import events
from perago.attempt import cancellation, instrumentation, outcome, port
from perago.attempt.person import Person
from perago.attempt.rival_wait import ONE_LOOK, Patience
from perago.conductor import port as conductor_port
from perago.errors import ConductorNotFound, StaleAttemptError
from perago.events import Effect
from perago.lake import port as lake_port
from perago.model import Attempt, ExecutionId, Outcome, Snapshot, WorkspaceRef
from perago.protocol import decision, fence
from perago.protocol.budget import DEFAULT as DEFAULT_BUDGET
from perago.protocol.budget import Budget

Conclude = Callable[[Callable[[], bool], Outcome], Outcome]
"""Gets the outcome of an attempt that has succeeded while its staging branch, if it has one, still exists, and a function that
tells whether it does. Returns the outcome to report, or raises what the attempt fails with."""


def _as_it_is(_: Callable[[], bool], ended: Outcome) -> Outcome:
    return ended


@dataclass(frozen=True, slots=True)
class Execution:
    attempt: Attempt
    id: ExecutionId
    task: port.Task
    lake: lake_port.Lake
    conductor: conductor_port.AttemptFence
    workspaces: Callable[[WorkspaceRef], port.AttemptWorkspace]
    """Makes the workspace of the attempt, not yet opened."""
    budget: Budget = DEFAULT_BUDGET
    emit: events.Emit = events.ignore
    clock: Callable[[], float] = time.monotonic
    reason_max_length: int = outcome.REASON_MAX_LENGTH
    unlabelled: decision.UnlabelledHead = decision.UnlabelledHead.REPLACE
    patience: Patience = ONE_LOOK
    person: Person | None = None
    """Who does it, for a human step."""
    conclude: Conclude = _as_it_is

    @property
    def recorder(self) -> instrumentation.EffectRecorder:
        return instrumentation.EffectRecorder(self.emit, self.clock)

    def require_current(self) -> Snapshot:
        """The attempt fence: read the task from Conductor now; `StaleAttemptError` unless it still wants this attempt."""
        with self.recorder.record(Effect.ATTEMPT_FENCE):
            cancellation.require_wanted()
            try:
                snapshot = self.conductor.snapshot(self.attempt)
            except ConductorNotFound as error:
                raise StaleAttemptError("Conductor no longer knows this task: its workflow was removed or restarted") from error
            fence.assert_current_attempt_snapshot(self.attempt, snapshot, self.conductor.lease_seconds_left())
            return snapshot
