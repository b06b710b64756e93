"""One execution of one attempt: its identity, its limits and the ports through which it reaches task, lakeFS and Conductor."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from perago import events
from perago.attempt import cancellation, instrumentation, outcome, overlap, port
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

FRESH_SECONDS = 0.1
"""Within this time after the reply to its poll, that reply stands in for the first attempt fence."""

Conclude = Callable[[Callable[[], bool], Outcome], Outcome]
"""Gets the outcome of an attempt that has succeeded while its staging branch, if it has one, still exists, and a function that
tells whether it does. Returns the outcome to report, or raises what the attempt fails with."""


def as_it_is(_: Callable[[], bool], ended: Outcome) -> Outcome:
    """For attempts that report when everything is cleaned up."""
    return ended


@dataclass(frozen=True, slots=True)
class KeepFailed:
    """What the body left is kept for `seconds` on a branch of its own, so that it can be looked at."""

    seconds: float
    prefix: str
    """Of the workspace, as declared, for the reader of the kept commit."""
    hint: str = ""
    """For the end of the failure's reason."""
    now: Callable[[], float] = time.time


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
    begin: overlap.Begin = overlap.when_needed
    received_at: float = -math.inf
    """When the reply to the attempt's poll was received, by `clock`."""
    conclude: Conclude = as_it_is
    """Called with the outcome of a success, before the attempt cleans up."""
    keep_failed: KeepFailed | None = None
    """How an attempt that fails its post checks is kept; None if it is not."""
    person: Person | None = None
    """Who does it, for a human step."""

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

    def require_current_before_diff(self) -> Snapshot | None:
        """The first attempt fence; None right after the poll, whose reply is as good.

        This fence only spares work: a publication relies on the one after the rivals were listed.
        """
        return None if self.clock() - self.received_at < FRESH_SECONDS else self.require_current()
