"""One worker behind proxies for many scenarios, each with its own target branch."""

import hashlib
import re
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.conductor_sites import take
from tests.support.fault_proxy import FaultProxy
from tests.support.waiting import eventually
from tests.support.worker_harness import MAIN, PLAIN, Gate, Worker, WorkerHarness
from tests.support.worker_harness import open_harness as open_worker_harness

from perago.conductor.port import Polled
from perago.dev.stack import Endpoints
from perago.model import BranchName, CommitId, ExecutionId, WorkflowId
from perago.protocol import commit_labels

EDIT = "tests.support.tasks.edit"
VIEW = "tests.support.tasks.view"
REMOVED = "commit removed from the target branch"
REASON_LIMIT = 500
SLOTS = 3
ATTEMPTS = 2
"""Of a step that is refused each time: one retry."""
FINAL = frozenset({"COMPLETED", "FAILED", "TERMINATED", "TIMED_OUT"})
INPUT = "${workflow.input.workspace}"
Json = dict[str, Any]


@dataclass
class PublicationHarness:
    """A worker that serves, and the proxies between it and the servers."""

    worker_harness: WorkerHarness
    conductor: FaultProxy
    lakefs: FaultProxy
    worker: Worker
    started: list[WorkflowId] = field(default_factory=list[WorkflowId])

    def start(self, steps: Sequence[Json], given: Json, name: str = "scenario") -> WorkflowId:
        definition = definition_of(f"{name}_{uuid.uuid4().hex[:8]}", steps)
        body = {"name": definition["name"], "version": 1, "workflowDef": definition, "input": given}
        self.started.append(WorkflowId(self.worker_harness.real.call("POST", "/workflow", body)))
        return self.started[-1]

    def remove(self, workflow: WorkflowId) -> None:
        """Remove the workflow from Conductor."""
        self.worker_harness.real.call("DELETE", f"/workflow/{workflow}/remove?archiveWorkflow=false")
        self.started.remove(workflow)

    def close(self) -> None:
        for workflow in self.started:
            if self.worker_harness.real.workflow_status(workflow) not in FINAL:
                self.worker_harness.real.terminate(workflow)

    def branch(self) -> "TargetBranch":
        """A target branch that no other scenario uses."""
        name = BranchName(f"target-{uuid.uuid4().hex[:12]}")
        base = self.worker_harness.site.lake.head(self.worker_harness.site.repository, MAIN).id
        self.worker_harness.site.lake.create_branch(self.worker_harness.site.repository, name, base)
        return TargetBranch(self, name, base)

    def gate(self) -> Gate:
        return self.worker_harness.gate()

    def tasks(self, workflow: WorkflowId) -> list[Json]:
        return self.worker_harness.tasks(workflow)

    def attempts(self, workflow: WorkflowId, step: str) -> list[Json]:
        return [task for task in self.tasks(workflow) if task["referenceTaskName"] == step]

    def accepted(self, workflow: WorkflowId, step: str = "it") -> CommitId:
        """The commit that the one completed attempt of the step names."""
        (done,) = [task for task in self.attempts(workflow, step) if task["status"] == "COMPLETED"]
        return CommitId(done["outputData"]["workspace"]["ref"])

    def completed(self, workflow: WorkflowId, step: str = "it") -> CommitId:
        """The workflow succeeds; the commit of its step."""
        assert self.worker_harness.ended(workflow) == "COMPLETED", [
            task.get("reasonForIncompletion") for task in self.tasks(workflow)
        ]
        return self.accepted(workflow, step)

    def refused(self, workflow: WorkflowId, *words: str, step: str = "it") -> str:
        """The workflow fails because every attempt of the step was refused; the last reason, which holds all these words."""
        assert self.worker_harness.ended(workflow) == "FAILED", [task["outputData"] for task in self.tasks(workflow)]
        attempts = self.attempts(workflow, step)
        assert {task["status"] for task in attempts} == {"FAILED"}, [
            (task["status"], task.get("reasonForIncompletion")) for task in attempts
        ]
        assert all(task["outputData"] == {} for task in attempts)
        reasons = [str(task["reasonForIncompletion"]) for task in attempts]
        assert all(len(reason) <= REASON_LIMIT and "… [" not in reason for reason in reasons), reasons
        for word in words:
            assert word in reasons[-1], (word, reasons)
        return reasons[-1]

    def finish(self, workflow: WorkflowId, step: str, output: Mapping[str, Any] | None = None) -> None:
        """What a person does at a HUMAN step."""
        waiting = eventually(lambda: [task for task in self.attempts(workflow, step) if task["status"] == "IN_PROGRESS"])[0]
        self.report(workflow, waiting["taskId"], "COMPLETED", output or {})

    def report(self, workflow: WorkflowId, task_id: str, status: str, output: Mapping[str, Any] | None = None) -> None:
        body = {"workflowInstanceId": workflow, "taskId": task_id, "status": status, "outputData": output or {}}
        self.worker_harness.real.call("POST", "/tasks", body)
        eventually(lambda: self.worker_harness.real.call("GET", f"/tasks/{task_id}")["status"] == status)

    def until_completed(self, workflow: WorkflowId, step: str) -> CommitId:
        eventually(lambda: [task for task in self.attempts(workflow, step) if task["status"] == "COMPLETED"], what=step)
        return self.accepted(workflow, step)

    def metric(self, name: str, **fields: str) -> float:
        """The value of a metric of the worker; 0 if it has not been counted yet."""
        shown = self.worker.fetch("/metrics")[1]
        wanted = [f'{field}="{value}"' for field, value in fields.items()]
        lines = [line for line in shown.splitlines() if line.startswith(f"{name}{{") and all(word in line for word in wanted)]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def removals(self, kind: str) -> float:
        return self.metric("perago_commits_removed_total", kind=kind)


