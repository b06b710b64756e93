"""Puts an accepted commit back on the branch after another execution of its task has displaced it.

After a rerun Conductor may take the report of the execution before it. Then the task is completed with one commit while the
branch shows another, made by the same task. The branch is moved through a staging branch like any publication: attempts that
publish meanwhile find it, see that its task is over, and delete it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from perago import events
from perago.attempt.staging import Staging
from perago.attempt.target_branch import TargetBranch
from perago.errors import LakeNotFound, LakeUnknown, PublishFenceError
from perago.events import Effect
from perago.model import Commit, CommitId
from perago.protocol import commit_labels, head, rivals, staging_names

_DEPTH = 100
"""How many commits are searched for the accepted one."""


@dataclass(frozen=True, slots=True)
class Restoration:
    """For one task: `staging` is of an execution of it, whose input is the target's ref."""

    staging: Staging
    branch: TargetBranch
    publish_seconds: float

    def restore(self, accepted: CommitId) -> bool:
        """Move the branch to `accepted` if the task's own other result stands in its place; whether it was moved.

        Nothing is done where the head already descends from the accepted commit. Where others have published in its place,
        `PublishFenceError` says so.
        A live rival is left alone: if it starts from the accepted commit, it puts that one back itself.
        """
        # A publication of this execution that failed without an answer may still be under way.
        self.branch.interrupt_updates()
        found = self.branch.read_head()
        if not self._displaces(found, accepted):
            self._require_below(found, accepted)
            return False
        why = "which stood in the place of the commit that Conductor accepted"
        try:
            return self.move(found, accepted, why, lambda: self._outdated(accepted)) is None
        except (LakeUnknown, PublishFenceError):
            # Another execution of the task may have restored it, or lakeFS has done it without an answer.
            if _shows(self.branch.read_head(), accepted):
                return False
            raise

    def move(self, found: Commit, to: CommitId, why: str, outdated: Callable[[], str | None]) -> str | None:
        """Move the branch from `found` to `to` through a handle. None if it was moved, otherwise why it was left alone.

        `outdated` asks Conductor again for what the move rests on and says what has changed. It is called when the handle exists
        and the rivals are listed: an attempt that Conductor hands out later finds the handle, and deletes it.
        """
        with self.staging.second_handle(to, staging_names.RESTORE) as handle:
            found_names = self.branch.list_rivals(but=[handle.branch])
            known = [self.branch.ask_about(name) for name in found_names if not self._is_same(name)]
            live = [str(rival) for rival in known if rivals.is_live(rival, self.staging.attempt)]
            if live:
                return f"{', '.join(live)} is about to publish to it"
            if (reason := outdated()) is not None:
                return reason
            self.branch.revoke(known)
            self.branch.require_still(found.id)
            with self.branch.recorder.record(Effect.RESTORE):
                try:
                    self.branch.lake.relocate(
                        handle.repository, self.branch.ref.branch, handle.branch, timeout=self.publish_seconds
                    )
                except LakeNotFound as error:
                    raise PublishFenceError("another attempt publishes to the branch; it decides what becomes of it") from error
        self.branch.recorder.emit(events.Removed(events.Removal.RESTORE, self.branch.ref.branch, found.id, to, why))
        return None

    def _is_same(self, name: staging_names.StagingName) -> bool:
        """Another execution of the task restores the same commit; two that revoked each other would both fail."""
        return name.restores and name.task_id == self.staging.attempt.task_id

    def _outdated(self, accepted: CommitId) -> str | None:
        seen = self.branch.task(self.staging.attempt.task_id)
        if seen is not None and head.accepted_ref(seen) == accepted:
            return None
        return "Conductor has another result of the task by now"

    def _require_below(self, found: Commit, accepted: CommitId) -> None:
        """Fail where the branch has gone on from another commit than the accepted one: nothing can put that one back safely."""
        for _ in range(_DEPTH):
            if found.id == accepted:
                return
            if found.id == self.branch.ref.ref or found.first_parent is None:
                raise PublishFenceError(
                    f"Conductor accepted {accepted}, but branch {self.branch.ref.branch} has gone on without it; "
                    "run `perago doctor`"
                )
            found = self.branch.lake.commit(self.branch.ref.repository, found.first_parent)

    def _displaces(self, found: Commit, accepted: CommitId) -> bool:
        """The head is this task's own other commit, or its input, where the accepted commit should be."""
        if _shows(found, accepted):
            return False
        parent = self.branch.lake.commit(self.branch.ref.repository, accepted).first_parent
        if parent != self.branch.ref.ref:
            return False
        by = commit_labels.read(found.metadata)
        is_own = by is not None and by.task_id == self.staging.attempt.task_id
        return found.id == parent or (is_own and found.first_parent == parent)


def _shows(found: Commit, accepted: CommitId) -> bool:
    return accepted in {found.id, found.first_parent}
