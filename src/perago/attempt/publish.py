"""Confirm: a staged change (or none) comes in, the target branch shows it directly on its input, the output's commit id leaves.

Whatever is not certain fails closed. Between reading the target's head and the publish request there is no other request, and
that one names the staging branch, never a commit: lakeFS resolves the name inside the update that moves the target, so an attempt
whose branch was deleted can publish nothing any more.
"""

import contextlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import NoReturn, assert_never

from perago import events
from perago.attempt import instrumentation, staging
from perago.attempt.target_branch import TargetBranch
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
from perago.model import BranchName, Commit, CommitId, Snapshot, Staged, WorkspaceRef
from perago.protocol import commit_labels, decision, head, rivals, staging_names


@dataclass(frozen=True, slots=True)
class Publication:
    lake: lake_port.Lake
    effects: instrumentation.Effects
    staging: staging.Staging
    branch: TargetBranch
    require_current: Callable[[], Snapshot]
    """The attempt fence."""
    publish_seconds: float
    unlabelled: decision.UnlabelledHead = decision.UnlabelledHead.REPLACE

    @property
    def target(self) -> WorkspaceRef:
        return self.staging.target

    def stage(self, staged: Staged, fill: Callable[[BranchName], None]) -> Staged:
        """Bring the change onto the staging branch and commit it."""
        with self.needing(staged):
            fill(staged.branch)
            return self.staging.commit(staged)

    @contextlib.contextmanager
    def needing(self, staged: Staged | None) -> Generator[None]:
        """Where the staging branch turns out to be gone, another attempt has revoked this one: the failure's reason names it."""
        try:
            yield
        except LakeNotFound as error:
            if staged is not None and not self._exists(staged):
                self._explain_revocation(error)
            raise

    def confirm(self, staged: Staged | None, handle: Callable[[], Staged]) -> CommitId:
        """Claim, read the head, decide, act, verify. `handle` makes a staging branch at the input where there is none.

        An attempt without a change has nothing to publish, so it takes no part in the order of live attempts until it has to
        move the branch; then it announces itself by a handle and claims the branch again.
        """
        change_is_empty = staged is None or staged.is_handle
        own = self._claim(competes=not change_is_empty)
        plan = self._plan(own, change_is_empty=change_is_empty)
        match plan:
            case decision.Keep():
                return self.target.ref
            case decision.Refuse(reason):
                raise PublishFenceError(reason)
            case decision.Merge():
                return self._merge(_present(staged))
            case decision.Replace(abandoned, why):
                self.require_current()
                return self._relocate(_present(staged), abandoned, why, events.Removal.REPLACE)
            case decision.MoveBack(abandoned, why):
                announced = staged or handle()
                self._claim(competes=True)
                return self._relocate(announced, abandoned, why, events.Removal.MOVE_BACK)
            case _:
                assert_never(plan)

    # claim: no other attempt that Conductor still wants goes first, and the others cannot publish any more

    def _claim(self, *, competes: bool, but: BranchName | None = None) -> Snapshot:
        """List, fence, then settle with each rival. One that goes first is waited for; then this attempt yields to it.

        Listed before the attempt fence: then none can belong to an attempt after this one. Listed after the own staging branch
        exists (`competes`): then of two attempts at least one sees the other.
        """
        found = self.branch.patience.until(lambda found: not competes or found.first is None, lambda: self._list_rivals(but))
        if competes and found.first is not None:
            raise _yields(found.first, self.target.branch)
        self.branch.revoke([rival for rival in found.known if competes or rival not in found.live], found.live)
        return found.own

    def _list_rivals(self, but: BranchName | None = None) -> "_Rivals":
        found = self.branch.list_rivals(but=[self.staging.name] if but is None else [self.staging.name, but])
        own = self.require_current()
        known = [self.branch.ask_about(name) for name in found]
        live = [rival for rival in known if rivals.is_live(rival, self.staging.attempt)]
        return _Rivals(own, known, live, next((rival for rival in live if rivals.precedes(rival, own)), None))

    def _plan(self, own: Snapshot, *, change_is_empty: bool) -> decision.Plan:
        return decision.decide(
            self.staging.attempt,
            self.target.ref,
            self.branch.look(own),
            change_is_empty=change_is_empty,
            read_only=False,
            unlabelled=self.unlabelled,
        )

    # revoked by another attempt

    def _exists(self, staged: Staged) -> bool:
        try:
            self.lake.branch(staged.repository, staged.branch)
        except LakeNotFound:
            return False
        return True

    def _explain_revocation(self, error: LakeNotFound) -> NoReturn:
        """Fail with a reason that names the attempt which goes first, or what it has published by now."""
        found = self._list_rivals()
        if found.first is not None:
            self.branch.patience.until(lambda later: later.first is None, self._list_rivals)
        plan = self._plan(found.own, change_is_empty=False)
        if isinstance(plan, decision.Refuse):
            raise PublishFenceError(plan.reason) from error
        if found.first is not None:
            raise _yields(found.first, self.target.branch) from error
        raise staging.revoked() from error

    # act

    def _merge(self, staged: Staged) -> CommitId:
        with self.effects.of(events.Phase.PUBLISH, "merge"):
            try:
                merged = self.lake.merge(
                    staged.repository,
                    staged.branch,
                    self.target.branch,
                    message=self.staging.message,
                    metadata=self.staging.labels,
                    timeout=self.publish_seconds,
                )
            except LakeUnknown as error:
                return self._rescue(lambda found: self._shows(found, staged) and self._is_own(found), error)
            except LakeError as error:
                self._explain(error, "merge into", "fs:CreateCommit on it")
        return self._verify(merged, staged)

    def _relocate(self, staged: Staged, gone: CommitId, why: str, removal: events.Removal) -> CommitId:
        """To the staged commit, or to where a handle stands, while the head is still `gone`."""
        self.branch.require_still(gone)
        with self.effects.of(events.Phase.PUBLISH, "relocate"):
            try:
                self.lake.relocate(staged.repository, self.target.branch, staged.branch, timeout=self.publish_seconds)
            except LakeUnknown as error:
                # Nothing less than our own commit will do: the abandoned one may hold the same content, and our request may still
                # come and replace it.
                self._rescue(lambda found: found.id == staged.commit, error)
            except LakeError as error:
                self._explain(error, "relocate", "fs:RevertBranch on it and take it out of the branch protection rules")
        self.effects.emit(events.Removed(removal, self.target.branch, gone, staged.commit, why))
        with self.effects.of(events.Phase.VERIFY, "read the head"):
            if self.branch.read_head().id != staged.commit:
                raise PublishFenceError(
                    f"branch {self.target.branch} moved right after it was published: another writer was faster; "
                    "a retry decides about the branch as it is now"
                )
        return staged.commit

    # verify

    def _verify(self, merged: CommitId, staged: Staged) -> CommitId:
        with self.effects.of(events.Phase.VERIFY, "read the merge commit"):
            made = self.lake.commit(staged.repository, merged)
            if self._shows(made, staged):
                return merged
        return self._mend(made, staged)

    def _shows(self, commit: Commit, staged: Staged) -> bool:
        """Directly on the input, and exactly what was staged."""
        return commit.parents == (self.target.ref,) and commit.meta_range_id == staged.content

    def _mend(self, made: Commit, staged: Staged) -> CommitId:
        """The merge met a commit that was not there when the head was read.

        If that one is verified as abandoned, the staged commit takes the place of both. Otherwise this attempt removes its own
        commit again: it must not remove, nor stand on, what it knows nothing about.
        """
        if made.first_parent is None or made.first_parent == self.target.ref:
            raise PublishFenceError(f"the merge into branch {self.target.branch} does not hold what was staged")
        met = self.lake.commit(staged.repository, made.first_parent)
        standing = self.branch.standing(met, self.require_current()) if met.first_parent == self.target.ref else None
        if not isinstance(standing, head.Abandoned):
            self._undo(made, met.id)
        return self._relocate(staged, made.id, f"a merge that met {met.id} ({standing.why})", events.Removal.MEND)

    def _undo(self, made: Commit, met: CommitId) -> NoReturn:
        with self.staging.second_handle(met, staging_names.UNDO) as handle:
            self._claim(competes=True, but=handle.branch)
            self._relocate(handle, made.id, "this attempt's own merge, which met a commit that must stay", events.Removal.UNDO)
        raise PublishFenceError(
            f"{met} reached branch {self.target.branch} while this attempt published; its own commit was removed again. "
            "A retry decides about the branch as it is now"
        )

    # a reply that never came

    def _rescue(self, is_published: Callable[[Commit], bool], error: LakeUnknown) -> CommitId:
        """One read of the head may settle it.

        The staging branch is still there: as long as the request may be applied, other attempts have to see this one.
        """
        try:
            found = self.branch.read_head()
        except LakeError as second:
            raise self._unknown() from second
        if not is_published(found):
            raise self._unknown() from error
        return found.id

    def _is_own(self, found: Commit) -> bool:
        """Made by this execution. Another attempt may have published the same content on the same input."""
        by = commit_labels.read(found.metadata)
        return by is not None and by.execution == self.staging.execution

    # words

    def _unknown(self) -> PublishUnknownError:
        return PublishUnknownError(
            f"the publish request to branch {self.target.branch} broke off and its head does not show the result; "
            "a retry replaces whatever comes of it"
        )

    def _explain(self, error: LakeError, verb: str, permission: str) -> NoReturn:
        """Say what lakeFS's refusal means for a publication."""
        match error:
            case LakeNotFound():
                self._explain_revocation(error)
            case LakeForbidden():
                raise LakeForbidden(
                    f"lakeFS does not let this worker {verb} branch {self.target.branch}: allow its credentials {permission}"
                ) from error
            case LakeConflict():
                if any(self.lake.uncommitted(self.target.repository, self.target.branch)):
                    raise self.branch.uncommitted() from error
                raise PublishFenceError(f"branch {self.target.branch} moved while this attempt published: {error}") from error
            case _:
                raise error


@dataclass(frozen=True, slots=True)
class _Rivals:
    """The other staging branches of the target, found before the fence whose answer is `own`."""

    own: Snapshot
    known: Sequence[rivals.Rival]
    live: Sequence[rivals.Rival]
    first: rivals.Rival | None
    """A live one that precedes this attempt."""


def _present(staged: Staged | None) -> Staged:
    if staged is None:
        raise AssertionError("a merge or a replacement is only decided for a change that was staged")
    return staged


def _yields(rival: rivals.Rival, branch: BranchName) -> PublishFenceError:
    return PublishFenceError(
        f"{rival} publishes to branch {branch} too and started first; this attempt gives way to it. "
        "Let one step follow the other, each starting from the workspace that the one before it left"
    )
