"""Try and Cancel: the staging branch of one execution, made from the input commit, committed, and always deleted again."""

import contextlib
from collections.abc import Generator
from dataclasses import dataclass

from perago import events
from perago.attempt import effect
from perago.errors import LakeConflict, LakeNotFound, PublishFenceError, StaleAttemptError
from perago.lake import port as lake_port
from perago.model import Attempt, BranchName, Commit, ExecutionId, Staged, WorkspaceRef
from perago.protocol import names


@dataclass(frozen=True, slots=True)
class Staging:
    """One execution's right to publish: whoever deletes its branch takes it away."""

    lake: lake_port.Lake
    effects: effect.Effects
    attempt: Attempt
    execution: ExecutionId
    target: WorkspaceRef
    source: Commit
    """The input commit."""

    @property
    def name(self) -> BranchName:
        return names.staging_branch(self.attempt, self.execution, self.target.branch)

    @contextlib.contextmanager
    def branch(self) -> Generator[Staged]:
        """The branch at the input commit: a handle as it stands, and where the change is brought to. Deleted on the way out."""
        with self.effects.of(events.Phase.STAGE, "create staging branch"):
            self._create()
        try:
            yield Staged(self.target.repository, self.name, self.source)
        finally:
            self.effects.clean_up("delete staging branch", self.delete, "failed to clean staging workspace")

    def _create(self) -> None:
        try:
            self.lake.create_branch(self.target.repository, self.name, self.target.ref)
        except LakeConflict as error:
            raise PublishFenceError(
                "the staging branch of this execution exists already: another one works under its id"
            ) from error
        except BaseException:
            # It may be there although nobody said so.
            self.effects.clean_up("delete staging branch", self.delete, "failed to clean staging workspace")
            raise

    def delete(self) -> None:
        """Gone is gone, whoever did it."""
        with contextlib.suppress(LakeNotFound):
            self.lake.delete_branch(self.target.repository, self.name)

    def commit(self, staged: Staged) -> Staged:
        """Commit what was brought onto the branch. If nothing differs from the input after all, it stays a handle."""
        with self.effects.of(events.Phase.STAGE, "commit"):
            try:
                made = self.lake.commit_branch(staged.repository, staged.branch, self.message, self.labels("try"))
            except LakeNotFound as error:
                raise revoked() from error
            except LakeConflict:
                if any(self.lake.uncommitted(staged.repository, staged.branch)):
                    raise
                return staged
        if made.parents != (self.target.ref,):
            raise PublishFenceError("somebody else committed to the staging branch")
        return Staged(staged.repository, staged.branch, made)

    def labels(self, phase: str) -> dict[str, str]:
        """For people who read the history; nothing here is ever read to decide."""
        return {
            "perago.phase": phase,
            "perago.workflow": self.attempt.workflow_id,
            "perago.task": self.attempt.reference_name,
            "perago.task_id": self.attempt.task_id,
            "perago.attempt": str(self.attempt.retry_count),
            "perago.execution": self.execution,
            "perago.expected_head": self.target.ref,
        }

    @property
    def message(self) -> str:
        return f"{self.attempt.task_type}: {self.attempt.reference_name}"


def revoked() -> StaleAttemptError:
    return StaleAttemptError("another attempt took this one's right to publish by deleting its staging branch")
