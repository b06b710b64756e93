"""Who does the attempt of a human step, and what follows from it: several people may do the same attempt at the same time.

No worker polls for a human step, so the attempt fence cannot tell two of them apart. Each therefore announces
itself by a staging branch before it lists the others, whether it changes anything or not, and keeps that branch until its report
is accepted. The one whose execution began first goes first. One that deletes another's branch waits until the other one's report,
if it was about to be sent, has arrived, and then asks Conductor again.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perago.errors import StaleAttemptError
from perago.model import Attempt, ExecutionId
from perago.protocol import rivals, staging_names
from perago.protocol.rivals import Rival

REPORT_SECONDS = 10.0
"""So long after it has seen its staging branch an execution may send its report."""
_MARGIN_SECONDS = 5.0


def _never(_: ExecutionId) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Person:
    """`name` is written into the commit and into the output of the task."""

    name: str
    has_ended: Callable[[ExecutionId], bool] = _never
    """Whether the process of another execution of the step is known to have ended."""
    take_over: bool = False
    """Delete the staging branches of all other executions of the step, because their processes have ended."""
    sleep: Callable[[float], None] = time.sleep

    def first(self, known: Sequence[Rival], own: Attempt, execution: ExecutionId) -> Rival | None:
        """Another execution of the same step that goes first, if there is one."""
        if self.take_over:
            return None
        return next((one for one in self._others(known, own) if (one.name.execution_id or "") < execution), None)

    def wait_for_reports(self, deleted: Sequence[Rival], own: Attempt) -> bool:
        """Wait until a report that one of the others was about to send has arrived; whether there were others."""
        others = self._others(deleted, own)
        if others:
            self.sleep(REPORT_SECONDS + _MARGIN_SECONDS)
        return bool(others)

    def _others(self, known: Sequence[Rival], own: Attempt) -> list[Rival]:
        siblings = (one for one in known if rivals.is_sibling(one, own))
        return [one for one in siblings if one.name.execution_id is None or not self.has_ended(one.name.execution_id)]


def gives_way(first: Rival) -> StaleAttemptError:
    """The error of the execution that comes later."""
    began = staging_names.made_at(first.name.execution_id)
    when = "" if began is None else time.strftime(" at %H:%M:%S", time.localtime(began))
    return StaleAttemptError(
        f"another publication of this task began{when} and has not ended; wait until it has, or run the command with --take-over "
        "if its process was killed"
    )
