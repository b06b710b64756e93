"""The workspace of the built-in tasks: branches of lanes in place of files."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from perago import events
from perago.attempt.execution import Execution
from perago.builtin import lane_branches, parallel
from perago.builtin.composition import Composed, Composition
from perago.declare.lanes import Lanes
from perago.errors import LakeNotFound, TaskInputError
from perago.events import Effect
from perago.model import BranchName, ChangeCounts, Commit, CommitId, Listing, UncheckedFill, WorkspaceRef
from perago.protocol import kept_labels, lane_names

_DEEPEST = 1000
"""How many commits of a lane are followed back to the fork's commit."""


@dataclass(frozen=True, slots=True)
class LanesChange:
    counts: ChangeCounts | None

    @property
    def is_empty(self) -> bool:
        return self.counts is None


class LaneBranchesWorkspace(Lanes):
    """Implements `perago.attempt.port.AttemptWorkspace`, and is what the body gets."""

    needs_branch_before_body = False

    def __init__(self, execution: Execution, source: WorkspaceRef) -> None:
        self._execution = execution
        self._lake = execution.lake
        self._source = source
        self._lanes: Mapping[str, WorkspaceRef] = {}
        self._changed: Sequence[tuple[str, CommitId]] = ()
        self._composed: Composed | None = None
        self._outdated: Sequence[BranchName] = ()
        self._scratch: list[BranchName] = []
        self._numbers = itertools.count()

    # the body of perago.fork

    def fork(self, names: Sequence[str]) -> Mapping[str, WorkspaceRef]:
        """Listed before the attempt fence: then none of the branches can be of an execution after this one."""
        attempt, execution_id, source = self._execution.attempt, self._execution.id, self._source
        outdated = self._of_earlier_executions()
        self._execution.require_current()
        lane_branches.delete(self._lake, source.repository, outdated)
        lanes = {
            name: WorkspaceRef(source.repository, lane_names.lane_branch(attempt, execution_id, name), source.ref)
            for name in names
        }
        try:
            parallel.each(self._create, [lane.branch for lane in lanes.values()])
            # An execution that has been replaced meanwhile must not leave branches that its successor did not see.
            self._execution.require_current()
        except BaseException:
            self._delete([lane.branch for lane in lanes.values()])
            raise
        return lanes

    # the body of perago.join

    def join(self, lanes: Mapping[str, WorkspaceRef]) -> None:
        """Check the lanes. Those that left the content of the input, or what another lane left too, change nothing more."""
        for name, lane in lanes.items():
            if lane.repository != self._source.repository:
                raise TaskInputError(
                    f"lane {name} is in repository {lane.repository}, and the workspace in {self._source.repository}; "
                    "give the workspace that the lane's last step left"
                )
        commits = parallel.each(lambda item: self._descending(*item), list(lanes.items()))
        base = self._lake.commit(self._source.repository, self._source.ref).meta_range_id if lanes else None
        by_content = {commit.meta_range_id: (name, commit.id) for name, commit in zip(lanes, commits, strict=True)}
        self._changed = [found for content, found in by_content.items() if content != base]
        self._lanes = lanes
        self._outdated = self._of_earlier_executions()

    def _descending(self, name: str, lane: WorkspaceRef) -> Commit:
        """The lane's commit; `TaskInputError` unless it descends from the input."""
        try:
            newest = found = self._lake.commit(lane.repository, lane.ref)
        except LakeNotFound as error:
            raise TaskInputError(f"lane {name}: commit {lane.ref} does not exist in repository {lane.repository}") from error
        if found.id != lane.ref:
            raise TaskInputError(f"lane {name}: ref {lane.ref} is not a commit id: it resolves to {found.id}")
        for _ in range(_DEEPEST):
            if found.id == self._source.ref:
                return newest
            if kept_labels.is_kept(found.metadata):
                raise TaskInputError(
                    f"lane {name}: commit {found.id} is an attempt that failed its checks; it is never published"
                )
            if found.first_parent is None:
                break
            found = self._lake.commit(lane.repository, found.first_parent)
        raise TaskInputError(
            f"lane {name}: commit {lane.ref} does not descend from {self._source.ref}, the commit that the lanes began at; "
            "give perago.join the workspace that perago.fork got"
        )

    # the transaction's steps

    def open(self) -> None:
        """Nothing is downloaded."""

    def listing(self) -> Listing:
        return Listing([])

    def inspection(self) -> NoReturn:
        raise AssertionError("its tasks declare no data checks")

    def attach(self, branch: BranchName) -> None:
        """Never called: the body writes to no staging branch."""

    def argument(self) -> Lanes:
        return self

    def blame(self, error: Exception) -> Exception:
        return error

    def settle(self) -> None:
        """Nothing runs on."""

    def verify_input(self) -> None:
        """Nothing is downloaded."""

    def changed(self) -> LanesChange:
        """After the attempt fence, so what earlier executions left on scratch branches may be deleted."""
        source, recorder = self._source, self._execution.recorder
        lane_branches.delete(self._lake, source.repository, self._outdated)
        if self._changed:
            work = Composition(self._lake, recorder, source.repository, source.ref, self._changed, self._create_scratch)
            self._composed = work.compose()
        return LanesChange(None if self._composed is None else self._composed.counts)

    def fill(self, branch: BranchName) -> Commit | None:
        del branch
        return None if self._composed is None else self._composed.commit

    def fill_unchecked(self, branch: BranchName, emit: events.Emit) -> UncheckedFill:
        raise AssertionError(f"a task that has no checks cannot fail them: {branch}, {emit}")

    def published(self) -> None:
        """The lanes are in the published commit, and a retry of this task needs only their commits."""
        self._execution.recorder.clean_up(Effect.DELETE_LANES, self._delete_lanes, "failed to delete the branches of the lanes")

    def close(self) -> None:
        self._delete(self._scratch)

    # branches

    def _create(self, branch: BranchName) -> None:
        self._lake.create_branch(self._source.repository, branch, self._source.ref)

    def _create_scratch(self, commit: CommitId) -> BranchName:
        name = lane_names.scratch_branch(self._execution.attempt, self._execution.id, next(self._numbers))
        self._scratch.append(name)
        self._lake.create_branch(self._source.repository, name, commit)
        return name

    def _of_earlier_executions(self) -> list[BranchName]:
        """What earlier executions of this step have left: lanes of a fork, scratch branches of a join."""
        attempt, execution = self._execution.attempt, self._execution.id
        found = lane_branches.find(self._lake, self._source.repository, lane_names.step_prefix(attempt.logical_task))
        return [name.branch for name in found if lane_names.is_of_an_earlier_execution(name, attempt, execution)]

    def _delete_lanes(self) -> None:
        """All that the forks of these lanes have made, also by earlier attempts, in this workflow."""
        parsed = [name for lane in self._lanes.values() if (name := lane_names.parse(lane.branch)) is not None]
        prefixes = {name.step_prefix for name in parsed if name.workflow_id == self._execution.attempt.workflow_id}
        for prefix in sorted(prefixes):
            found = lane_branches.find(self._lake, self._source.repository, prefix)
            lane_branches.delete(self._lake, self._source.repository, [name.branch for name in found])

    def _delete(self, branches: Sequence[BranchName]) -> None:
        def remove() -> None:
            lane_branches.delete(self._lake, self._source.repository, branches)

        if branches:
            self._execution.recorder.clean_up(Effect.DELETE_LANES, remove, "failed to delete branches of lanes")
