"""Random pipelines end the same way without servers and on the real Conductor and lakeFS through a real worker."""

import json
import re
import uuid
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.support import random_pipelines
from tests.support.random_pipelines import FILES, Plan, Result, declare
from tests.support.tasks.chain.controls import PREFIX
from tests.support.worker_harness import WorkerHarness, open_harness

from perago.dev.stack import Endpoints
from perago.model import BranchName, CommitId, WorkflowId
from perago.pipelines import compiler, graph
from perago.pipelines.flow import pipeline_of
from perago.protocol.statuses import TaskState
from perago.testing import PipelineRun, run_pipeline

_FAILED = {TaskState.FAILED, TaskState.FAILED_WITH_TERMINAL_ERROR, TaskState.TIMED_OUT}
_SERVER_FAULT = "Error scheduling tasks"
"""A busy Conductor has ended the workflow by itself, before a worker saw the task: the example is run again."""
_MOST_RUNS = 3


def run_locally(pipeline: Callable[..., Result], plan: Plan) -> PipelineRun[Result]:
    return run_pipeline(pipeline, files=FILES if described(pipeline).has_workspace else None, inputs=plan.inputs)


def described(pipeline: Callable[..., Result]) -> graph.Pipeline:
    found = pipeline_of(pipeline)
    assert found is not None
    return found


