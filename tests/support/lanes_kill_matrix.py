"""The phases of a fork and its join, and the workflow of the kill matrix that runs them."""

import uuid
from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.kill_matrix import BRANCH, REPOSITORY, TASK_READ, TASK_UPDATE, KillPhase, Process
from tests.support.lane_workflows import forked, lane
from tests.support.publication import EDIT, definition_of
from tests.support.waiting import eventually
from tests.support.worker_harness import Gate, Worker, WorkerHarness

from perago.model import Commit, CommitId, WorkflowId
from perago.protocol import lane_names

COMPARE = rf"GET {REPOSITORY}/refs/[0-9a-f]+/diff/"
COPY = rf"POST {REPOSITORY}/branches/perago-lane-[^/]*/objects/copy"
TAKE_OVER = rf"POST {REPOSITORY}/refs/[0-9a-f]+/merge/perago-staging-"
PUBLISH = rf"POST {REPOSITORY}/refs/perago-staging[^/]*/merge/main$"
DELETE = rf"DELETE {REPOSITORY}/branches/perago-lane-"


def _phase(name: str, pattern: str, *, after: bool = False, armed_by: str | None = None, sender: Process) -> KillPhase:
    return KillPhase(name, sender, pattern, after=after, armed_by=armed_by, before_body=True)


PHASES = [
    _phase("before a lane branch", BRANCH, sender=Process.EXECUTOR),
    _phase("after a lane branch", BRANCH, after=True, sender=Process.EXECUTOR),
    _phase("before the lanes are compared", COMPARE, sender=Process.EXECUTOR),
    _phase("before the scratch branch", BRANCH, armed_by=COMPARE, sender=Process.EXECUTOR),
    _phase("after the scratch branch", BRANCH, after=True, armed_by=COMPARE, sender=Process.EXECUTOR),
    _phase("before a copy", COPY, sender=Process.EXECUTOR),
    _phase("after a copy", COPY, after=True, sender=Process.EXECUTOR),
    _phase("before the staging branch", BRANCH, armed_by=COPY, sender=Process.EXECUTOR),
    _phase("before the staging commit", TAKE_OVER, sender=Process.EXECUTOR),
    _phase("after the staging commit", TAKE_OVER, after=True, sender=Process.EXECUTOR),
    _phase("before the second fence", TASK_READ, armed_by=TAKE_OVER, sender=Process.SUPERVISOR),
    _phase("before publish", PUBLISH, sender=Process.EXECUTOR),
    _phase("after publish", PUBLISH, after=True, sender=Process.EXECUTOR),
    _phase("before a lane is deleted", DELETE, armed_by=PUBLISH, sender=Process.EXECUTOR),
    _phase("after a lane is deleted", DELETE, after=True, armed_by=PUBLISH, sender=Process.EXECUTOR),
    _phase("before the report", TASK_UPDATE, armed_by=PUBLISH, sender=Process.SUPERVISOR),
    _phase("after the report", TASK_UPDATE, after=True, armed_by=PUBLISH, sender=Process.SUPERVISOR),
]
SELECTED = PHASES[1::4]


class Lanes:
    """A fork of two lanes that each add a file, and its join. Implements `kill_matrix.TaskUnderTest`."""

    def seed(self, harness: WorkerHarness) -> None:
        harness.seed()

    def start(self, harness: WorkerHarness, environ: Mapping[str, str]) -> Worker:
        return harness.start(EDIT, jobs=1, **{**environ, "PERAGO_SERVE_BUILT_IN_TASKS": "true"})

    def begin(self, harness: WorkerHarness, base: CommitId, line: str, gate: Gate) -> WorkflowId:
        del gate
        name = line.replace(" ", "-")
        steps = forked({one: [self._step(harness, name, one)] for one in ("one", "two")})
        definition = definition_of(f"lanes_{uuid.uuid4().hex[:8]}", steps)
        given = {"workspace": harness.workspace(base)}
        body = {"name": definition["name"], "version": 1, "workflowDef": definition, "input": given}
        return WorkflowId(harness.real.call("POST", "/workflow", body))

    def check_step(self, harness: WorkerHarness, base: CommitId, head: Commit, line: str) -> None:
        added = {f"data/{line.replace(' ', '-')}-{one}" for one in ("one", "two")}
        before, after = harness.site.content(base), harness.site.content(head.id)
        assert after.keys() - before.keys() == added, line
        assert {path: data for path, data in after.items() if path not in added} == before, line

    def check_nothing_left(self, harness: WorkerHarness, worker: Worker) -> None:
        """A branch that a dead executor's request creates late is found when the workflow is over."""
        del worker
        lake, repository = harness.site.lake, harness.site.repository
        if any(lake.branches(repository, lane_names.PREFIX)):
            harness.collect_garbage()
        eventually(lambda: not list(lake.branches(repository, lane_names.PREFIX)), within=20, what="the end of the lanes")

    def _step(self, harness: WorkerHarness, name: str, one: str) -> dict[str, Any]:
        params = {"adds": [f"{name}-{one}"], "ran": str(harness.folder / f"ran-{uuid.uuid4().hex[:12]}")}
        return harness.step(EDIT, one, params, lane(one)) | {"retryCount": 9}


def kill_row() -> list[Any]:
    """For the executor: a part of the phases in the ordinary run, all of them in `make chaos`."""
    return [
        pytest.param(SELECTED, id="selection"),
        pytest.param(PHASES, id="all", marks=pytest.mark.chaos),
    ]
