"""`perago submit` on the real servers: inputs, the commit that a run starts from, registration, workers, lost replies."""

import contextlib
import json
import subprocess
import sys
import uuid
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support import fault_proxy, worker_harness
from tests.support.conductor_sites import nonce, take
from tests.support.operator import CommandResult, OperatorHarness
from tests.support.waiting import eventually

from perago.conductor import workflows
from perago.dev.stack import Endpoints
from perago.errors import TaskStatus
from perago.model import Outcome, TaskType, WorkflowId
from perago.supervisor.status import StatusFile

TASK = """
from pathlib import Path
from pydantic import BaseModel
from perago import WorkspaceSpec, task

class Params(BaseModel):
    scale: float = 1.5
    days: list[str] = []
    name: str

class Result(BaseModel):
    rows: int

@task(name="{prefix}.count", owner_email="tests@example.com", workspace=WorkspaceSpec(prefix="in"{options}))
def count(workspace: Path, params: Params) -> Result:
    return Result(rows=1)
"""
ALONE = """
from pydantic import BaseModel
from perago import task

class Params(BaseModel):
    name: str

class Result(BaseModel):
    rows: int

@task(name="{prefix}.alone", owner_email="tests@example.com")
def alone(params: Params) -> Result:
    return Result(rows=1)
"""
PIPELINE = """
from pydantic import BaseModel
from perago import Flow, pipeline
from {prefix}_count import count

class Inputs(BaseModel):
    name: str
    scale: float = 2.0

class Summary(BaseModel):
    rows: int

@pipeline(name="{prefix}", owner_email="tests@example.com")
def counted(flow: Flow, inputs: Inputs) -> Summary:
    first = flow.step(count, name=inputs.name, scale=inputs.scale)
    second = flow.step(count, ref="again", name="second")
    return Summary(rows=second.rows)
"""


@dataclass(frozen=True, slots=True)
class Project:
    """Modules with names that no other test uses."""

    harness: OperatorHarness
    prefix: str

    def write(self, name: str, text: str, **values: str) -> str:
        module = f"{self.prefix}_{name}"
        text = text.replace("{prefix}", self.prefix)
        for key, value in {"options": "", **values}.items():
            text = text.replace(f"{{{key}}}", value)
        (self.harness.folder / f"{module}.py").write_text(text)
        return module

    def submit(self, module: str, *options: str) -> CommandResult:
        return self.harness.perago("submit", module, *options)

    def started(self, module: str, *options: str) -> dict[str, Any]:
        said = self.submit(module, "-r", self.harness.repository, *options, "--json")
        assert said.code == 0, said.err
        return said.json

    def workflow(self, run: str) -> dict[str, Any]:
        return self.harness.real.call("GET", f"/workflow/{run}?includeTasks=true")

    def complete(self, **result: Any) -> None:
        conductor = self.harness.real.conductor
        polled = take(conductor, TaskType(f"{self.prefix}.count"))
        output = {"workspace": polled.input["workspace"], "result": result}
        conductor.report(polled.attempt, Outcome(TaskStatus.COMPLETED, output), timeout=20)


@pytest.fixture
def project(harness: OperatorHarness, monkeypatch: pytest.MonkeyPatch) -> Generator[Project]:
    made = Project(harness, f"sub_{uuid.uuid4().hex[:8]}")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield made
    for name in [name for name in sys.modules if name.startswith(made.prefix)]:
        del sys.modules[name]
    for name in (made.prefix, f"{made.prefix}.count", f"{made.prefix}.alone"):
        for run in harness.real.call("GET", f"/workflow/running/{name}"):
            harness.terminate(WorkflowId(run))


def test_a_task_runs_as_a_pipeline_of_one_step(project: Project, harness: OperatorHarness) -> None:
    module = project.write("count", TASK)
    seed = harness.by_hand("in/x")
    said = project.submit(module, "-r", harness.repository, "-p", '{"name": "a"}')
    assert said.code == 0, said.err
    first, second = said.out.splitlines()
    run = first.split()[1]
    assert first.startswith(
        f"run {run} of {project.prefix}.count, version 1 (new) on {harness.target} at {seed}; correlation id perago-"
    )
    assert second == f"watch it with perago watch {run}"
    assert said.err == (
        f"warning: no worker asked for {project.prefix}.count in the last 2 minutes: one may be starting or busy; "
        f"if none runs, start one with perago start {module}\n"
    )
    found = project.workflow(run)
    workspace = {"repository": harness.repository, "branch": "main", "ref_type": "commit", "ref": seed}
    assert found["input"] == {"workspace": workspace, "name": "a", "scale": 1.5, "days": []}
    (task,) = found["tasks"]
    assert (task["referenceTaskName"], task["taskDefName"]) == ("count", f"{project.prefix}.count")
    assert task["inputData"] == {"workspace": workspace, "params": {"name": "a", "scale": 1.5, "days": []}}
    project.complete(rows=3)
    eventually(lambda: harness.real.workflow_status(WorkflowId(run)) == "COMPLETED", what="the end")
    assert project.workflow(run)["output"] == {"workspace": workspace, "rows": 3}


