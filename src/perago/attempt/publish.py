"""Confirm: a staged change (or none) comes in, the target branch shows it directly on its input, the output's commit id leaves.

Whatever is not certain fails closed. Between reading the target's head and the publish request there is no other request, and
that one names the staging branch, never a commit: lakeFS resolves the name inside the update that moves the target, so an attempt
whose branch was deleted can publish nothing any more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn, assert_never

from perago import events
from perago.attempt import effect, staging
from perago.errors import (
    LakeConflict,
    LakeError,
    LakeForbidden,
    LakeNotFound,
    LakeUnknown,
    PublishFenceError,
    PublishUnknownError,
)
from perago.lake import port as lake_port
from perago.model import BranchName, Commit, CommitId, Staged, WorkspaceRef
from perago.protocol import decision, names


@dataclass(frozen=True, slots=True)
class Publication:
    lake: lake_port.Lake
    effects: effect.Effects
    staging: staging.Staging
    require_current: Callable[[], None]
    """The attempt fence."""
    publish_seconds: float

    @property
    def target(self) -> WorkspaceRef:
        return self.staging.target

    def confirm(self, staged: Staged | None, handle: Callable[[], Staged]) -> CommitId:
        """Fence, revoke, read the head, decide, act, verify. `handle` makes a staging branch at the input where there is none."""
        rivals = self._rivals()
        self.require_current()
        self._revoke(rivals)
        plan = self._plan(staged)
        match plan:
            case decision.Keep():
                return self.target.ref
            case decision.Refuse(reason):
                raise PublishFenceError(reason)
            case decision.Merge():
                return self._merge(_present(staged))
            case decision.Replace() | decision.MoveBack():
                self._refuse_uncommitted()
                movable = staged or handle()
                self.require_current()
                self._require_still(plan, movable)
                return self._relocate(movable)
            case _:
                assert_never(plan)

    # revoke

    def _rivals(self) -> Sequence[BranchName]:
        """Listed before the attempt fence: then none can belong to an attempt after this one, whatever its retry count says.

        The whole repository's are listed, because a zombie of another step, or of a workflow that has ended, is one too.
        """
        ours = names.parse(self.staging.name)
        with self.effects.of(events.Phase.REVOKE, "list staging branches"):
            found = [names.parse(branch.name) for branch in self.lake.branches(self.target.repository, names.PREFIX)]
        return [name.branch for name in found if name is not None and ours is not None and ours.rivals(name)]

    def _revoke(self, rivals: Sequence[BranchName]) -> None:
        """Not one may be left behind: an attempt that cannot revoke does not publish."""
        for branch in rivals:
            with self.effects.of(events.Phase.REVOKE, "delete staging branch of another attempt"):
                try:
                    self.lake.delete_branch(self.target.repository, branch)
                except LakeNotFound:
                    continue

    # decide

    def _plan(self, staged: Staged | None) -> decision.Plan:
        head = self.lake.head(self.target.repository, self.target.branch)
        change_is_empty = staged is None or staged.commit.id == self.target.ref
        return decision.decide(self.target.ref, head.id, head.first_parent, change_is_empty=change_is_empty, read_only=False)

    def _require_still(self, plan: decision.Plan, staged: Staged) -> None:
        if self._plan(staged) != plan:
            raise PublishFenceError(
                f"branch {self.target.branch} moved while this attempt was about to publish: somebody else writes to it"
            )

    def _refuse_uncommitted(self) -> None:
        """A branch with uncommitted changes is relocated by lakeFS without a word, and they stay on top."""
        if any(self.lake.uncommitted(self.target.repository, self.target.branch)):
            raise self._uncommitted()

    # act

    def _merge(self, staged: Staged) -> CommitId:
        with self.effects.of(events.Phase.PUBLISH, "merge"):
            try:
                merged = self.lake.merge(
                    staged.repository,
                    staged.branch,
                    self.target.branch,
                    message=self.staging.message,
                    metadata=self.staging.labels("confirm"),
                    timeout=self.publish_seconds,
                )
            except LakeUnknown as error:
                return self._rescue(lambda head: self._shows(head, staged), error)
            except LakeError as error:
                self._explain(error, "merge into", "fs:CreateCommit on it")
        return self._verify(merged, staged)

    def _relocate(self, staged: Staged) -> CommitId:
        """To the staged commit, or back to the input where the staging branch is only a handle."""
        with self.effects.of(events.Phase.PUBLISH, "relocate"):
            try:
                self.lake.relocate(staged.repository, self.target.branch, staged.branch, timeout=self.publish_seconds)
            except LakeUnknown as error:
                # Nothing less than our own commit will do: the abandoned one may hold the same content, and our request may still
                # come and replace it.
                return self._rescue(lambda head: head.id == staged.commit.id, error)
            except LakeError as error:
                self._explain(error, "relocate", "fs:RevertBranch on it and take it out of the branch protection rules")
        with self.effects.of(events.Phase.VERIFY, "read the head"):
            if self._head().id != staged.commit.id:
                raise PublishFenceError(
                    f"branch {self.target.branch} moved right after it was published: somebody else writes to it"
                )
        return staged.commit.id

    # verify

    def _verify(self, merged: CommitId, staged: Staged) -> CommitId:
        with self.effects.of(events.Phase.VERIFY, "read the merge commit"):
            if self._shows(self.lake.commit(staged.repository, merged), staged):
                return merged
        return self._mend(merged, staged)

    def _shows(self, commit: Commit, staged: Staged) -> bool:
        """Directly on the input, and exactly what was staged."""
        return commit.parents == (self.target.ref,) and commit.meta_range_id == staged.commit.meta_range_id

    def _mend(self, merged: CommitId, staged: Staged) -> CommitId:
        """A request of a revoked attempt was under way and came in first: put the staged commit in the place of both."""
        if self._head().id != merged:
            raise PublishFenceError(f"branch {self.target.branch} moved while this attempt published: somebody else writes to it")
        return self._relocate(staged)

    # a reply that never came

    def _rescue(self, is_published: Callable[[Commit], bool], error: LakeUnknown) -> CommitId:
        """Give up our own right first, so that the request cannot start over; then one read of the head may settle it."""
        try:
            self.staging.delete()
            head = self._head()
        except LakeError as second:
            raise self._unknown() from second
        if not is_published(head):
            raise self._unknown() from error
        return head.id

    # words

    def _head(self) -> Commit:
        return self.lake.head(self.target.repository, self.target.branch)

    def _unknown(self) -> PublishUnknownError:
        return PublishUnknownError(
            f"the publish request to branch {self.target.branch} broke off and its head does not show the result; "
            "a retry replaces whatever comes of it"
        )

    def _uncommitted(self) -> PublishFenceError:
        return PublishFenceError(
            f"branch {self.target.branch} has uncommitted changes: somebody wrote to it directly; "
            "commit or reset them in lakeFS first"
        )

    def _explain(self, error: LakeError, verb: str, permission: str) -> NoReturn:
        """Say what lakeFS's refusal means for a publication."""
        match error:
            case LakeNotFound():
                raise staging.revoked() from error
            case LakeForbidden():
                raise LakeForbidden(
                    f"lakeFS does not let this worker {verb} branch {self.target.branch}: allow its credentials {permission}"
                ) from error
            case LakeConflict():
                self._refuse_uncommitted()
                raise PublishFenceError(f"branch {self.target.branch} moved while this attempt published: {error}") from error
            case _:
                raise error


def _present(staged: Staged | None) -> Staged:
    if staged is None:
        raise AssertionError("a merge is only decided for a change that was staged")
    return staged
