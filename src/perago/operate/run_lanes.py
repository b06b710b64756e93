"""The lane branches of a run: deleted when it is cancelled, restored before it is retried."""

import contextlib
from collections.abc import Mapping
from typing import Any, cast

from perago.builtin import lane_branches, names
from perago.conductor.workflows import WorkflowClient
from perago.model import LakeAccess, Repository, WorkflowId
from perago.operate import runs, servers

Json = Mapping[str, Any]


def delete(lakefs: LakeAccess | None, client: WorkflowClient, run: WorkflowId) -> int:
    """Those of a run that is over, and of the pipelines that it called; how many were deleted."""
    forked = [one for one in runs.with_called(client, run) if _has_lanes(one)]
    if lakefs is None or not forked:
        return 0
    with contextlib.closing(servers.lake_client(lakefs)) as lake:
        return sum(
            lane_branches.delete_lanes(lake, repository, WorkflowId(str(one["workflowId"])))
            for one in forked
            if (repository := _repository(one)) is not None
        )


def restore(lakefs: LakeAccess | None, client: WorkflowClient, run: WorkflowId) -> int:
    """For a run that is about to be retried, or is retried; how many were restored."""
    forked = [one for one in runs.with_called(client, run) if _has_lanes(one)]
    if lakefs is None or not forked:
        return 0
    with contextlib.closing(servers.lake_client(lakefs)) as lake:
        return len(lane_branches.restore_lanes(lake, *forked))


def _has_lanes(run: Json) -> bool:
    return any(task.get("taskType") == names.FORK for task in runs.tasks_in(run))


def _repository(run: Json) -> Repository | None:
    workspace = cast("Json", run.get("input") or {}).get("workspace")
    name = cast("Json", workspace).get("repository") if isinstance(workspace, Mapping) else None
    return Repository(name) if isinstance(name, str) and name else None