def test_a_pipeline_with_its_defaults_and_the_document(project: Project, harness: OperatorHarness) -> None:
    project.write("count", TASK)
    module = project.write("pipeline", PIPELINE)
    seed = harness.by_hand("in/x")
    found = project.started(module, "-p", '{"name": "a"}')
    workspace = {"repository": harness.repository, "branch": "main", "ref_type": "commit", "ref": seed}
    run = found.pop("run")
    assert found.pop("correlation_id") == project.workflow(run)["correlationId"]
    assert found == {"pipeline": project.prefix, "version": 1, "workspace": workspace, "inputs": {"name": "a", "scale": 2.0}}
    # Unchanged: the same version. Changed: a new one.
    assert project.started(module, "-p", '{"name": "b"}')["version"] == 1


def test_a_changed_pipeline_gets_a_new_version_and_a_changed_taskdef_a_warning(
    project: Project, harness: OperatorHarness
) -> None:
    module = project.write("count", TASK)
    assert project.started(module, "-p", '{"name": "a"}')["version"] == 1
    definition = harness.real.call("GET", f"/metadata/taskdefs/{project.prefix}.count")
    harness.real.call("PUT", "/metadata/taskdefs", {**definition, "retryCount": 7})
    workflow = harness.real.call("GET", f"/metadata/workflow/{project.prefix}.count")
    workflow["tasks"][0]["inputParameters"]["params"] = {}
    harness.real.call("PUT", "/metadata/workflow", [workflow])
    said = project.submit(module, "-r", harness.repository, "-p", '{"name": "a"}')
    assert f"warning: Conductor has another TaskDef for {project.prefix}.count; perago register {module} updates it\n" in said.err
    assert "version 2 (new)" in said.out
    assert harness.real.call("GET", f"/metadata/taskdefs/{project.prefix}.count")["retryCount"] == 7


def test_all_problems_of_the_inputs_in_one_error_and_nothing_is_registered(project: Project, harness: OperatorHarness) -> None:
    module = project.write("count", TASK)
    said = project.submit(module, "-r", harness.repository, "-p", '{"scale": "x", "days": 1, "more": 2}')
    assert said.code == 1
    for part in ("inputs.scale: ", "inputs.days: ", "inputs.name: ", "inputs.more: unknown field", "[PG-210]"):
        assert part in said.err
    assert len(said.err.splitlines()) == 1
    assert project.submit(module, "-r", "x", "-p", "[1]").err.startswith("error: --params must be a JSON object")
    file = harness.folder / "inputs.json"
    file.write_text('{"name": 5}')
    assert "inputs.name: " in project.submit(module, "-r", harness.repository, "-p", "inputs.json").err
    assert harness.real.call("GET", f"/workflow/running/{project.prefix}.count") == []


def test_options_that_do_not_fit(project: Project, harness: OperatorHarness) -> None:
    module, alone = project.write("count", TASK), project.write("alone", ALONE)
    name = ("-p", '{"name": "a"}')
    count = f"{project.prefix}.count"
    assert project.submit(module, *name).err == (
        f"error: '{count}' works on a workspace; name the repository with --repository [PG-100]\n"
    )
    said = project.submit(alone, "-r", "x", *name)
    assert said.err == f"error: '{project.prefix}.alone' has no workspace; leave --repository out [PG-100]\n"
    said = project.submit(module, "-r", "no-such-repository", *name)
    assert f"error: repository no-such-repository does not exist in lakeFS at {harness.stack.lakefs_url}; " in said.err
    assert "perago import DIR no-such-repository --create makes it from a folder" in said.err
    said = project.submit(module, "-r", harness.repository, "-b", "side", *name)
    assert (
        f"branch side does not exist in repository {harness.repository}; perago import DIR {harness.repository}/side" in said.err
    )
    started = project.submit(alone, *name, "--json").json
    assert (started["workspace"], started["inputs"]) == (None, {"name": "a"})


def test_a_run_starts_below_a_head_that_was_not_accepted(project: Project, harness: OperatorHarness) -> None:
    module = project.write("count", TASK)
    accepted = harness.accepted(harness.by_hand("in/x"))
    lost = harness.abandoned(accepted.commit)
    said = project.submit(module, "-r", harness.repository, "-p", '{"name": "a"}', "--json")
    assert said.json["workspace"]["ref"] == accepted.commit
    assert f"warning: the head {lost.commit} is not accepted: " in said.err
    assert f"the run starts from {accepted.commit} below it" in said.err
    named = project.submit(module, "-r", harness.repository, "-p", '{"name": "a"}', "--ref", accepted.commit[:16], "--json")
    assert named.json["workspace"]["ref"] == accepted.commit
    assert "is not the head" not in named.err


