"""Forks and joins on a lake, in memory or real, with a Conductor in memory."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from tests.support.attempts import AttemptScene

from perago.attempt import transaction
from perago.attempt.declared_task import DeclaredTask
from perago.attempt.execution import Execution
from perago.builtin import fork, join, names
from perago.builtin.lane_workspace import LaneBranchesWorkspace
from perago.conductor.port import Polled
from perago.declare.task import TaskDeclaration, declaration_of
from perago.in_memory.conductor import WorkflowStep
from perago.model import BranchName, CommitId, ObjectPath, Outcome, TaskType, WorkerId
from perago.operate.protocol_check.dict_task import upload
from perago.protocol import lane_names

Workspace = dict[str, str]
Edits = Mapping[str, bytes | None]
"""Files to write and, as None, to delete."""

_DECLARED = {names.FORK: declaration_of(fork.fork), names.JOIN: declaration_of(join.join)}


@dataclass
class LaneScene:
    """`scene` has the target branch; the built-in tasks run on its commit `a`."""

    scene: AttemptScene
    join_params: dict[str, Any] = field(default_factory=dict[str, Any])
    forked: tuple[Polled, Outcome] | None = None
    """The fork that was run last and is not reported yet."""

    # steps

    def start(self, task_type: TaskType, params: Mapping[str, Any], reference_name: str = "it") -> Polled:
        """A workflow with one built-in step, handed out."""
        given = {"workspace": self.scene.target().as_json(), "params": dict(params)}
        self.scene.conductor.start([WorkflowStep(task_type, reference_name, given)])
        return self.poll(task_type)

    def poll(self, task_type: TaskType) -> Polled:
        polled = self.scene.conductor.poll(task_type, WorkerId(f"w-{secrets.token_hex(4)}"), wait_seconds=0)
        assert polled is not None, "there is nothing to poll"
        return polled

    def retry(self, polled: Polled) -> Polled:
        self.scene.conductor.expire(polled.attempt.task_id)
        return self.poll(polled.attempt.task_type)

    def execution(self, polled: Polled, lake: Any = None) -> Execution:
        task = DeclaredTask(cast("TaskDeclaration", _DECLARED[polled.attempt.task_type]))
        execution = self.scene.execution(polled.attempt, task, lake)
        return replace(execution, workspaces=lambda ref: LaneBranchesWorkspace(execution, ref))

    def run(self, polled: Polled, lake: Any = None) -> Outcome:
        return transaction.run(self.execution(polled, lake), polled.input)

    def begin_fork(self, lanes: Sequence[str]) -> Polled:
        """A workflow of a fork and its join; the fork, handed out."""
        workspace = self.scene.target().as_json()
        begin = WorkflowStep(names.FORK, "fork_begin", {"workspace": workspace, "params": {"lanes": list(lanes)}})
        end = WorkflowStep(names.JOIN, "fork_end", lambda _outputs: {"workspace": workspace, "params": self.join_params})
        self.scene.conductor.start([begin, end])
        return self.poll(names.FORK)

    def fork(self, *lanes: str) -> dict[str, Workspace]:
        polled = self.begin_fork(lanes)
        self.forked = polled, self.run(polled)
        return lanes_in(self.forked[1])

    def begin_join(self, lanes: Mapping[str, Workspace]) -> Polled:
        """Report the fork; its join, handed out."""
        assert self.forked is not None
        self.join_params = {"lanes": dict(lanes)}
        assert self.scene.report(*self.forked)
        return self.poll(names.JOIN)

    def join(self, lanes: Mapping[str, Workspace], lake: Any = None) -> Outcome:
        return self.run(self.begin_join(lanes), lake)

    def joined(self, edits: Mapping[str, Edits], lake: Any = None) -> Outcome:
        """Fork into these lanes, edit each, and join them."""
        lanes = self.fork(*edits)
        return self.join({name: self.edit(lanes[name], edits[name]) for name in edits}, lake)

    # lanes

    def edit(self, lane: Workspace, edits: Edits) -> Workspace:
        """What a step in the lane leaves."""
        repository, branch = self.scene.repository, BranchName(lane["branch"])
        if not edits:
            return lane
        for path, data in edits.items():
            if data is not None:
                upload(self.scene.lake, repository, branch, path, data)
        gone = [ObjectPath(path) for path, data in edits.items() if data is None]
        if gone:
            self.scene.lake.delete_objects(repository, branch, gone)
        made = self.scene.lake.commit_branch(repository, branch, "a step in a lane", {})
        return {**lane, "ref": made.id}

    def set_base(self, files: Mapping[str, bytes]) -> None:
        """The fork's commit holds exactly these files."""
        repository, branch = self.scene.repository, self.scene.branch
        held = [info.path for info in self.scene.lake.objects(repository, self.scene.a, "").objects]
        self.scene.lake.delete_objects(repository, branch, held)
        self.scene.a = self.scene.publish(dict(files)).id

    # what is there

    def lane_branches(self) -> list[BranchName]:
        return [found.name for found in self.scene.lake.branches(self.scene.repository, lane_names.PREFIX)]

    def published(self, outcome: Outcome) -> dict[str, bytes]:
        """The files of the commit that the outcome names: one commit directly on the input, at the head, and nothing left."""
        assert outcome.output is not None, outcome.reason
        ref = CommitId(cast("Workspace", outcome.output["workspace"])["ref"])
        head = self.scene.head()
        assert (head.id, head.parents) == (ref, (self.scene.a,))
        assert self.scene.staging_branches() == []
        return self.scene.content(ref)


def lanes_in(outcome: Outcome) -> dict[str, Workspace]:
    """The lanes that a fork made."""
    assert outcome.output is not None, outcome.reason
    return cast("dict[str, dict[str, Workspace]]", outcome.output["result"])["lanes"]
