"""Every request of both clients conforms to its server's OpenAPI document, and the check notices requests that do not."""

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.support import fault_proxy as faults
from tests.support import openapi
from tests.support.fault_proxy import FaultProxy
from tests.support.openapi import ApiDocument, SentRequest

from perago import task
from perago.conductor.client import ConductorClient
from perago.declare import taskdef
from perago.declare.task import declaration_of
from perago.dev.stack import Endpoints
from perago.errors import ConductorError, LakeError, TaskStatus
from perago.http.request import HttpTimeouts
from perago.lake import presigned
from perago.lake.client import LakeFS
from perago.lake.port import SmallFile
from perago.model import (
    Attempt,
    BranchName,
    Commit,
    CommitId,
    LakeAccess,
    MetaRangeId,
    ObjectInfo,
    ObjectPath,
    Outcome,
    Repository,
    TaskId,
    TaskType,
    WorkerId,
    WorkflowId,
)
from perago.operate import servers
from perago.settings import ConductorAccess

REPOSITORY, MAIN, STAGING = Repository("repository"), BranchName("main"), BranchName("staging")
COMMIT = CommitId("c" * 64)
STEP = {"name": "t", "taskReferenceName": "t", "type": "SIMPLE", "inputParameters": {"params": {}}}
WORKFLOW = {"name": "w", "version": 1, "schemaVersion": 2, "ownerEmail": "a@example.com", "tasks": [STEP], "timeoutSeconds": 0}
ATTEMPT = Attempt(WorkflowId("w1"), TaskId("t1"), 0, "r", 1, 0, TaskType("x"), WorkerId("n"), 1, 1)
NONCE = WorkerId("n2")
COMPLETED = Outcome(TaskStatus.COMPLETED, {"result": {"a": 1, "b": [None]}}, log=("line",))
FAILED = Outcome(TaskStatus.FAILED, None, "reason")


class Numbers(BaseModel):
    a: int
    b: float | None = None


@task(name="numbers.add", owner_email="data@example.com", description="Add.")
def add(params: Numbers) -> Numbers:
    return params


def task_definition() -> Mapping[str, Any]:
    declaration = declaration_of(add)
    assert declaration is not None
    return taskdef.of(declaration)


LAKE_CALLS: dict[str, Callable[[LakeFS, Path], object]] = {
    "capabilities": lambda lake, _: lake.capabilities(),
    "commit": lambda lake, _: lake.commit(REPOSITORY, COMMIT),
    "head": lambda lake, _: lake.head(REPOSITORY, MAIN),
    "branch": lambda lake, _: lake.branch(REPOSITORY, MAIN),
    "create_branch": lambda lake, _: lake.create_branch(REPOSITORY, STAGING, COMMIT),
    "delete_branch": lambda lake, _: lake.delete_branch(REPOSITORY, STAGING),
    "branches": lambda lake, _: list(lake.branches(REPOSITORY, "staging")),
    "commit_branch": lambda lake, _: lake.commit_branch(REPOSITORY, STAGING, "message", {"key": "value"}),
    "merge": lambda lake, _: lake.merge(REPOSITORY, STAGING, MAIN, message="m", metadata={"key": "value"}, timeout=5),
    "revert": lambda lake, _: lake.revert(REPOSITORY, STAGING, Commit(COMMIT, (), MetaRangeId("m")), "message"),
    "relocate": lambda lake, _: lake.relocate(REPOSITORY, MAIN, STAGING, timeout=5),
    "interrupt_updates": lambda lake, _: lake.interrupt_updates(REPOSITORY, MAIN),
    "differences": lambda lake, _: list(lake.differences(REPOSITORY, COMMIT, COMMIT)),
    "objects": lambda lake, _: lake.objects(REPOSITORY, COMMIT, "a b", presign=True),
    "read": lambda lake, folder: lake.read(REPOSITORY, COMMIT, ObjectInfo(ObjectPath("ü+"), 1, ""), folder / "into"),
    "read_part": lambda lake, _: lake.read_part(
        REPOSITORY, COMMIT, ObjectInfo(ObjectPath("ü+"), 9, ""), 1, 2, lambda data, _position: len(data)
    ),
    "write": lambda lake, folder: lake.write(
        REPOSITORY, STAGING, ObjectPath("a"), folder / "source", content_type="x/y", metadata={}
    ),
    "write_small": lambda lake, _: list(
        lake.write_small(REPOSITORY, STAGING, [SmallFile(ObjectPath("a"), b"1", "x/y", {"Key": " v"})])
    ),
    "copy_object": lambda lake, _: lake.copy_object(REPOSITORY, STAGING, ObjectPath("ü+"), COMMIT),
    "delete_objects": lambda lake, _: lake.delete_objects(REPOSITORY, STAGING, [ObjectPath("a")]),
    "uncommitted": lambda lake, _: list(lake.uncommitted(REPOSITORY, STAGING)),
}
CONDUCTOR_CALLS: dict[str, Callable[[ConductorClient], object]] = {
    "check": lambda client: client.check(),
    "poll": lambda client: client.poll(TaskType("a/b"), NONCE, wait_seconds=0),
    "snapshot": lambda client: client.snapshot(ATTEMPT.workflow_id, ATTEMPT.task_id),
    "workflow_status": lambda client: client.workflow_status(ATTEMPT.workflow_id),
    "workflow_run": lambda client: client.workflow_run(ATTEMPT.workflow_id),
    "task": lambda client: client.task(ATTEMPT.task_id),
    "extend_lease": lambda client: client.extend_lease(ATTEMPT),
    "report": lambda client: client.report(ATTEMPT, COMPLETED, timeout=5),
    "report failure": lambda client: client.report(ATTEMPT, FAILED, timeout=5),
    "report_and_poll": lambda client: client.report_and_poll(ATTEMPT, COMPLETED, NONCE, timeout=5),
    "hand_back": lambda client: client.hand_back(ATTEMPT),
    "workflow_definition": lambda client: client.workflow_definition("w"),
    "create_workflow_definition": lambda client: client.create_workflow_definition(WORKFLOW),
    "decide": lambda client: client.decide(ATTEMPT.workflow_id),
    "handed_out": lambda client: client.handed_out(TaskType("x"), [NONCE]),
    "log": lambda client: client.log(ATTEMPT.task_id, ["line"]),
    "task_definition": lambda client: client.task_definition(TaskType("x")),
    "put_task_definition": lambda client: client.put_task_definition(task_definition()),
}