def test_a_head_that_cannot_be_judged_is_refused(
    project: Project, harness: OperatorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = project.write("count", TASK)
    options = ("-r", harness.repository, "-p", '{"name": "a"}')
    monkeypatch.setattr("perago.operate.submission._REPORT_SECONDS", 0)
    running = harness.run(harness.start(harness.by_hand("in/x")))
    said = project.submit(module, *options)
    assert said.code == 1
    assert f"error: the head {running.commit} of {harness.target} is still running: step s0" in said.err
    assert f"wait for it (perago watch {running.polled.attempt.workflow_id}), or end its run" in said.err
    harness.report(running)
    harness.real.remove(running.polled.attempt.workflow_id)
    said = project.submit(module, *options)
    assert f"whether {running.commit} on {harness.target} was accepted cannot be told" in said.err
    assert f"run perago doctor {harness.target}, or name the commit with --ref" in said.err
    assert project.started(module, "-p", '{"name": "a"}', "--ref", running.commit)["workspace"]["ref"] == running.commit


def test_two_unaccepted_commits_need_an_operator(project: Project, harness: OperatorHarness) -> None:
    module = project.write("count", TASK)
    first = harness.run(harness.start(harness.by_hand("in/x")))
    second = harness.run(harness.start(first.commit))
    for one in (first, second):
        harness.terminate(one.polled.attempt.workflow_id)
    said = project.submit(module, "-r", harness.repository, "-p", '{"name": "a"}')
    assert said.code == 1
    assert f"error: no run can start on {harness.target}: neither its head {second.commit} nor the commit below it" in said.err
    assert f"run perago doctor {harness.target}" in said.err


def test_a_commit_that_the_user_names(project: Project, harness: OperatorHarness) -> None:
    module, reader = project.write("count", TASK), project.write("reader", TASK, options=", read_only=True")
    seed = harness.by_hand("in/x")
    newest = harness.by_hand("in/y")
    name = ("-r", harness.repository, "-p", '{"name": "a"}')
    said = project.submit(module, *name, "--ref", seed, "--json")
    assert said.json["workspace"]["ref"] == seed
    assert f"warning: {seed} is not the head of main, which is at {newest}: the first step that publishes is refused" in said.err
    assert "is not the head" not in project.submit(reader, *name, "--ref", seed).err
    said = project.submit(module, *name, "--ref", "main")
    assert f"error: --ref main is not a commit id: it resolves to {newest}; pass that id itself" in said.err
    said = project.submit(module, *name, "--ref", "0" * 64)
    assert f"is not a commit of repository {harness.repository}" in said.err


def test_worker_of_this_machine_that_has_not_polled_yet_counts(
    project: Project, harness: OperatorHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, options = project.write("count", TASK), ("-r", harness.repository, "-p", '{"name": "a"}')
    monkeypatch.setenv("PERAGO_LOG_ROOT", str(tmp_path / "logs"))
    with contextlib.closing(StatusFile(tmp_path / "logs")) as status:
        status.write({"modules": [module], "conductor_is_up": False})
        assert "warning: no worker asked for" in project.submit(module, *options).err
        status.write({"modules": ["another"], "conductor_is_up": True})
        assert "warning: no worker asked for" in project.submit(module, *options).err
        status.write({"modules": [module], "conductor_is_up": True})
        assert project.submit(module, *options).err == ""
        assert "no worker asked for" in project.submit(module, *options, "--require-workers").err


def test_workers_are_required_if_asked_for(project: Project, harness: OperatorHarness) -> None:
    module = project.write("count", TASK)
    options = ("-r", harness.repository, "-p", '{"name": "a"}', "--require-workers")
    said = project.submit(module, *options)
    assert said.code == 1
    assert said.err == (
        f"error: nothing was started: no worker asked for {project.prefix}.count in the last 2 minutes: "
        f"one may be starting or busy; if none runs, start one with perago start {module} [PG-100]\n"
    )
    assert harness.real.call("GET", f"/workflow/running/{project.prefix}.count") == []
    harness.real.conductor.poll(TaskType(f"{project.prefix}.count"), nonce(), wait_seconds=0)
    said = project.submit(module, *options)
    assert (said.code, said.err) == (0, "")


def test_a_start_whose_reply_is_lost_is_found_by_its_correlation_id(project: Project, harness: OperatorHarness) -> None:
    module = project.write("count", TASK)
    with fault_proxy.FaultProxy(harness.stack.conductor_url.removesuffix("/api")) as proxy:
        proxy.on(r"POST /api/workflow\b", fault_proxy.drop_reply())
        harness.environment["CONDUCTOR_SERVER_URL"] = f"{proxy.url}/api"
        found = project.started(module, "-p", '{"name": "a"}')
        assert len(proxy.requests(r"POST /api/workflow\b")) == 1
    assert harness.real.call("GET", f"/workflow/running/{project.prefix}.count") == [found["run"]]


def test_a_start_that_never_arrived_is_unknown(
    project: Project, harness: OperatorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = project.write("count", TASK)
    monkeypatch.setattr(workflows, "LOOK_UP_SECONDS", 0.0)
    with fault_proxy.FaultProxy(harness.stack.conductor_url.removesuffix("/api")) as proxy:
        proxy.on(r"POST /api/workflow\b", fault_proxy.cut(reset=True))
        harness.environment["CONDUCTOR_SERVER_URL"] = f"{proxy.url}/api"
        said = project.submit(module, "-r", harness.repository, "-p", '{"name": "a"}')
        assert len(proxy.requests(r"POST /api/workflow\b")) == 1
    assert said.code == 1
    assert f"whether a run of {project.prefix}.count was started is unknown: Conductor's reply was lost" in said.err
    assert "no run with correlation id perago-" in said.err
    assert said.err.endswith("[PG-540]\n")
    assert harness.real.call("GET", f"/workflow/running/{project.prefix}.count") == []


def test_submitted_and_watched_with_a_real_worker(stack: Endpoints, tmp_path: Path) -> None:
    with worker_harness.open_harness(stack, tmp_path) as workers:
        seed = workers.seed()
        workers.start(worker_harness.GROW)
        polls = f"/tasks/queue/polldata?taskType={workers.prefix}.grow"
        eventually(lambda: workers.real.call("GET", polls), what="the worker's first poll")
        program = [sys.executable, "-c", "from perago.cli.main import main; main()", "submit", worker_harness.GROW]
        done = subprocess.run(
            [*program, "-r", workers.site.repository, "-p", "{}", "--watch", "--require-workers", "--json"],
            cwd=tmp_path,
            env=workers.environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["status"] == "COMPLETED"
        (step,) = found["steps"]
        assert step["commit"] == workers.head().id
        assert workers.history(seed) == [step["commit"], seed]


WRITER = """
from pathlib import Path
from pydantic import BaseModel
from perago import WorkspaceSpec, task

class Params(BaseModel):
    name: str

class Result(BaseModel):
    name: str

@task(name="{prefix}.write", owner_email="tests@example.com", workspace=WorkspaceSpec(prefix="data"))
def write(workspace: Path, params: Params) -> Result:
    (workspace / params.name).write_text(params.name)
    return Result(name=params.name)
"""
LANES = """
from perago import Flow, pipeline
from {prefix}_write import write

@pipeline(name="{prefix}", owner_email="tests@example.com")
def lanes(flow: Flow) -> None:
    with flow.fork(ref="both") as fork:
        with fork.lane("one"):
            flow.step(write, ref="one", name="one")
        with fork.lane("two"):
            flow.step(write, ref="two", name="two")
"""


def test_a_pipeline_with_lanes_that_write(stack: Endpoints, tmp_path: Path) -> None:
    """The built-in tasks are registered with it, and its lanes become one commit of the branch."""
    with worker_harness.open_harness(stack, tmp_path) as workers:
        for name, text in (("write", WRITER), ("lanes", LANES)):
            (tmp_path / f"{workers.prefix}_{name}.py").write_text(text.replace("{prefix}", workers.prefix))
        module = f"{workers.prefix}_lanes"
        seed = workers.seed()
        workers.start(module, jobs=2, PERAGO_SERVE_BUILT_IN_TASKS="true")
        program = [sys.executable, "-c", "from perago.cli.main import main; main()"]

        def perago(*arguments: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [*program, *arguments],
                cwd=tmp_path,
                env=workers.environment(),
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )

        done = perago("submit", module, "-r", workers.site.repository, "--watch", "--json")
        assert done.returncode == 0, done.stderr
        steps = {step["step"]: step for step in json.loads(done.stdout)["steps"]}
        assert {"both_begin", "one", "two", "both_end"} == steps.keys()
        joined = steps["both_end"]["commit"]
        assert workers.history(seed) == [joined, seed]
        # The commits of the lanes are not among the publications; that of the join tells how much they changed.
        log = json.loads(perago("log", f"{workers.site.repository}/main", "--json", "--limit", "2").stdout)["publications"]
        assert [one["commit"] for one in log] == [joined, seed]
        assert (log[0]["step"], log[0]["workflow_name"], log[0]["changes"]["added"]) == ("both_end", workers.prefix, 2)
