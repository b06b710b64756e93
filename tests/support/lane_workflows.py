"""Hand-written workflows with lanes, around the built-in tasks."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.publication import INPUT, PublicationHarness, TargetBranch

from perago.model import WorkflowId
from perago.protocol import lane_names

Json = dict[str, Any]


def lane(name: str, begin: str = "begin") -> str:
    """The expression for the workspace of a lane."""
    return f"${{{begin}.output.result.lanes.{name}}}"


def forked(lanes: Mapping[str, Sequence[Json]], workspace: str = INPUT) -> list[Json]:
    """`begin`, the lanes side by side, and `end`. A lane without a step that writes is joined as the fork left it."""
    begin = built_in("perago.fork", "begin", workspace, {"lanes": list(lanes)})
    left = {name: f"${{{steps[-1]['taskReferenceName']}.output.workspace}}" for name, steps in lanes.items()}
    tasks = [[*steps, _done(name)] for name, steps in lanes.items()]
    fork = {"name": "fork", "taskReferenceName": "fork", "type": "FORK_JOIN", "forkTasks": tasks}
    join = {"name": "join", "taskReferenceName": "join", "type": "JOIN", "joinOn": [f"{name}_done" for name in lanes]}
    return [begin, fork, join, built_in("perago.join", "end", workspace, {"lanes": left})]


def _done(lane_name: str) -> Json:
    """What the JOIN waits for: it fails if it looks at a step between its failure and its retry."""
    ref = f"{lane_name}_done"
    return {"name": ref, "taskReferenceName": ref, "type": "JSON_JQ_TRANSFORM", "inputParameters": {"queryExpression": "true"}}


def built_in(name: str, reference: str, workspace: str, params: Json) -> Json:
    given = {"workspace": workspace, "params": params}
    return {"name": name, "taskReferenceName": reference, "type": "SIMPLE", "inputParameters": given}


def two_lanes(branch: TargetBranch, **steps: Any) -> list[Json]:
    """Lanes one and two, each with one step of its name; `steps` are further arguments of both."""
    return forked({name: [branch.step(name, workspace=lane(name), **steps)] for name in ("one", "two")})


def lane_branches(harness: PublicationHarness, workflow: WorkflowId) -> list[str]:
    site = harness.worker_harness.site
    return [found.name for found in site.lake.branches(site.repository, lane_names.workflow_prefix(workflow))]
