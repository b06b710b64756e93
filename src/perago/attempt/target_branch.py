"""Reads the target branch before an attempt changes it: the head, whether Conductor accepted it, and rival staging branches."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perago import events
from perago.attempt import cancellation, instrumentation
from perago.attempt.rival_wait import ONE_LOOK, Patience
from perago.conductor import port as conductor_port
from perago.errors import ConductorNotFound, LakeConflict, LakeNotFound, PublishFenceError
from perago.events import Effect
from perago.lake import port as lake_port
from perago.model import Attempt, BranchName, Commit, CommitId, Repository, Snapshot, TaskId, WorkflowId, WorkspaceRef
from perago.protocol import commit_labels, head, rivals, staging_names
from perago.protocol.statuses import UNFINISHED_TASK


@dataclass(frozen=True, slots=True)
class TargetBranch:
    """The target of one attempt, whose input is `ref.ref`."""

    lake: lake_port.Lake
    conductor: conductor_port.AttemptFence
    recorder: instrumentation.EffectRecorder
    attempt: Attempt
    ref: WorkspaceRef
    patience: Patience = ONE_LOOK

    def read_head(self) -> Commit:
        return self.lake.head(self.ref.repository, self.ref.branch)

    def look(self, own: Snapshot) -> head.Head:
        """Read the head and, where the decision depends on it, ask Conductor about the task that made it.

        A task that is about to report is waited for.
        """
        return self.patience.until(lambda found: not isinstance(found.acceptance, head.InProgress), lambda: self._look(own))

    def _look(self, own: Snapshot) -> head.Head:
        found = self.read_head()
        place = head.place(found, self.ref.ref)
        if place is head.Place.AT_INPUT:
            return head.Head(found.id, place)
        if place is head.Place.ELSEWHERE and self._is_beside(found):
            place = head.Place.BESIDE_INPUT
        if place is head.Place.ELSEWHERE:
            return head.Head(found.id, place)
        return head.Head(found.id, place, self.acceptance(found, own))

    def _is_beside(self, found: Commit) -> bool:
        """False for a head without labels, because only Conductor can tell whether a head beside the input may be removed."""
        if found.first_parent is None or commit_labels.read(found.metadata) is None:
            return False
        return self.lake.commit(self.ref.repository, self.ref.ref).first_parent == found.first_parent

    def acceptance(self, commit: Commit, own: Snapshot) -> head.Acceptance:
        """What Conductor says about the task that made the commit. Its workflow is read only if the task is unfinished."""
        by = commit_labels.read(commit.metadata)
        seen = None if by is None else self._asked(Effect.ASK_ABOUT_HEAD_TASK, by.task_id)
        if by is not None and seen is not None and seen.status in UNFINISHED_TASK:
            seen = self._asked(Effect.ASK_ABOUT_HEAD_WORKFLOW, by.task_id, by.workflow_id)
        return head.judge(commit, seen, own=self.attempt, own_run=own.workflow_created)

    def list_rivals(self, but: Sequence[BranchName]) -> list[staging_names.StagingName]:
        """Every other staging branch that could still be published to the target."""
        with self.recorder.record(Effect.LIST_RIVALS):
            return [
                name for name in find_staging_names(self.lake, self.ref.repository, self.ref.branch) if name.branch not in but
            ]

    def ask_about(self, name: staging_names.StagingName) -> rivals.Rival:
        """The rival with its task as Conductor knows it. A name that does not contain the task id counts as unknown."""
        if name.task_id is None or name.workflow_id is None:
            return rivals.Rival(name, None)
        return rivals.Rival(name, self._asked(Effect.ASK_ABOUT_RIVAL, name.task_id, name.workflow_id))

    def revoke(self, doomed: Sequence[rivals.Rival], live: Sequence[rivals.Rival] = ()) -> None:
        """Delete the staging branches of `doomed`, of which Conductor still waits for `live`.

        An error stops the publication: all of them must be deleted. One that was already deleted is not counted as revoked.
        """
        for rival in doomed:
            with self.recorder.record(Effect.REVOKE_RIVAL):
                try:
                    self.lake.delete_branch(self.ref.repository, rival.name.branch)
                except LakeNotFound:
                    continue
            self.recorder.emit(events.Revoked(str(rival), rival in live))

    def require_still(self, judged: CommitId) -> None:
        """Check, directly before a relocation (lakeFS applies it to any head), that the head is still the judged one."""
        self.interrupt_updates()
        if self.read_head().id != judged:
            raise PublishFenceError(
                f"branch {self.ref.branch} moved while this attempt was about to publish: another writer was faster; "
                "a retry decides about the branch as it is now"
            )

    def interrupt_updates(self) -> None:
        """Make all updates that lakeFS has begun start over.

        A request that was begun before its staging branch was deleted, by this attempt or another, could otherwise still be
        applied after the next look at the head.
        """
        with self.recorder.record(Effect.INTERRUPT_UPDATES):
            try:
                self.lake.interrupt_updates(self.ref.repository, self.ref.branch)
            except LakeConflict as error:
                raise self.uncommitted() from error

    def uncommitted(self) -> PublishFenceError:
        """The refusal for a branch with uncommitted changes: lakeFS would relocate it and keep them on top."""
        return PublishFenceError(
            f"branch {self.ref.branch} has uncommitted changes: something wrote to it directly; "
            "commit or reset them in lakeFS first"
        )

    def task(self, task_id: TaskId) -> Snapshot | None:
        """None where Conductor does not know it."""
        return self._asked(Effect.ASK_ABOUT_TASK, task_id)

    def _asked(self, effect: Effect, task_id: TaskId, workflow_id: WorkflowId | None = None) -> Snapshot | None:
        with self.recorder.record(effect):
            cancellation.require_wanted()
            try:
                return self.conductor.look_up(task_id, workflow_id)
            except ConductorNotFound:
                return None


def find_staging_names(lake: lake_port.Lake, repository: Repository, target: BranchName) -> Iterator[staging_names.StagingName]:
    """The staging branches of one target, those of the first edition included."""
    listed = (branch.name for branch in lake.branches(repository, staging_names.target_prefix(target)))
    found = (staging_names.parse(name) for name in itertools.chain(listed, _first_edition_names(lake, repository)))
    digest = staging_names.target_digest(target)
    return (name for name in found if name is not None and name.target == digest)


def _first_edition_names(lake: lake_port.Lake, repository: Repository) -> Iterator[BranchName]:
    """They sort before all others, so one name tells whether there are any."""
    peeked = lake.branches(repository, staging_names.PREFIX, page=1)
    if not all(staging_names.is_second_edition(branch.name) for branch in itertools.islice(peeked, 1)):
        every = (branch.name for branch in lake.branches(repository, staging_names.PREFIX))
        yield from itertools.takewhile(lambda name: not staging_names.is_second_edition(name), every)
