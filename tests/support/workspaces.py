"""A lake with commits made to order, in memory or on a real server, and attempts on them."""

import hashlib
import json
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import quote

import urllib3

from perago import events
from perago.dev.stack import Endpoints
from perago.errors import LakeConflict
from perago.http.request import HttpTimeouts
from perago.in_memory.lake import MemoryLake
from perago.lake import client, port
from perago.model import (
    Attempt,
    BranchName,
    CommitId,
    ExecutionId,
    FilePath,
    ObjectInfo,
    ObjectPath,
    Repository,
    TaskId,
    TaskType,
    WorkerId,
    WorkflowId,
    WorkspaceRef,
)
from perago.workspace import local_workspace, options

MAIN = BranchName("main")
TIMEOUTS = HttpTimeouts(connect=5, request=30)


class Content(NamedTuple):
    data: bytes
    content_type: str = "application/octet-stream"
    metadata: Mapping[str, str] = {}


Files = Mapping[str, bytes | Content]


def content(value: bytes | Content) -> Content:
    return value if isinstance(value, Content) else Content(value)


def md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


class LakeSetup(Protocol):
    """`calls` counts the requests that were sent, by verb."""

    lake: port.Lake
    repository: Repository
    calls: Counter[str]

    def commit(self, files: Files, branch: BranchName = MAIN) -> CommitId: ...


class MemoryLakeSetup:
    def __init__(self) -> None:
        self.memory = MemoryLake()
        self.lake: port.Lake = self.memory
        self.calls = self.memory.calls
        self.repository = Repository("repo")
        self.empty = self.memory.create_repository(self.repository).id

    def commit(self, files: Files, branch: BranchName = MAIN) -> CommitId:
        for path, value in files.items():
            data, kind, metadata = content(value)
            self.memory.put(self.repository, branch, ObjectPath(path), data, content_type=kind, metadata=metadata)
        return self.memory.commit_branch(self.repository, branch, "made for a test", {}).id


class ServerLakeSetup:
    def __init__(self, endpoints: Endpoints, name: str) -> None:
        self.endpoints = endpoints
        self.calls: Counter[str] = Counter()
        self._client = self.client()
        self.lake: port.Lake = self._client
        self.repository = Repository(name)
        self._http = urllib3.PoolManager(timeout=30, retries=False)
        body = {"name": name, "storage_namespace": f"local://{name}", "default_branch": MAIN}
        self.request("POST", "/repositories", json.dumps(body).encode())

    def client(self, url: str | None = None) -> client.LakeFS:
        return client.LakeFS(
            url or self.endpoints.lakefs_url,
            self.endpoints.access_key_id,
            self.endpoints.secret_access_key,
            timeouts=TIMEOUTS,
            on_request=lambda record: self.calls.update([record.verb]),
        )

    def request(self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> bytes:
        credentials = urllib3.make_headers(basic_auth=f"{self.endpoints.access_key_id}:{self.endpoints.secret_access_key}")
        kind = {"Content-Type": "application/json"}
        url = f"{self.endpoints.lakefs_url}/api/v1{path}"
        reply = self._http.request(method, url, body=body, headers={**credentials, **kind, **(headers or {})})
        assert reply.status < 300, (reply.status, reply.data)
        return reply.data

    def put(self, path: str | bytes, value: Content, branch: BranchName = MAIN) -> None:
        target = f"/repositories/{self.repository}/branches/{branch}/objects?path={quote(path, safe='')}"
        labels = {f"x-lakefs-meta-{key}": text for key, text in value.metadata.items()}
        self.request("POST", target, value.data, {"Content-Type": value.content_type, **labels})

    def commit(self, files: Files, branch: BranchName = MAIN) -> CommitId:
        for path, value in files.items():
            self.put(path, content(value), branch)
        return self.seal(branch)

    def seal(self, branch: BranchName = MAIN) -> CommitId:
        target = f"/repositories/{self.repository}/branches/{branch}/commits"
        return CommitId(json.loads(self.request("POST", target, b'{"message": "made for a test"}'))["id"])

    def close(self) -> None:
        self.request("DELETE", f"/repositories/{self.repository}?force=true")
        self._http.clear()
        self._client.close()


def attempt(task_id: str = "3f0c5b1e-task") -> Attempt:
    return Attempt(
        WorkflowId("flow"), TaskId(task_id), 0, "step", 1, 0, TaskType("features.build"), WorkerId("w0001-nonce"), 1, 1
    )


class WorkspaceHarness:
    """Attempts on one setup with one directory for scratch and cache."""

    def __init__(self, setup: LakeSetup, root: Path) -> None:
        self.setup = setup
        self.settings = options.WorkspaceOptions(root=root)
        self.events: list[events.Event] = []
        self._executions = 0

    def workspace(
        self,
        commit: CommitId,
        prefix: str = "/",
        *,
        settings: options.WorkspaceOptions | None = None,
        lake: port.Lake | None = None,
    ) -> local_workspace.LocalWorkspace:
        self._executions += 1
        ref = WorkspaceRef(self.setup.repository, MAIN, commit)
        execution = ExecutionId(f"exec{self._executions}")
        chosen = settings or self.settings
        return local_workspace.LocalWorkspace(
            lake or self.setup.lake, ref, prefix, attempt(), execution, chosen, self.events.append
        )

    @contextmanager
    def opened(
        self, commit: CommitId, prefix: str = "/", *, settings: options.WorkspaceOptions | None = None
    ) -> Generator[local_workspace.LocalWorkspace]:
        workspace = self.workspace(commit, prefix, settings=settings)
        try:
            workspace.open()
            yield workspace
        finally:
            workspace.close()

    def publish(self, workspace: local_workspace.LocalWorkspace, base: CommitId) -> CommitId:
        """Fill and commit a new staging branch; returns the commit, or `base` if nothing changed."""
        if workspace.changed().is_empty:
            return base
        branch = BranchName(f"staging-{self._executions}")
        self.setup.lake.create_branch(self.setup.repository, branch, base)
        try:
            workspace.fill(branch)
            return self.setup.lake.commit_branch(self.setup.repository, branch, "staged", {}).id
        except LakeConflict:
            return base
        finally:
            self.setup.lake.delete_branch(self.setup.repository, branch)

    def objects(self, commit: CommitId, prefix: str = "") -> dict[str, ObjectInfo]:
        found: dict[str, ObjectInfo] = {}
        after: ObjectPath | None = None
        while True:
            page = self.setup.lake.objects(self.setup.repository, commit, prefix, after)
            found.update({info.path: info for info in page.objects})
            after = page.after
            if after is None:
                return found


def write(root: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def read(root: Path) -> dict[str, bytes]:
    return {FilePath(path.relative_to(root).as_posix()): path.read_bytes() for path in root.rglob("*") if path.is_file()}