@pytest.fixture
def lakefs_document(stack: Endpoints) -> ApiDocument:
    return openapi.lakefs(stack.lakefs_url)


@pytest.fixture
def conductor_document(stack: Endpoints) -> ApiDocument:
    return openapi.conductor(stack.conductor_url)


@pytest.mark.parametrize("verb", LAKE_CALLS)
def test_each_lakefs_request_conforms(lakefs_document: ApiDocument, tmp_path: Path, verb: str) -> None:
    (tmp_path / "source").write_bytes(b"data")
    with FaultProxy() as server, openapi.checked_requests(lakefs_document) as sent:
        server.on("", faults.answer(409), times=9)
        with LakeFS(server.url, "key", "secret", timeouts=HttpTimeouts(5, 5)) as lake, contextlib.suppress(LakeError):
            LAKE_CALLS[verb](lake, tmp_path)
    assert sent


def test_each_verb_of_the_lake_is_checked() -> None:
    verbs = {name for name in vars(LakeFS) if not name.startswith("_")} - {"close", "read_small"}
    assert verbs == set(LAKE_CALLS)


def test_an_upload_by_a_signed_link_conforms(
    lakefs_document: ApiDocument, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presigned, "UPLOAD_FROM", 1)
    (tmp_path / "source").write_bytes(b"data")
    config = {"storage_config": {"pre_sign_support": True}}
    with FaultProxy() as server, openapi.checked_requests(lakefs_document) as sent:
        place = {"physical_address": "s3://bucket/x", "presigned_url": f"{server.url}/bucket/x?sig=1"}
        server.on("GET .*/config", faults.answer(200, json.dumps(config).encode()))
        server.on("GET .*/staging/backing", faults.answer(200, json.dumps(place).encode()))
        server.on("PUT /bucket/x", faults.answer(200))
        server.on("PUT .*/staging/backing", faults.answer(409))
        with LakeFS(server.url, "key", "secret", timeouts=HttpTimeouts(5, 5)) as lake, contextlib.suppress(LakeError):
            LAKE_CALLS["write"](lake, tmp_path)
    assert [request.method for request in sent] == ["GET", "GET", "PUT", "PUT"]


def test_metadata_in_a_request_of_its_own_conforms(lakefs_document: ApiDocument) -> None:
    stored = {"path": "a", "size_bytes": 1, "checksum": "c4ca4238a0b923820dcc509a6f75849b", "mtime": 1, "path_type": "object"}
    with FaultProxy() as server, openapi.checked_requests(lakefs_document) as sent:
        server.on("POST ", faults.answer(201, json.dumps(stored).encode()))
        server.on("PUT ", faults.answer(201))
        with LakeFS(server.url, "key", "secret", timeouts=HttpTimeouts(5, 5)) as lake:
            list(lake.write_small(REPOSITORY, STAGING, [SmallFile(ObjectPath("a"), b"1", "x/y", {"Key": " v"})]))
    assert [request.method for request in sent] == ["POST", "PUT"]