@dataclass
class TargetBranch:
    """The target branch of one scenario, and the workflows that publish to it."""

    harness: PublicationHarness
    name: BranchName
    base: CommitId
    runs: list[Path] = field(default_factory=list[Path])

    # lakeFS

    @property
    def repository(self) -> str:
        return self.harness.worker_harness.site.repository

    def workspace(self, ref: str | None = None, branch: str | None = None) -> dict[str, str]:
        return {"repository": self.repository, "branch": branch or self.name, "ref_type": "commit", "ref": ref or self.base}

    def history(self) -> list[CommitId]:
        """From the head down to the base, by first parents."""
        lake, found = (
            self.harness.worker_harness.site.lake,
            [self.harness.worker_harness.site.lake.head(self.harness.worker_harness.site.repository, self.name)],
        )
        while found[-1].id != self.base:
            parent = found[-1].first_parent
            assert parent is not None, "the head does not descend from the base"
            found.append(lake.commit(self.harness.worker_harness.site.repository, parent))
        return [commit.id for commit in found]

    def labels(self) -> Mapping[str, str]:
        """Of the head."""
        return self.harness.worker_harness.site.lake.head(self.harness.worker_harness.site.repository, self.name).metadata

    def added(self) -> set[str]:
        """The files that the head has beyond the base."""
        content = self.harness.worker_harness.site.content(self.name)
        assert content.pop("data/kept") == b"from the start", "a file of the base is gone"
        return {path.removeprefix("data/") for path in content}

    def shows(self, *commits: CommitId, files: set[str]) -> None:
        """Exactly these commits on the base, newest first, with these files and nothing staged any more."""
        assert self.history() == [*commits, self.base]
        assert self.added() == files
        assert not list(self.harness.worker_harness.site.lake.uncommitted(self.harness.worker_harness.site.repository, self.name))
        eventually(lambda: not self.staging(), what="the end of the staging branches")

    def staging(self) -> list[str]:
        return [name for name in self.harness.worker_harness.staging_branches() if self.digest in name]

    @property
    def digest(self) -> str:
        """Of the branch's name, as staging branches carry it."""
        return hashlib.sha256(self.name.encode()).hexdigest()[:12]

    @property
    def merge_request(self) -> str:
        """Matches the publication of a staging branch to this branch."""
        return rf"POST /api/v1/repositories/[^/]+/refs/perago-staging[^/]*/merge/{re.escape(self.name)}"

    def person_commits(self, file: str, message: str) -> CommitId:
        return self.harness.worker_harness.site.publish(self.name, {f"data/{file}": b"by hand\n"}, message)

    def person_merges(self, file: str, message: str) -> CommitId:
        """From a branch that the person made at the base."""
        site, own = self.harness.worker_harness.site, BranchName(f"person-{uuid.uuid4().hex[:8]}")
        site.lake.create_branch(site.repository, own, self.base)
        site.publish(own, {f"data/{file}": b"by hand\n"}, "on a branch of my own")
        merged = site.lake.merge(site.repository, own, self.name, message=message, metadata={}, timeout=30)
        site.lake.delete_branch(site.repository, own)
        return merged

    # workflows

    def step(
        self,
        name: str = "it",
        *adds: str | None,
        workspace: object = None,
        gate: Gate | None = None,
        retries: int = ATTEMPTS - 1,
        module: str = EDIT,
    ) -> Json:
        """A step that adds a file called like itself, or what `adds` says for each run."""
        ran = self.harness.worker_harness.folder / f"ran-{uuid.uuid4().hex[:12]}"
        self.runs.append(ran)
        params: Json = {"ran": str(ran)}
        if module == EDIT:
            params["adds"] = list(adds) or [name]
        if gate is not None:
            params["gate"] = str(gate)
        made = self.harness.worker_harness.step(module, name, params, workspace or self.workspace())
        return made | {"retryCount": retries}

    def start(self, *steps: Json, given: CommitId | None = None) -> WorkflowId:
        """`${workflow.input.workspace}` is at `given`, or the base."""
        return self.harness.start(steps, {"workspace": self.workspace(given)})

    def executors(self) -> list[int]:
        """The process ids of all runs of the last step that was made, in order; empty where its body never ran."""
        ran = self.runs[-1]
        return [int(line) for line in ran.read_text().split()] if ran.exists() else []

    # a task that the test executes itself

    def hold(self, step: str = "held", **definition: Any) -> "HeldTask":
        """A workflow whose only task was handed out to this test."""
        real = self.harness.worker_harness.real
        task_type = real.task_type(**{"retryCount": 0, **definition})
        given = {"workspace": self.workspace(), "params": {}}
        task = {"name": task_type, "taskReferenceName": step, "type": "SIMPLE", "inputParameters": given}
        workflow = self.harness.start([task], {})
        return HeldTask(self, workflow, take(real.conductor, task_type))


