"""Lists, deletes and restores the branches of lanes and of joins."""

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from perago.builtin import names, parallel
from perago.errors import LakeConflict, LakeNotFound
from perago.lake import port as lake_port
from perago.model import BranchName, CommitId, Repository, WorkflowId, WorkspaceRef
from perago.protocol import lane_names
from perago.protocol.statuses import TaskState

Json = Mapping[str, Any]


def find(lake: lake_port.Lake, repository: Repository, prefix: str = lane_names.PREFIX) -> list[lane_names.LaneName]:
    """The branches of lanes and joins whose name begins with `prefix`."""
    parsed = (lane_names.parse(found.name) for found in lake.branches(repository, prefix))
    return [name for name in parsed if name is not None]


def delete(lake: lake_port.Lake, repository: Repository, branches: Sequence[BranchName]) -> None:
    """Delete them side by side; one that is gone already is no error."""

    def remove(branch: BranchName) -> None:
        with contextlib.suppress(LakeNotFound):
            lake.delete_branch(repository, branch)

    parallel.each(remove, branches)


def delete_lanes(lake: lake_port.Lake, repository: Repository, workflow_id: WorkflowId) -> int:
    """Delete every lane and scratch branch of a workflow, which must be over; how many there were.

    Branches of its sub-workflows have the ids of those.
    """
    found = find(lake, repository, lane_names.workflow_prefix(workflow_id))
    delete(lake, repository, [name.branch for name in found])
    return len(found)


def restore_lanes(lake: lake_port.Lake, *workflows: Json) -> list[BranchName]:
    """Create the deleted branches of lanes again, each at the newest commit that Conductor accepted in it; those created.

    For workflows (with their tasks, as Conductor's JSON) that are about to be retried: a workflow and its sub-workflows. Branches
    that exist are left alone, so it may be called again, and should be once the retry is under way: a worker that saw the
    workflow's end a moment before may have deleted them in between.
    """
    tasks = [task for workflow in workflows for task in workflow.get("tasks") or () if task.get("status") == TaskState.COMPLETED]
    joined = {lane.branch for task in _of_type(tasks, names.JOIN) for lane in _lanes_of(task.get("inputData"), "params")}
    wanted = [lane for task in _of_type(tasks, names.FORK) for lane in _lanes_of(task.get("outputData"), "result")]
    newest = _newest_commits(tasks)
    missing = [
        WorkspaceRef(lane.repository, lane.branch, newest.get(lane.branch, lane.ref))
        for lane in wanted
        if lane.branch not in joined
    ]
    created = parallel.each(functools.partial(_restore, lake), missing)
    return [lane.branch for lane, is_created in zip(missing, created, strict=True) if is_created]


def _restore(lake: lake_port.Lake, lane: WorkspaceRef) -> bool:
    try:
        lake.create_branch(lane.repository, lane.branch, lane.ref)
    except LakeConflict:
        return False
    return True


def _newest_commits(tasks: Iterable[Json]) -> dict[BranchName, CommitId]:
    """By branch. The steps of a lane follow each other, so the one that was completed last has its newest commit."""
    newest: dict[BranchName, CommitId] = {}
    for task in sorted(tasks, key=lambda one: (one.get("endTime") or 0, one.get("seq") or 0)):
        if task.get("taskType") != names.FORK and (left := _workspace(_fields(task.get("outputData")).get("workspace"))):
            newest[left.branch] = left.ref
    return newest


def _of_type(tasks: Iterable[Json], task_type: str) -> Iterator[Json]:
    return (task for task in tasks if task.get("taskType") == task_type)


def _lanes_of(payload: object, key: str) -> Iterator[WorkspaceRef]:
    """The lanes in the input of a join or in the output of a fork; nothing from payloads of another shape."""
    found = _fields(_fields(_fields(payload).get(key)).get("lanes")).values()
    yield from (lane for lane in map(_workspace, found) if lane is not None)


def _fields(value: object) -> Json:
    return cast("Json", value) if isinstance(value, Mapping) else {}


def _workspace(given: object) -> WorkspaceRef | None:
    match given:
        case {"repository": str(repository), "branch": str(branch), "ref": str(ref)}:
            return WorkspaceRef(Repository(repository), BranchName(branch), CommitId(ref))
        case _:
            return None
