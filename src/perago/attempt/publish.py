"""Publishes a staged change (or none): the target branch then shows it directly on its input.

Whatever is not certain fails closed. Between reading the target's head and the publish request there is no other request, and
that one names the staging branch, never a commit: lakeFS resolves the name inside the update that moves the target, so an attempt
whose branch was deleted can no longer publish.
"""

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, assert_never

from perago import events
from perago.attempt import instrumentation
from perago.attempt.execution import Execution
from perago.attempt.person import gives_way
from perago.attempt.staging import Staging
from perago.attempt.target_branch import TargetBranch
from perago.errors import (
    LakeConflict,
    LakeError,
    LakeForbidden,
    LakeNotFound,
    LakeUnknown,
    PublishFenceError,
    PublishUnknownError,
    StaleAttemptError,
)
from perago.events import Effect, Removal
from perago.lake import port as lake_port
from perago.model import BranchName, ChangeCounts, Commit, CommitId, Handle, Snapshot, StagedCommit, WorkspaceRef
from perago.protocol import commit_labels, decision, head, rivals, staging_names

_SMALL_BYTES = 1 << 20
_SMALL_FILES = 16
_RECENT_SECONDS = 1.0
"""Rivals that were listed earlier than this are listed again, with the attempt fence, once the change is committed."""


