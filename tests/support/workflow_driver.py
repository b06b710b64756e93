"""Runs a workflow definition on a real Conductor: every SIMPLE task is answered by the test itself, without a worker."""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import urllib3

Json = dict[str, Any]
Answer = Callable[[Json], Json | None]
"""From a task, as Conductor shows it, to its output; None fails it without a retry, `FAIL_ONCE` with one."""
FAIL_ONCE: Json = {"fail": "once"}

_EXPECTED = frozenset({("GET", 404), ("DELETE", 409)})
"""A definition that is not there; a run that ended before it was terminated."""
PATIENCE = 100.0
"""Seconds. On a busy machine Conductor loses sight of a system task at times, and takes it up again after 60."""
_ENDED = frozenset({"COMPLETED", "FAILED", "TERMINATED", "TIMED_OUT"})


class WorkflowDriver:
    def __init__(self, url: str) -> None:
        self.url = url
        self._pool = urllib3.PoolManager(retries=False)
        self._started: list[str] = []
        self._registered: list[str] = []

    def close(self) -> None:
        for workflow_id in self._started:
            if self.read(workflow_id)["status"] not in _ENDED:
                self.call("DELETE", f"/workflow/{workflow_id}?reason=test")
        for name in self._registered:
            versions = self.call("GET", f"/metadata/workflow/{name}/versions")
            for definition in versions if isinstance(versions, list) else []:
                self.call("DELETE", f"/metadata/workflow/{name}/{definition['version']}")
        self._pool.clear()

    def call(self, method: str, path: str, body: object | None = None) -> Any:
        data = None if body is None else json.dumps(body)
        answer = self._pool.request(
            method, self.url + path, body=data, headers={"Content-Type": "application/json"}, timeout=60.0
        )
        text = answer.data.decode()
        assert answer.status < 300 or (method, answer.status) in _EXPECTED, f"{method} {path}: {text}"
        return json.loads(text) if text[:1] in {"{", "["} else text

    def removed_at_the_end(self, name: str) -> None:
        """`close` removes every version of the definition."""
        self._registered.append(name)

    def register(self, definition: Mapping[str, Any]) -> None:
        """As its version 1; removed by `close`."""
        self.removed_at_the_end(definition["name"])
        self.call("PUT", "/metadata/workflow", [definition])

    def read(self, workflow_id: str) -> Json:
        return self.call("GET", f"/workflow/{workflow_id}?includeTasks=true")

    def start(self, definition: Mapping[str, Any], given: Mapping[str, Any]) -> str:
        body = {"name": definition["name"], "version": 1, "workflowDef": definition, "input": given}
        self._started.append(self.call("POST", "/workflow", body))
        return self._started[-1]

    def run(self, definition: Mapping[str, Any], given: Mapping[str, Any], answer: Answer, *, within: float = PATIENCE) -> Json:
        """The workflow at its end; fails if nothing happens for `within` seconds."""
        workflow_id = self.start(definition, given)
        deadline = time.monotonic() + within
        while True:
            workflow = self.read(workflow_id)
            if workflow["status"] in _ENDED:
                return workflow
            if self._answer_all(workflow, answer):
                deadline = time.monotonic() + within
            else:
                assert time.monotonic() < deadline, f"still {[(t['referenceTaskName'], t['status']) for t in workflow['tasks']]}"
                time.sleep(0.05)

    def _answer_all(self, workflow: Json, answer: Answer) -> bool:
        answered = False
        for task in workflow["tasks"]:
            if (
                task["status"] in {"SCHEDULED", "IN_PROGRESS"}
                and task["taskType"] == "SUB_WORKFLOW"
                and task.get("subWorkflowId")
            ):
                answered = self._answer_all(self.read(task["subWorkflowId"]), answer) or answered
            elif task["status"] == "SCHEDULED" and task["workflowTask"]["type"] == "SIMPLE":
                self._report(task, answer(task))
                answered = True
        return answered

    def _report(self, task: Json, output: Json | None) -> None:
        body: Json = {"workflowInstanceId": task["workflowInstanceId"], "taskId": task["taskId"]}
        ended: Json = {"status": "COMPLETED", "outputData": output}
        if output is None or output is FAIL_ONCE:
            ended = {"status": "FAILED_WITH_TERMINAL_ERROR" if output is None else "FAILED"}
        self.call("POST", "/tasks", body | ended)
