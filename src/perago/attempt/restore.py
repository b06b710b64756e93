"""Conductor's decision wins: an accepted commit that another execution of its task has displaced is put back on the branch.

After a rerun Conductor may take the report of the execution before it. Then the task is completed with one commit while the
branch shows another, made by the same task. The branch is moved through a staging branch like any publication: attempts that
publish meanwhile find it, see that its task is over, and delete it.
"""

from dataclasses import dataclass

from perago import events
from perago.attempt.staging import Staging
from perago.attempt.target import TargetBranch
from perago.errors import LakeNotFound, PublishFenceError
from perago.model import Commit, CommitId
from perago.protocol import labels, rivals


@dataclass(frozen=True, slots=True)
class Restoration:
    """For one task: `staging` is of an execution of it, whose input is the target's ref."""

    staging: Staging
    branch: TargetBranch
    publish_seconds: float

    def restore(self, accepted: CommitId) -> bool:
        """Move the branch to `accepted` if the task's own other result stands in its place; whether it was moved.

        Nothing is done where the head already descends from the accepted commit, or where it is not this task that displaced it.
        A live rival is left alone: it starts from the accepted commit and puts it back itself, or it is refused.
        """
        found = self.branch.read_head()
        if not self._displaces(found, accepted):
            return False
        return self.move(found, accepted, "which stood in the place of the commit that Conductor accepted") is None

    def move(self, found: Commit, to: CommitId, why: str) -> str | None:
        """Move the branch from `found` to `to` through a handle. None if it was moved, otherwise why it was left alone."""
        with self.staging.second_handle(to) as handle:
            known = [self.branch.ask_about(name) for name in self.branch.list_rivals(but=[handle.branch])]
            live = [str(rival) for rival in known if rivals.is_live(rival, self.staging.attempt)]
            if live:
                return f"{', '.join(live)} is about to publish to it"
            self.branch.revoke(known)
            self.branch.require_still(found.id)
            with self.staging.effects.of(events.Phase.PUBLISH, "restore"):
                try:
                    self.branch.lake.relocate(
                        handle.repository, self.branch.ref.branch, handle.branch, timeout=self.publish_seconds
                    )
                except LakeNotFound as error:
                    raise PublishFenceError("another attempt publishes to the branch; it decides what becomes of it") from error
        self.staging.effects.emit(events.Removed(events.Removal.RESTORE, self.branch.ref.branch, found.id, to, why))
        return None

    def _displaces(self, found: Commit, accepted: CommitId) -> bool:
        """The head is this task's own other commit, or its input, where the accepted commit should be."""
        if accepted in {found.id, found.first_parent}:
            return False
        parent = self.branch.lake.commit(self.branch.ref.repository, accepted).first_parent
        if parent != self.branch.ref.ref:
            return False
        by = labels.read(found.metadata)
        is_own = by is not None and by.task_id == self.staging.attempt.task_id
        return found.id == parent or (is_own and found.first_parent == parent)