@settings(max_examples=settings().max_examples // 2, suppress_health_check=[HealthCheck.too_slow])
@given(random_pipelines.plans())
def test_a_random_pipeline_runs_without_servers(plan: Plan) -> None:
    run = run_locally(declare(plan, "local"), plan)
    assert run.ok or run.failed_step in run.steps


@dataclass
class RealSide:
    """One worker and one repository for all examples; each has a branch of its own."""

    harness: WorkerHarness
    seed: CommitId
    registered: list[str] = field(default_factory=list[str])

    def run(self, pipeline: graph.Pipeline, inputs: dict[str, Any]) -> "RealRun":
        for one in pipeline.called():
            self._register(one)
        for _ in range(_MOST_RUNS):
            run = self._run(pipeline, inputs)
            if _SERVER_FAULT not in (run.workflow.get("reasonForIncompletion") or ""):
                return run
        raise AssertionError(f"Conductor could not schedule the tasks of {pipeline.name}, {_MOST_RUNS} times")

    def _run(self, pipeline: graph.Pipeline, inputs: dict[str, Any]) -> "RealRun":
        branch = BranchName(f"example-{uuid.uuid4().hex[:12]}")
        site = self.harness.site
        site.lake.create_branch(site.repository, branch, self.seed)
        workspace = {"repository": site.repository, "branch": branch, "ref_type": "commit", "ref": self.seed}
        definition = self._definition(pipeline)
        body = {
            "name": definition["name"],
            "version": 1,
            "workflowDef": definition,
            "input": {**inputs, **({"workspace": workspace} if pipeline.has_workspace else {})},
        }
        workflow_id = WorkflowId(self.harness.real.call("POST", "/workflow", body))
        self.harness.ended(workflow_id, within=300)
        return RealRun(self.harness, workflow_id, branch)

    def close(self) -> None:
        for name in self.registered:
            self.harness.real.call("DELETE", f"/metadata/workflow/{name}/1")

    def _register(self, pipeline: graph.Pipeline) -> None:
        definition = self._definition(pipeline)
        self.harness.real.call("PUT", "/metadata/workflow", [definition])
        self.registered.append(definition["name"])

    def _definition(self, pipeline: graph.Pipeline) -> dict[str, Any]:
        """With the names of the task types that this worker alone serves."""
        return json.loads(json.dumps(compiler.workflow(pipeline)).replace(f"{PREFIX}.", f"{self.harness.prefix}."))


@dataclass
class RealRun:
    harness: WorkerHarness
    workflow_id: WorkflowId
    branch: BranchName

    def __post_init__(self) -> None:
        self.workflow = self._read(self.workflow_id)
        self.tasks = dict(self._tasks(self.workflow, ""))

    @property
    def status(self) -> str:
        return self.workflow["status"]

    @property
    def output(self) -> dict[str, Any]:
        return {name: value for name, value in self.workflow["output"].items() if name != "workspace"}

    @property
    def steps(self) -> dict[str, Any]:
        """The results of the steps by their reference names; None for an optional one that failed."""
        own = {ref: task for ref, task in self.tasks.items() if task["taskType"].startswith(self.harness.prefix)}
        return {ref: task["outputData"].get("result") for ref, task in own.items()}

    @property
    def failed_steps(self) -> list[str]:
        failed = [ref for ref, task in self.tasks.items() if task["status"] in _FAILED and task["taskType"] != "SUB_WORKFLOW"]
        return [ref for ref in failed if self.tasks[ref]["workflowTask"]["type"] == "SIMPLE"]

    def files(self) -> dict[str, bytes]:
        return self.harness.site.content(self.branch)

    def _read(self, workflow_id: str) -> dict[str, Any]:
        return self.harness.real.call("GET", f"/workflow/{workflow_id}?includeTasks=true")

    def _tasks(self, workflow: dict[str, Any], within: str) -> Generator[tuple[str, dict[str, Any]]]:
        for task in workflow["tasks"]:
            ref = f"{within}{task['referenceTaskName']}"
            yield ref, task
            if task["taskType"] == "SUB_WORKFLOW" and task.get("subWorkflowId"):
                called = self._read(task["subWorkflowId"])
                if _is_lane(task, called):
                    yield from ((ref, step) for step in called["tasks"])
                else:
                    yield from self._tasks(called, f"{ref}/")


_LANE_INDEX = re.compile(r"(?<!_)_\d+(?=__|/|$)")


def _is_lane(task: dict[str, Any], called: dict[str, Any]) -> bool:
    """Whether it is the lane of an each: a workflow of one step, which has the lane's reference name and the workflow's name."""
    steps = {(step["referenceTaskName"], step["taskDefName"]) for step in called["tasks"]}
    return steps == {(task["referenceTaskName"].partition("__")[0], called["workflowName"])}


@pytest.fixture(scope="module")
def real_side(stack: Endpoints, tmp_path_factory: pytest.TempPathFactory) -> Generator[RealSide]:
    with open_harness(stack, Path(tmp_path_factory.mktemp("harness"))) as harness:
        seed = harness.site.publish("main", {path: text.encode() for path, text in FILES.items()})
        harness.start(*random_pipelines.MODULES, jobs=2, PERAGO_SERVE_BUILT_IN_TASKS="true")
        side = RealSide(harness, seed)
        try:
            yield side
        finally:
            side.close()


def compare(plan: Plan, side: RealSide) -> None:
    pipeline = declare(plan, f"random_{uuid.uuid4().hex[:12]}")
    local = run_locally(pipeline, plan)
    real = side.run(described(pipeline), plan.inputs)
    shown = f"{real.workflow_id} {real.workflow.get('reasonForIncompletion')}\n{local.report()}"
    assert real.status == local.status, shown
    if described(pipeline).has_workspace:
        assert real.files() == dict(local.files), shown
    if not local.ok:
        # On servers the lanes run side by side, so another one may fail first, or several.
        assert {_LANE_INDEX.sub("", ref) for ref in real.failed_steps} == {_LANE_INDEX.sub("", local.failed_step)}, shown
        return
    assert real.output == local.output, shown
    own = {ref: step.result for ref, step in local.steps.items() if step.task.startswith(f"{PREFIX}.")}
    assert real.steps == own, shown


_SETTINGS = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], phases=[Phase.explicit, Phase.generate]
)


@pytest.mark.timeout(600)
@settings(_SETTINGS, max_examples=6)
@given(plan=random_pipelines.plans())
def test_a_random_pipeline_ends_the_same_way_on_real_servers(real_side: RealSide, plan: Plan) -> None:
    compare(plan, real_side)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@settings(_SETTINGS, max_examples=400, phases=[Phase.explicit, Phase.generate, Phase.shrink])
@given(plan=random_pipelines.plans())
def test_many_random_pipelines_end_the_same_way_on_real_servers(real_side: RealSide, plan: Plan) -> None:
    compare(plan, real_side)
