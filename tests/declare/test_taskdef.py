"""The TaskDef: its contents, and that a real Conductor stores every control at its bounds unchanged."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import urllib3
from pydantic import BaseModel, Field

from perago import (
    ExecutionLimits,
    PublishBudget,
    RetryPolicy,
    TaskControls,
    TimeoutPolicy,
    WorkspaceSpec,
    forbid_glob,
    require_glob,
    task,
)
from perago.declare import taskdef
from perago.declare.task import TaskDeclaration, declaration_of
from perago.dev.stack import Endpoints

INT_MAX = 2**31 - 1


class Params(BaseModel):
    feature_set: str
    min_rows: int = Field(ge=1, le=2**70, default=1)
    ratio: float | None = None
    tags: list[str] = []
    maps: dict[str, dict[str, int]] = {}


class Output(BaseModel):
    row_count: int


@task(
    name="features.build",
    owner_email="data@example.com",
    description="Build feature files.",
    workspace=WorkspaceSpec(prefix="/audio/render", read_only=True, pre=[require_glob("raw/*")], post=[forbid_glob("*.tmp")]),
    controls=TaskControls(publish_budget=PublishBudget(1, 1, 2, 3, 4, 5)),
)
def build_features(workspace: Path, params: Params) -> Output:
    return Output(row_count=1)


@task(name="add", owner_email="data@example.com")
def add(params: Params) -> Output:
    return Output(row_count=1)


def declared(function: Callable[..., Any]) -> TaskDeclaration:
    found = declaration_of(function)
    assert found is not None
    return found


def test_a_task_without_a_workspace() -> None:
    made = taskdef.of(declared(add))
    schemas = {name: made.pop(name) for name in ("inputSchema", "outputSchema")}
    assert made == {
        "name": "add",
        "ownerEmail": "data@example.com",
        "retryCount": 3,
        "retryLogic": "FIXED",
        "retryDelaySeconds": 60,
        "maxRetryDelaySeconds": 0,
        "backoffJitterMs": 0,
        "responseTimeoutSeconds": 600,
        "timeoutSeconds": 0,
        "totalTimeoutSeconds": 0,
        "pollTimeoutSeconds": 0,
        "timeoutPolicy": "TIME_OUT_WF",
        "inputKeys": ["params"],
        "outputKeys": ["result"],
    }
    assert {k: v for k, v in schemas["inputSchema"].items() if k != "data"} == {"name": "add.input", "version": 1, "type": "JSON"}
    assert schemas["outputSchema"] == {
        "name": "add.output",
        "version": 1,
        "type": "JSON",
        "data": {
            "type": "object",
            "properties": {
                "result": {
                    "type": "object",
                    "properties": {"row_count": {"type": "integer"}},
                    "required": ["row_count"],
                    "additionalProperties": False,
                }
            },
            "required": ["result"],
            "additionalProperties": False,
        },
    }


def test_a_task_with_a_workspace_tells_nothing_of_where_and_how() -> None:
    made = taskdef.of(declared(build_features))
    assert made["description"] == "Build feature files."
    assert (made["inputKeys"], made["outputKeys"]) == (["workspace", "params"], ["workspace", "result"])
    data = made["inputSchema"]["data"]
    assert data["required"] == ["workspace", "params"]
    assert data["properties"]["workspace"]["required"] == ["repository", "branch", "ref_type", "ref"]
    text = json.dumps(made)
    assert not [word for word in ("audio", "raw/", "tmp", "read_only", "readOnly", "budget", "merge") if word in text]


class Server:
    def __init__(self, url: str) -> None:
        self._url = url
        self._http = urllib3.PoolManager(timeout=20, retries=False)

    def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        reply = (
            self._http.request(method, f"{self._url}{path}", json=body) if body else self._http.request(method, self._url + path)
        )
        return reply.status, json.loads(reply.data) if reply.data else None

    def stored(self, made: dict[str, Any]) -> dict[str, Any]:
        """Write the definition to Conductor, read it back and remove it."""
        status, answer = self.call("POST", "/metadata/taskdefs", [made])
        assert status == 200, answer
        path = f"/metadata/taskdefs/{quote(made['name'], safe='')}"
        try:
            return self.call("GET", path)[1]
        finally:
            self.call("DELETE", path)


@pytest.fixture
def server(stack: Endpoints) -> Server:
    return Server(stack.conductor_url.rstrip("/"))


AT_BOUNDS = [
    TaskControls(),
    TaskControls(retry=RetryPolicy(count=0, delay_seconds=0)),
    TaskControls(retry=RetryPolicy(10, "EXPONENTIAL_BACKOFF", INT_MAX, INT_MAX, INT_MAX)),
    TaskControls(retry=RetryPolicy(logic="LINEAR_BACKOFF")),
    TaskControls(timeout=TimeoutPolicy(response_seconds=1, seconds=1, total_seconds=1, poll_seconds=1, policy="RETRY")),
    TaskControls(timeout=TimeoutPolicy(INT_MAX, INT_MAX, INT_MAX, INT_MAX, "ALERT_ONLY")),
    TaskControls(limits=ExecutionLimits(1, 1, 1)),
    TaskControls(limits=ExecutionLimits(INT_MAX, INT_MAX, INT_MAX)),
]


@pytest.mark.parametrize("controls", AT_BOUNDS)
@pytest.mark.parametrize("function", [add, build_features])
def test_conductor_stores_it_unchanged(
    server: Server, fresh_name: Callable[[], str], function: Callable[..., Any], controls: TaskControls
) -> None:
    assert list(controls.problems()) == []
    made = taskdef.of(replace(declared(function), name=fresh_name(), controls=controls))
    stored = server.stored(made)
    assert {name: stored[name] for name in made if not name.endswith("Schema")} == {
        name: value for name, value in made.items() if not name.endswith("Schema")
    }
    for name in ("inputSchema", "outputSchema"):
        assert {key: stored[name][key] for key in made[name]} == made[name]
    assert taskdef.differences(made, stored) == {}


REJECTED: list[tuple[TaskControls, int]] = [
    (TaskControls(retry=RetryPolicy(count=-1)), 400),
    (TaskControls(retry=RetryPolicy(delay_seconds=INT_MAX + 1)), 500),
    (TaskControls(timeout=TimeoutPolicy(response_seconds=0)), 400),
    (TaskControls(timeout=TimeoutPolicy(response_seconds=11, seconds=10)), 400),
    (TaskControls(timeout=TimeoutPolicy(response_seconds=1, seconds=10, total_seconds=9)), 400),
]


@pytest.mark.parametrize(("controls", "status"), REJECTED)
def test_what_conductor_rejects_is_refused_here_already(
    server: Server, fresh_name: Callable[[], str], controls: TaskControls, status: int
) -> None:
    made = taskdef.of(replace(declared(add), name=fresh_name(), controls=controls))
    assert server.call("POST", "/metadata/taskdefs", [made])[0] == status
    assert list(controls.problems()) != []


def test_names_with_odd_characters_are_stored(server: Server, fresh_name: Callable[[], str]) -> None:
    for odd in ("größe", "a:b;c%2F?#", "😀"):
        made = taskdef.of(replace(declared(add), name=f"{fresh_name()}.{odd}"))
        assert server.stored(made)["name"] == made["name"]


def test_differences_are_those_fields_that_an_update_would_change() -> None:
    made = taskdef.of(declared(add))
    as_stored = {**made, "createTime": 5, "rateLimitPerFrequency": 0, "rateLimitFrequencyInSeconds": 1, "enforceSchema": False}
    as_stored["inputSchema"] = {**made["inputSchema"], "createTime": 0}
    assert taskdef.differences(made, as_stored) == {}
    assert taskdef.differences(made, {**as_stored, "retryCount": 5}) == {"retryCount": (5, 3)}
    assert taskdef.differences(made, {**as_stored, "concurrentExecLimit": 2}) == {"concurrentExecLimit": (2, None)}
    assert taskdef.differences(made, {**as_stored, "description": "old"}) == {"description": ("old", None)}
    assert list(taskdef.differences(made, {**as_stored, "inputSchema": None})) == ["inputSchema"]


def test_a_limit_that_is_taken_away_is_a_difference_on_the_server_too(server: Server, fresh_name: Callable[[], str]) -> None:
    name = fresh_name()
    limited = taskdef.of(replace(declared(add), name=name, controls=TaskControls(limits=ExecutionLimits(2, 3, 4))))
    free = taskdef.of(replace(declared(add), name=name))
    assert taskdef.differences(free, server.stored(limited)) == {
        "concurrentExecLimit": (2, None),
        "rateLimitFrequencyInSeconds": (3, 1),
        "rateLimitPerFrequency": (4, 0),
    }