@pytest.mark.parametrize("verb", CONDUCTOR_CALLS)
def test_each_conductor_request_conforms(conductor_document: ApiDocument, verb: str) -> None:
    with FaultProxy() as server, openapi.checked_requests(conductor_document) as sent:
        server.on("", faults.answer(200, b"{}"), times=9)
        with contextlib.closing(ConductorClient(f"{server.url}/api", timeout=5)) as client, contextlib.suppress(ConductorError):
            CONDUCTOR_CALLS[verb](client)
    assert sent


def test_each_verb_of_conductor_is_checked() -> None:
    verbs = {name for name in vars(ConductorClient) if not name.startswith("_")} - {"close"}
    assert verbs == {name for name in CONDUCTOR_CALLS if " " not in name}


def test_requests_of_operators_conform(stack: Endpoints, lakefs_document: ApiDocument, conductor_document: ApiDocument) -> None:
    with FaultProxy() as server, openapi.checked_requests(lakefs_document, conductor_document) as sent:
        server.on("", faults.answer(404), times=99)
        access = LakeAccess(server.url, "key", "secret")
        with servers.connect(access, ConductorAccess(url=f"{server.url}/api")) as both:
            for call in (
                both.settings.configuration,
                lambda: both.settings.repository(REPOSITORY),
                lambda: both.settings.protected_patterns(REPOSITORY),
                lambda: both.settings.history(REPOSITORY, MAIN, 3),
                lambda: both.settings.writers(REPOSITORY, COMMIT, ObjectPath("a b"), 3),
                lambda: both.settings.visible_branches(REPOSITORY, 3),
                lambda: both.settings.merge_base(REPOSITORY, COMMIT, MAIN),
                lambda: both.settings.tags(REPOSITORY, "prefix"),
                lambda: both.settings.delete_tag(REPOSITORY, "tag"),
                both.workflows.has_search_index,
                lambda: both.workflows.get(WorkflowId("w1")),
            ):
                with contextlib.suppress(LakeError):
                    call()
    assert len(sent) == 11


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (SentRequest("GET", "/api/v1/nothing", b""), "no such operation"),
        (SentRequest("DELETE", "/api/v1/config", b""), "no such operation"),
        (SentRequest("GET", "/api/v1/repositories/r/branches?amuont=1", b""), "unknown query parameter amuont"),
        (SentRequest("GET", "/api/v1/repositories/r/branches?amount=many", b""), "amount is not of type integer"),
        (SentRequest("GET", "/api/v1/repositories/r/refs/main/objects", b""), "query parameter path is missing"),
        (SentRequest("POST", "/api/v1/repositories/r/branches", b""), "no body"),
        (SentRequest("POST", "/api/v1/repositories/r/branches", b'{"name": "a"}'), "'source' is a required property"),
        (SentRequest("POST", "/api/v1/repositories/r/branches", b'{"name": 1, "source": "b"}'), "1 is not of type 'string'"),
        (SentRequest("POST", "/api/v1/repositories/r/branches", b'{"name": "a", "source": "b", "hiden": true}'), "'hiden'"),
        (SentRequest("DELETE", "/api/v1/repositories/r/branches/a", b"{}"), "a body, and the operation has none"),
    ],
)
def test_a_lakefs_request_that_does_not_conform_is_found(
    lakefs_document: ApiDocument, request_: SentRequest, problem: str
) -> None:
    assert any(problem in found for found in lakefs_document.problems(request_)), lakefs_document.problems(request_)


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (SentRequest("GET", "/api/tasks/queue/polldata", b""), "query parameter taskType is missing"),
        (SentRequest("POST", "/api/tasks", b'{"taskId": "t", "status": "DONE"}'), "'DONE' is not one of"),
        (SentRequest("POST", "/api/tasks", b'{"taskId": "t", "extendsLease": true}'), "'extendsLease'"),
        (SentRequest("POST", "/api/metadata/taskdefs", b'{"name": "x"}'), "is not of type 'array'"),
    ],
)
def test_a_conductor_request_that_does_not_conform_is_found(
    conductor_document: ApiDocument, request_: SentRequest, problem: str
) -> None:
    assert any(problem in found for found in conductor_document.problems(request_)), conductor_document.problems(request_)


def test_a_request_that_does_not_conform_fails_the_test_that_sent_it(lakefs_document: ApiDocument) -> None:
    other = ApiDocument({"paths": {"/other": {}}}, lakefs_document.base)
    with FaultProxy() as server, LakeFS(server.url, "key", "secret", timeouts=HttpTimeouts(5, 5)) as lake:
        server.on("", faults.answer(404))
        with (
            pytest.raises(AssertionError, match="GET /api/v1/config: no such operation"),
            openapi.checked_requests(other),
            contextlib.suppress(LakeError),
        ):
            lake.capabilities()