@dataclass(frozen=True, slots=True)
class Publication:
    execution: Execution
    staging: Staging
    branch: TargetBranch
    workflow_created: int | None
    """Creation time of the attempt's own workflow, as the first attempt fence read it; None where the claim has to read it."""
    counts: ChangeCounts | None = None
    """How much the change is, where the workspace knows."""
    check_labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the data checks found, for readers of the history, and for the same checks on this commit."""

    @property
    def target(self) -> WorkspaceRef:
        return self.staging.target

    @property
    def lake(self) -> lake_port.Lake:
        return self.execution.lake

    @property
    def recorder(self) -> instrumentation.EffectRecorder:
        return self.execution.recorder

    def publish_change(self, fill: Callable[[BranchName], Commit | None]) -> CommitId:
        """Bring the change onto the staging branch, commit it and publish it; the commit that the output names.

        The rivals are listed, and the attempt fence asked, while a small change is uploaded, and while lakeFS commits unless the
        commit needs what the fence reads: both need the staging branch, not its commit.
        """
        handle = self.staging.create()
        with self.explaining_revocation():
            composed = None if self._is_small else fill(handle.branch)
            rivals_found = self.execution.begin(lambda: self._find_rivals(competes=True))
            try:
                composed = fill(handle.branch) if self._is_small else composed
                created = self.workflow_created or rivals_found.result().own.workflow_created
                staged = self._commit(handle, composed, created)
            except BaseException:
                rivals_found.discard()
                raise
        if staged is None:
            rivals_found.discard()
            return self.publish(None)
        found = rivals_found.result()
        if self.execution.clock() - found.listed_at > _RECENT_SECONDS:
            found = self._find_rivals(competes=True)
        return self._publish(staged, self._claim(found, competes=True))

    @property
    def _is_small(self) -> bool:
        """Whether the upload takes no longer than a few requests."""
        if self.counts is None or self.counts.bytes is None:
            return False
        files = self.counts.added + self.counts.changed + self.counts.deleted
        return self.counts.bytes <= _SMALL_BYTES and files <= _SMALL_FILES

    def _commit(self, handle: Handle, composed: Commit | None, created: int) -> StagedCommit | None:
        """None where nothing differs from the input."""
        labels = {**self._labels(created), commit_labels.STAGED: "true"}
        if composed is not None:
            return self.staging.take_over(handle, composed, self._message, labels)
        return self.staging.commit(handle, self._message, labels)

    @contextlib.contextmanager
    def explaining_revocation(self) -> Generator[None]:
        """Where the staging branch turns out to be deleted, fail with a reason that names the attempt which revoked it."""
        try:
            yield
        except LakeNotFound as error:
            handle = self.staging.handle
            if handle is not None and not self._exists(handle):
                self._explain_revocation(error)
            raise

    def publish(self, change: StagedCommit | None) -> CommitId:
        """Claim, read the head, decide, act, verify; the commit that the output names.

        An attempt without a change has nothing to publish, so it takes no part in the order of live attempts until it has to
        move the branch; then it announces itself by a handle and claims the branch again. A person always announces itself.
        """
        person = self.execution.person
        if person is not None:
            self.staging.create()
        competes = change is not None or person is not None
        return self._publish(change, self._claim(self._find_rivals(competes=competes), competes=competes))

    def _publish(self, change: StagedCommit | None, own: Snapshot) -> CommitId:
        plan = decision.decide(self.staging.attempt, self.target.ref, self.branch.look(own), change, self.execution.unlabelled)
        match plan:
            case decision.Keep(output):
                return output
            case decision.Refuse(reason):
                raise PublishFenceError(reason)
            case decision.Merge(staged):
                return self._merge(staged, own.workflow_created)
            case decision.Replace(staged, removed, why):
                self.execution.require_current()
                return self._relocate(staged, removed, why, Removal.REPLACE)
            case decision.MoveBack(_, removed, why):
                handle = self.staging.create()
                self._claim(self._find_rivals(competes=True), competes=True)
                return self._relocate(handle, removed, why, Removal.MOVE_BACK)
            case _:
                assert_never(plan)

    # claim: no other attempt that Conductor still wants goes first, and the others cannot publish any more

    def _find_rivals(self, *, competes: bool, but: BranchName | None = None) -> "_Rivals":
        """List, then fence. A rival that goes first is waited for.

        Listed before the attempt fence: then none can belong to an attempt after this one. Listed after the own staging branch
        exists (`competes`): then of two attempts at least one sees the other.
        """
        return self.branch.patience.until(lambda found: not competes or found.is_free, lambda: self._list_rivals(but))

    def _claim(self, found: "_Rivals", *, competes: bool) -> Snapshot:
        """Settle with each rival: yield to one that still goes first, and revoke the others."""
        if competes:
            found.require_free(self.target.branch)
        self.branch.revoke([rival for rival in found.known if competes or rival not in found.live], found.live)
        person = self.execution.person
        if person is not None and person.wait_for_reports(found.known, self.staging.attempt):
            return self.execution.require_current()
        return found.own

    def _list_rivals(self, but: BranchName | None = None) -> "_Rivals":
        listed_at = self.execution.clock()
        found = self.branch.list_rivals(but=[self.staging.name] if but is None else [self.staging.name, but])
        own = self.execution.require_current()
        known = [self.branch.ask_about(name) for name in found]
        live = [rival for rival in known if rivals.is_live(rival, self.staging.attempt)]
        person = self.execution.person
        sibling = None if person is None else person.first(known, self.staging.attempt, self.staging.execution)
        first = next((rival for rival in live if rivals.precedes(rival, own)), None)
        return _Rivals(listed_at, own, known, live, first, sibling)

    # revoked by another attempt

    def is_announced(self) -> bool:
        """Whether the staging branch, once it was created, still exists; another attempt may have deleted it."""
        return self.staging.handle is None or self._exists(self.staging.handle)

    def _exists(self, handle: Handle) -> bool:
        try:
            self.lake.branch(handle.repository, handle.branch)
        except LakeNotFound:
            return False
        return True

    def _explain_revocation(self, error: LakeNotFound) -> NoReturn:
        """Fail with a reason that names the attempt which goes first, or what it has published by now."""
        found = self._list_rivals()
        if found.sibling is not None:
            raise gives_way(found.sibling) from error
        if found.first is not None:
            self.branch.patience.until(lambda later: later.first is None, self._list_rivals)
        shown = self.branch.look(found.own)
        refusal = decision.refusal(self.staging.attempt, self.target.ref, shown, self.execution.unlabelled)
        if refusal is not None:
            raise PublishFenceError(refusal.reason) from error
        if found.first is not None:
            raise _yields(found.first, self.target.branch) from error
        raise revoked() from error

    # act

    def _merge(self, staged: StagedCommit, created: int) -> CommitId:
        with self.recorder.record(Effect.MERGE):
            try:
                merged = self.lake.merge(
                    staged.repository,
                    staged.branch,
                    self.target.branch,
                    message=self._message,
                    metadata=self._labels(created),
                    timeout=self.execution.budget.publish_seconds,
                )
            except LakeUnknown as error:
                return self._rescue(lambda found: self._shows(found, staged) and self._is_own(found), error)
            except LakeError as error:
                self._explain(error, "merge into", "fs:CreateCommit on it")
        return self._verify(merged, staged)

    def _relocate(self, to: Handle | StagedCommit, gone: CommitId, why: str, removal: Removal) -> CommitId:
        """Move the target to the staged commit, or to the commit of a handle, provided that its head is still `gone`."""
        self.branch.require_still(gone)
        with self.recorder.record(Effect.RELOCATE):
            try:
                self.lake.relocate(to.repository, self.target.branch, to.branch, timeout=self.execution.budget.publish_seconds)
            except LakeUnknown as error:
                # Nothing less than our own commit will do: the abandoned one may hold the same content, and our request may still
                # come and replace it.
                self._rescue(lambda found: found.id == to.commit, error)
            except LakeError as error:
                self._explain(error, "relocate", "fs:RevertBranch on it and take it out of the branch protection rules")
        self.recorder.emit(events.Removed(removal, self.target.branch, gone, to.commit, why))
        with self.recorder.record(Effect.READ_HEAD):
            if self.branch.read_head().id != to.commit:
                raise PublishFenceError(
                    f"branch {self.target.branch} moved right after it was published: another writer was faster; "
                    "a retry decides about the branch as it is now"
                )
        return to.commit

    # verify

    def _verify(self, merged: CommitId, staged: StagedCommit) -> CommitId:
        with self.recorder.record(Effect.READ_MERGE_COMMIT):
            made = self.lake.commit(staged.repository, merged)
            if self._shows(made, staged):
                return merged
        return self._mend(made, staged)

    def _shows(self, commit: Commit, staged: StagedCommit) -> bool:
        """Directly on the input, and exactly what was staged."""
        return commit.parents == (self.target.ref,) and commit.meta_range_id == staged.content

    def _mend(self, made: Commit, staged: StagedCommit) -> CommitId:
        """The merge met a commit that was not there when the head was read.

        If that one is verified as abandoned, the staged commit takes the place of both. Otherwise this attempt removes its own
        commit again: it must not remove, nor stand on, what it knows nothing about.
        """
        if made.first_parent is None or made.first_parent == self.target.ref:
            raise PublishFenceError(f"the merge into branch {self.target.branch} does not hold what was staged")
        met = self.lake.commit(staged.repository, made.first_parent)
        acceptance = (
            self.branch.acceptance(met, self.execution.require_current()) if met.first_parent == self.target.ref else None
        )
        if not isinstance(acceptance, head.Abandoned):
            self._undo(made, met.id)
        return self._relocate(staged, made.id, f"a merge that met {met.id} ({acceptance.why})", Removal.MEND)

    def _undo(self, made: Commit, met: CommitId) -> NoReturn:
        with self.staging.second_handle(met, staging_names.UNDO) as handle:
            self._claim(self._find_rivals(competes=True, but=handle.branch), competes=True)
            self._relocate(handle, made.id, "this attempt's own merge, which met a commit that must stay", Removal.UNDO)
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

    # texts

    @property
    def _message(self) -> str:
        return f"{self.staging.attempt.task_type}: {self.staging.attempt.reference_name}"

    def _labels(self, created: int) -> dict[str, str]:
        labels = commit_labels.write(self.staging.attempt, self.staging.execution, self.target.ref, created)
        if self.execution.person is not None:
            labels[commit_labels.BY] = self.execution.person.name
        counts = {} if self.counts is None else commit_labels.write_counts(self.counts)
        return {**labels, **counts, **self.check_labels}

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

    listed_at: float
    own: Snapshot
    known: Sequence[rivals.Rival]
    live: Sequence[rivals.Rival]
    first: rivals.Rival | None
    """A live one that precedes this attempt."""
    sibling: rivals.Rival | None = None
    """Another execution of the same human step that goes first."""

    @property
    def is_free(self) -> bool:
        return self.first is None and self.sibling is None

    def require_free(self, branch: BranchName) -> None:
        if self.sibling is not None:
            raise gives_way(self.sibling)
        if self.first is not None:
            raise _yields(self.first, branch)


def revoked() -> StaleAttemptError:
    return StaleAttemptError("another attempt took this one's right to publish by deleting its staging branch")


def _yields(rival: rivals.Rival, branch: BranchName) -> PublishFenceError:
    return PublishFenceError(
        f"{rival} publishes to branch {branch} too and started first; this attempt gives way to it. "
        "Let one step follow the other, each starting from the workspace that the one before it left"
    )
