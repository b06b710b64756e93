"""Keeps what the body left if its post checks fail, on a hidden branch from which nothing is ever published.

It happens after the failure and never changes it: an error is recorded, and the attempt fails with the violation alone. Nothing
is kept of a read-only task, which writes nothing to lakeFS.
"""

import contextlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

from perago import events
from perago.attempt import cancellation, port
from perago.attempt.execution import Execution, KeepFailed
from perago.attempt.staging import Staging
from perago.errors import LakeError, PostGuardrailViolation, WorkspaceError
from perago.events import Effect, Phase
from perago.model import BranchName, CommitId, UncheckedFill, WorkspaceRef
from perago.protocol import commit_labels, kept_labels, kept_names

_NAMED = 10
"""So many things that were left out are named."""


@contextlib.contextmanager
def kept_after_violation(execution: Execution, staging: Staging, workspace: port.AttemptWorkspace) -> Generator[None]:
    """Around the post checks."""
    try:
        yield
    except PostGuardrailViolation as violation:
        policy = execution.keep_failed
        if policy is not None and not execution.task.read_only:
            keeper = _Keeper(execution, policy, staging, workspace, execution.clock() + execution.budget.publish_seconds)
            keeper.keep(violation)
        raise


@dataclass(frozen=True, slots=True)
class _Keeper:
    execution: Execution
    policy: KeepFailed
    staging: Staging
    workspace: port.AttemptWorkspace
    deadline: float
    """By the clock of the execution: the publish budget, which the lease has room for after the attempt fence."""

    @property
    def target(self) -> WorkspaceRef:
        return self.staging.target

    def keep(self, violation: PostGuardrailViolation) -> None:
        def keep() -> None:
            self.execution.require_current()
            self._make_branch(str(violation))
            violation.kept = self.policy.hint

        self.execution.recorder.clean_up(Effect.KEEP_ATTEMPT, keep, "the attempt that failed its checks is not kept")

    def _make_branch(self, reason: str) -> None:
        until = self.policy.now() + self.policy.seconds
        name = kept_names.kept_branch(self.execution.attempt, self.execution.id, until)
        try:
            if self.workspace.needs_branch_before_body:
                # The body has written to the staging branch, so the commit is made there, and the new branch starts at it.
                self._create(name, self._fill_and_commit(self.staging.create().branch, reason))
            else:
                # Not on the staging branch: it would make this attempt a rival of those that have something to publish.
                self._create(name, self.target.ref)
                self._fill_and_commit(name, reason)
        except BaseException:
            # Also after an error of the request that creates it, which may have succeeded.
            with contextlib.suppress(LakeError):
                self.execution.lake.delete_branch(self.target.repository, name)
            raise

    def _create(self, name: BranchName, at: CommitId) -> None:
        self.execution.lake.create_branch(self.target.repository, name, at)

    def _fill_and_commit(self, branch: BranchName, reason: str) -> CommitId:
        filled = self.workspace.fill_unchecked(branch, self._require_time)
        cancellation.require_wanted()
        attempt = self.execution.attempt
        message = f"{attempt.task_type}: {attempt.reference_name} failed its checks"
        made = self.execution.lake.commit_branch(
            self.target.repository, branch, message, self._labels(reason, filled), allow_empty=True
        )
        return made.id

    def _labels(self, reason: str, filled: UncheckedFill) -> dict[str, str]:
        target = self.target
        labels = kept_labels.of_attempt(
            self.execution.attempt,
            self.execution.id,
            target.branch,
            target.ref,
            self.policy.prefix,
            reason,
            _listed(filled.left_out),
        )
        return kept_labels.write(labels) | commit_labels.write_counts(filled.counts)

    def _require_time(self, event: events.Event) -> None:
        """Listens to the transfer, and ends it when the attempt is cancelled or the time is over."""
        cancellation.require_wanted()
        if self.execution.clock() >= self.deadline:
            raise WorkspaceError(f"it takes longer than the publish budget of {self.execution.budget.publish_seconds:g} s")
        if isinstance(event, events.Progress):
            self.execution.emit(replace(event, phase=Phase.CLEAN_UP))


def _listed(left_out: Sequence[str]) -> str:
    more = f" and {len(left_out) - _NAMED} more" if len(left_out) > _NAMED else ""
    return ", ".join(left_out[:_NAMED]) + more
