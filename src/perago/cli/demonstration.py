"""The stack at work: a commit, a branch, a merge and a relocation in lakeFS, a workflow in Conductor; a short table comes out."""

import json
import time
from collections.abc import Generator
from typing import Any

import urllib3
from rich.table import Table

from perago.cli import console, devstack
from perago.dev.stack import Endpoints
from perago.errors import DevStackError

_REPOSITORY = "demo"
_WORKFLOW = "perago_demo"
_TIMEOUT = urllib3.Timeout(connect=5.0, read=30.0)
_COMPLETION_SECONDS = 30.0


def run() -> None:
    """Starts the servers, walks through both, prints what happened."""
    table = Table("server", "what", "result", title="Perago demo")
    with devstack.running(devstack.Options()) as stack:
        for row in [*_walk_lakefs(stack.endpoints), *_walk_conductor(stack.endpoints)]:
            table.add_row(*row)
    console.stdout().print(table)


def _walk_lakefs(endpoints: Endpoints) -> Generator[tuple[str, str, str]]:
    api = _Api(f"{endpoints.lakefs_url}/api/v1", f"{endpoints.access_key_id}:{endpoints.secret_access_key}")
    repository = f"/repositories/{_REPOSITORY}"
    api.call("POST", "/repositories", {"name": _REPOSITORY, "storage_namespace": f"local://{_REPOSITORY}"})
    yield "lakeFS", "create repository", _REPOSITORY

    first = _commit(api, "main", "hello.txt", "hello")
    yield "lakeFS", "commit on main", first[:12]
    api.call("POST", f"{repository}/branches", {"name": "work", "source": "main"})
    yield "lakeFS", "branch work from main", first[:12]
    staged = _commit(api, "work", "world.txt", "world")
    yield "lakeFS", "commit on work", staged[:12]

    merged = api.call("POST", f"{repository}/refs/work/merge/main", {"message": "merge", "squash_merge": True})["reference"]
    yield "lakeFS", "merge work into main", merged[:12]
    api.call("PUT", f"{repository}/branches/main/hard_reset?ref=work")
    head = api.call("GET", f"{repository}/branches/main")["commit_id"]
    if head != staged:
        raise DevStackError(f"lakeFS relocated main to {head} instead of {staged}")
    yield "lakeFS", "relocate main to work", head[:12]


def _commit(api: "_Api", branch: str, path: str, content: str) -> str:
    place = f"/repositories/{_REPOSITORY}/branches/{branch}"
    api.call("POST", f"{place}/objects?path={path}", content)
    return api.call("POST", f"{place}/commits", {"message": f"add {path}"})["id"]


def _walk_conductor(endpoints: Endpoints) -> Generator[tuple[str, str, str]]:
    api = _Api(endpoints.conductor_url)
    task = {"name": "greet", "taskReferenceName": "greet", "type": "INLINE"}
    task |= {
        "inputParameters": {"evaluatorType": "javascript", "expression": "'hello ' + $.name", "name": "${workflow.input.name}"}
    }
    definition = {"name": _WORKFLOW, "version": 1, "schemaVersion": 2, "ownerEmail": "demo@example.com", "tasks": [task]}
    api.call("PUT", "/metadata/workflow", [definition])
    yield "Conductor", "register workflow", _WORKFLOW

    workflow = api.call("POST", f"/workflow/{_WORKFLOW}", {"name": "Perago"})
    yield "Conductor", "start workflow", workflow[:12]
    deadline = time.monotonic() + _COMPLETION_SECONDS
    while (status := api.call("GET", f"/workflow/{workflow}")["status"]) == "RUNNING" and time.monotonic() < deadline:
        time.sleep(0.1)
    if status != "COMPLETED":
        raise DevStackError(f"the demo workflow {workflow} is {status}, not COMPLETED")
    yield "Conductor", "workflow completes", status


class _Api:
    """JSON in, JSON or text out."""

    def __init__(self, base: str, login: str | None = None) -> None:
        self._base = base
        self._headers = urllib3.make_headers(basic_auth=login) if login else {}
        self._pool = urllib3.PoolManager(timeout=_TIMEOUT, retries=False)

    def call(self, method: str, path: str, body: object = None) -> Any:
        kind = "application/octet-stream" if isinstance(body, str) else "application/json"
        data = body if isinstance(body, str) else None if body is None else json.dumps(body)
        answer = self._pool.request(method, f"{self._base}{path}", body=data, headers=self._headers | {"Content-Type": kind})
        if answer.status >= 400:  # noqa: PLR2004 - where HTTP errors begin
            raise DevStackError(f"{method} {path} answered {answer.status}: {answer.data.decode(errors='replace')[:300]}")
        text = answer.data.decode()
        return json.loads(text) if text.startswith(("{", "[")) else text