@dataclass(frozen=True)
class HeldTask:
    """A task in progress that the test executes step by step."""

    branch: TargetBranch
    workflow: WorkflowId
    polled: Polled

    @property
    def task_id(self) -> str:
        return self.polled.attempt.task_id

    def publish(self, file: str = "held") -> CommitId:
        """A commit with the labels of this task, directly on the branch's head."""
        site, real = self.branch.harness.worker_harness.site, self.branch.harness.worker_harness.real
        site.put(self.branch.name, f"data/{file}", b"held\n")
        created = int(real.call("GET", f"/workflow/{self.workflow}?includeTasks=false")["createTime"])
        marks = commit_labels.write(self.polled.attempt, ExecutionId(uuid.uuid4().hex[:24]), self.branch.base, created)
        return site.lake.commit_branch(site.repository, self.branch.name, "published by hand", marks).id

    def complete(self, ref: CommitId | None, **result: object) -> None:
        output: Json = {"result": result}
        if ref is not None:
            output["workspace"] = self.branch.workspace(ref)
        self.branch.harness.report(self.workflow, self.task_id, "COMPLETED", output)

    def fail(self) -> None:
        self.branch.harness.report(self.workflow, self.task_id, "FAILED")

    def terminate(self) -> None:
        self.branch.harness.worker_harness.real.terminate(self.workflow)
        self._until("CANCELED")

    def time_out(self) -> None:
        """Asks Conductor to evaluate timeouts now, because it does so late on its own."""
        self._until("TIMED_OUT", lambda: self.branch.harness.worker_harness.real.call("PUT", f"/workflow/decide/{self.workflow}"))

    def _until(self, status: str, ask: Callable[[], object] = lambda: None) -> None:
        def there() -> bool:
            ask()
            return self.branch.harness.worker_harness.real.call("GET", f"/tasks/{self.task_id}")["status"] == status

        eventually(there, what=f"status {status}")


def definition_of(name: str, steps: Sequence[Json]) -> Json:
    return {
        "name": name,
        "version": 1,
        "schemaVersion": 2,
        "ownerEmail": "tests@example.com",
        "tasks": list(steps),
        "timeoutSeconds": 0,
        "timeoutPolicy": "ALERT_ONLY",
    }


def fork(*lanes: Json) -> list[Json]:
    names = [lane["taskReferenceName"] for lane in lanes]
    return [
        {"name": "fork", "taskReferenceName": "fork", "type": "FORK_JOIN", "forkTasks": [[lane] for lane in lanes]},
        {"name": "join", "taskReferenceName": "join", "type": "JOIN", "joinOn": names},
    ]


def loop(times: int, *steps: Json, **given: object) -> Json:
    return {
        "name": "loop",
        "taskReferenceName": "loop",
        "type": "DO_WHILE",
        "inputParameters": given,
        "loopCondition": f"if ($.loop['iteration'] < {times}) {{ true; }} else {{ false; }}",
        "loopOver": list(steps),
    }


def sub_workflow(name: str, steps: Sequence[Json], workspace: str = INPUT) -> Json:
    """Its own input and output carry the workspace of its last step."""
    definition = definition_of(f"sub_{uuid.uuid4().hex[:8]}", steps)
    definition["outputParameters"] = {"workspace": f"${{{steps[-1]['taskReferenceName']}.output.workspace}}"}
    return {
        "name": definition["name"],
        "taskReferenceName": name,
        "type": "SUB_WORKFLOW",
        "inputParameters": {"workspace": workspace},
        "subWorkflowParam": {"name": definition["name"], "version": 1, "workflowDefinition": definition},
    }


@contextmanager
def open_harness(stack: Endpoints, folder: Path, **environ: str) -> Generator[PublicationHarness]:
    with ExitStack() as things:
        worker_harness = things.enter_context(open_worker_harness(stack, folder))
        worker_harness.site.publish(MAIN, {"data/kept": b"from the start"})
        conductor = things.enter_context(FaultProxy(stack.conductor_url))
        lakefs = things.enter_context(FaultProxy(stack.lakefs_url))
        addresses = {"CONDUCTOR_SERVER_URL": conductor.url, "LAKECTL_SERVER_ENDPOINT_URL": lakefs.url}
        worker = worker_harness.start(
            EDIT,
            VIEW,
            PLAIN,
            jobs=SLOTS,
            options=("--register", "--metrics-port", "0"),
            **{**addresses, "E2E_RETRIES": str(ATTEMPTS - 1), **environ},
        )
        made = PublicationHarness(worker_harness, conductor, lakefs, worker)
        things.callback(made.close)
        yield made
        eventually(lambda: not worker_harness.left_workspaces(), what="the end of the workspaces")
