"""Both servers as an operator reaches them: the ports that attempts use, and what only operators ask."""

import contextlib
import json
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from perago.conductor.client import ConductorClient
from perago.conductor.workflows import WorkflowClient
from perago.errors import ConductorError
from perago.http import request
from perago.http.request import HttpRequest, HttpTimeouts
from perago.lake import decode, url_parts
from perago.lake.api import JsonWrite, LakeApi, repository_path
from perago.lake.client import LakeFS
from perago.model import BranchName, Commit, CommitId, LakeAccess, ObjectPath, Repository, WorkflowId
from perago.settings import ConductorAccess

TIMEOUTS = HttpTimeouts(connect=10.0, request=30.0)
_AT_ONCE = 4
"""So many reads of one server run at the same time."""

S = TypeVar("S")
T = TypeVar("T")
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RepositoryFacts:
    default_branch: BranchName
    is_read_only: bool


class LakeSettings:
    """Reads of lakeFS that no attempt needs."""

    def __init__(self, access: LakeAccess) -> None:
        self.url = access.url
        self._api = LakeApi(access.url, access.access_key_id, access.secret_access_key, timeouts=TIMEOUTS)

    def close(self) -> None:
        self._api.close()

    def configuration(self) -> Json:
        return self._get("read the configuration of lakeFS", "/config", lambda reply: reply)

    def repository(self, repository: Repository) -> RepositoryFacts:
        def facts(reply: Json) -> RepositoryFacts:
            return RepositoryFacts(BranchName(reply["default_branch"]), bool(reply.get("read_only")))

        return self._get(f"read repository {repository}", repository_path(repository), facts)

    def protected_patterns(self, repository: Repository) -> Sequence[str]:
        what = f"read the branch protection rules of {repository}"
        target = f"{repository_path(repository)}/settings/branch_protection"
        reading = HttpRequest("branch_protection", what, "GET", target, TIMEOUTS.request)
        return self._api.http.call(reading, lambda _head, body: _patterns(request.read_all(body)))

    def history(self, repository: Repository, branch: BranchName, amount: int) -> Sequence[Commit]:
        """So many of the branch's commits by first parents, the newest first."""

        def commits(reply: Json) -> Sequence[Commit]:
            return [decode.commit(item) for item in decode.results(reply)[0]]

        query = f"amount={amount}&first_parent=true"
        target = f"{repository_path(repository)}/refs/{url_parts.branch(branch)}/commits?{query}"
        return self._get(f"read the history of {repository}/{branch}", target, commits)

    def writers(self, repository: Repository, ref: CommitId, path: ObjectPath, amount: int) -> Sequence[Commit]:
        """The newest commits below `ref` that changed the object, those that merges brought included, the newest first."""

        def commits(reply: Json) -> Sequence[Commit]:
            return [decode.commit(item) for item in decode.results(reply)[0]]

        query = f"objects={url_parts.path(path)}&amount={amount}&limit=true"
        target = f"{repository_path(repository)}/refs/{url_parts.ref(ref)}/commits?{query}"
        return self._get(f"find the commits of {repository} that changed {path!r}", target, commits)

    def visible_branches(self, repository: Repository, amount: int) -> tuple[Sequence[BranchName], bool]:
        def found(reply: Json) -> tuple[Sequence[BranchName], bool]:
            items, after = decode.results(reply)
            return [decode.branch_head(item).name for item in items], after is not None

        return self._get(f"list the branches of {repository}", f"{repository_path(repository)}/branches?amount={amount}", found)

    def merge_base(self, repository: Repository, commit: CommitId, branch: BranchName) -> CommitId:
        """The commit itself if the branch holds it."""
        target = f"{repository_path(repository)}/refs/{url_parts.ref(commit)}/merge/{url_parts.branch(branch)}"
        what = f"find the newest common commit of {commit} and {repository}/{branch}"
        return self._get(what, target, lambda reply: CommitId(reply["base_commit_id"]))

    def tags(self, repository: Repository, prefix: str) -> Sequence[str]:
        """The first page of those that begin with `prefix`."""
        target = f"{repository_path(repository)}/tags?prefix={url_parts.text(prefix)}"
        return self._get(
            f"list the tags of {repository}", target, lambda reply: [str(tag["id"]) for tag in decode.results(reply)[0]]
        )

    def delete_tag(self, repository: Repository, tag: str) -> None:
        target = f"{repository_path(repository)}/tags/{url_parts.text(tag)}"
        deletion = JsonWrite("operate", f"delete tag {tag} of {repository}", "DELETE", target)
        self._api.send_write(deletion, request.receive_nothing)

    def create_repository(self, repository: Repository, storage_namespace: str, default_branch: BranchName) -> None:
        """`LakeConflict` if there is one of that name, `LakeRejected` for a storage namespace that lakeFS cannot use."""
        body = {"name": repository, "storage_namespace": storage_namespace, "default_branch": default_branch}
        write = JsonWrite("operate", f"create repository {repository} in {storage_namespace}", "POST", "/repositories", body)
        self._api.send_write(write, request.receive_nothing)

    def delete_repository(self, repository: Repository) -> None:
        """The objects in its storage namespace stay there."""
        write = JsonWrite("operate", f"delete repository {repository}", "DELETE", repository_path(repository))
        self._api.send_write(write, request.receive_nothing)

    def create_tag(self, repository: Repository, tag: str, commit: CommitId) -> None:
        target = f"{repository_path(repository)}/tags"
        write = JsonWrite("operate", f"create tag {tag} in {repository}", "POST", target, {"id": tag, "ref": commit})
        self._api.send_write(write, request.receive_nothing)

    def create_branch(self, repository: Repository, branch: BranchName, source: CommitId) -> None:
        """A visible branch, unlike those of attempts; `LakeConflict` if the name is taken."""
        body = {"name": url_parts.branch(branch), "source": source}
        write = JsonWrite(
            "operate", f"create branch {branch} in {repository}", "POST", f"{repository_path(repository)}/branches", body
        )
        self._api.send_write(write, request.receive_nothing)

    def _get(self, what: str, target: str, decoded: Callable[[Json], T]) -> T:
        return self._api.get_json("operate", what, target, decoded)


def _patterns(data: bytes) -> Sequence[str]:
    rules: Any = json.loads(data)
    return [str(rule["pattern"]) for rule in cast("list[Json]", rules)]


class Workflows(WorkflowClient):
    """Reads of Conductor that no attempt needs. Safe to share between threads; `get` reads a workflow once."""

    def __init__(self, access: ConductorAccess) -> None:
        super().__init__(access.url, timeout=TIMEOUTS.request, auth_key=access.auth_key, auth_secret=access.auth_secret)
        self._known: dict[WorkflowId, Json | None] = {}

    def version(self) -> str | None:
        """None where the server does not tell."""
        try:
            answer = self.api.read("/version")
        except ConductorError:
            return None
        return str(answer) if answer else None

    def has_search_index(self) -> bool:
        query = {"query": "status='IN_PROGRESS'", "freeText": "*", "start": "0", "size": "1"}
        try:
            self.api.read("/tasks/search-v2", query=query)
        except ConductorError:
            return False
        return True

    def get(self, workflow_id: WorkflowId) -> Json | None:
        """As `read`; what was read once is kept and not read again."""
        if workflow_id not in self._known:
            self._known[workflow_id] = self.read(workflow_id)
        return self._known[workflow_id]


def read_together(read: Callable[[S], T], wanted: Iterable[S]) -> list[T]:
    """`read` for each of them, a few at a time, in their order. After an error or Ctrl-C the rest is not read."""
    pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="read")
    try:
        return list(pool.map(read, wanted))
    finally:
        pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, slots=True)
class LakeServers:
    lake: LakeFS
    settings: LakeSettings


@dataclass(frozen=True, slots=True)
class Servers(LakeServers):
    conductor: ConductorClient
    workflows: Workflows


@contextlib.contextmanager
def connect(lakefs: LakeAccess, conductor: ConductorAccess) -> Generator[Servers]:
    with contextlib.ExitStack() as closing:
        client = ConductorClient(
            conductor.url, timeout=TIMEOUTS.request, auth_key=conductor.auth_key, auth_secret=conductor.auth_secret
        )
        yield Servers(
            closing.enter_context(contextlib.closing(lake_client(lakefs))),
            closing.enter_context(contextlib.closing(LakeSettings(lakefs))),
            closing.enter_context(contextlib.closing(client)),
            closing.enter_context(contextlib.closing(Workflows(conductor))),
        )


def lake_client(access: LakeAccess) -> LakeFS:
    return LakeFS(access.url, access.access_key_id, access.secret_access_key, timeouts=TIMEOUTS)
