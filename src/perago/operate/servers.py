"""Both servers as an operator reaches them: the ports that attempts use, and what only operators ask."""

import base64
import contextlib
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from perago.conductor import http as conductor_http
from perago.conductor import task_json as conductor_wire
from perago.conductor.client import ConductorClient
from perago.errors import ConductorError, ConductorNotFound
from perago.lake import decode, http, url_parts
from perago.lake.client import API, LakeFS, unheard
from perago.model import BranchName, Commit, CommitId, LakeAccess, Repository, WorkflowId
from perago.settings import ConductorAccess

TIMEOUTS = http.Timeouts(connect=10.0, request=30.0)
_CONNECTIONS = 4

T = TypeVar("T")
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RepositoryFacts:
    default_branch: BranchName
    is_read_only: bool


class LakeSettings:
    """Reads of lakeFS that no attempt needs."""

    def __init__(self, access: LakeAccess) -> None:
        token = base64.b64encode(f"{access.access_key_id}:{access.secret_access_key}".encode()).decode()
        self.url = access.url
        self._http = http.Http(access.url, f"Basic {token}", TIMEOUTS, on_request=unheard)

    def close(self) -> None:
        self._http.close()

    def configuration(self) -> Json:
        return self._get("read the configuration of lakeFS", "/config", lambda reply: reply)

    def repository(self, repository: Repository) -> RepositoryFacts:
        def facts(reply: Json) -> RepositoryFacts:
            return RepositoryFacts(BranchName(reply["default_branch"]), bool(reply.get("read_only")))

        return self._get(f"read repository {repository}", _path(repository), facts)

    def protected_patterns(self, repository: Repository) -> Sequence[str]:
        what = f"read the branch protection rules of {repository}"
        target = f"{API}{_path(repository)}/settings/branch_protection"
        request = http.Request("branch_protection", what, "GET", target, TIMEOUTS.request)
        return self._http.call(request, lambda _head, body: _patterns(http.whole(body)))

    def history(self, repository: Repository, branch: BranchName, amount: int) -> Sequence[Commit]:
        """So many of the branch's commits by first parents, the newest first."""

        def commits(reply: Json) -> Sequence[Commit]:
            return [decode.commit(item) for item in decode.results(reply)[0]]

        query = f"amount={amount}&first_parent=true"
        target = f"{_path(repository)}/refs/{url_parts.branch(branch)}/commits?{query}"
        return self._get(f"read the history of {repository}/{branch}", target, commits)

    def visible_branches(self, repository: Repository, amount: int) -> tuple[Sequence[BranchName], bool]:
        def found(reply: Json) -> tuple[Sequence[BranchName], bool]:
            items, after = decode.results(reply)
            return [decode.branch_head(item).name for item in items], after is not None

        return self._get(f"list the branches of {repository}", f"{_path(repository)}/branches?amount={amount}", found)

    def merge_base(self, repository: Repository, commit: CommitId, branch: BranchName) -> CommitId:
        """The commit itself if the branch holds it."""
        target = f"{_path(repository)}/refs/{url_parts.ref(commit)}/merge/{url_parts.branch(branch)}"
        what = f"find the newest common commit of {commit} and {repository}/{branch}"
        return self._get(what, target, lambda reply: CommitId(reply["base_commit_id"]))

    def tags(self, repository: Repository, prefix: str) -> Sequence[str]:
        """The first page of those that begin with `prefix`."""
        target = f"{_path(repository)}/tags?prefix={url_parts.text(prefix)}"
        return self._get(
            f"list the tags of {repository}", target, lambda reply: [str(tag["id"]) for tag in decode.results(reply)[0]]
        )

    def delete_tag(self, repository: Repository, tag: str) -> None:
        target = f"{API}{_path(repository)}/tags/{url_parts.text(tag)}"
        request = http.Request("operate", f"delete tag {tag} of {repository}", "DELETE", target, TIMEOUTS.request, write=True)
        self._http.call(request, http.acknowledged)

    def _get(self, what: str, target: str, decoded: Callable[[Json], T]) -> T:
        request = http.Request("operate", what, "GET", f"{API}{target}", TIMEOUTS.request)
        return self._http.call(request, lambda head, body: decoded(http.reply(head, body)))


def _path(repository: Repository) -> str:
    return f"/repositories/{url_parts.repository(repository)}"


def _patterns(data: bytes) -> Sequence[str]:
    rules: Any = json.loads(data)
    return [str(rule["pattern"]) for rule in cast("list[Json]", rules)]


class Workflows:
    """Reads of Conductor that no attempt needs. What was read once is not read again."""

    def __init__(self, access: ConductorAccess) -> None:
        auth = (access.auth_key, access.auth_secret) if access.auth_key and access.auth_secret else None
        self.url = access.url
        self._http = conductor_http.Http(access.url, timeout=TIMEOUTS.request, connections=_CONNECTIONS, auth=auth)
        self._known: dict[WorkflowId, Json | None] = {}

    def close(self) -> None:
        self._http.close()

    def version(self) -> str | None:
        """None where the server does not tell."""
        try:
            answer = self._http.read("/version")
        except ConductorError:
            return None
        return str(answer) if answer else None

    def has_search_index(self) -> bool:
        query = {"query": "status='IN_PROGRESS'", "freeText": "*", "start": "0", "size": "1"}
        try:
            self._http.read("/tasks/search-v2", query=query)
        except ConductorError:
            return False
        return True

    def get(self, workflow_id: WorkflowId) -> Json | None:
        """The workflow with its tasks; None where Conductor does not know it."""
        if workflow_id not in self._known:
            self._known[workflow_id] = self._read(workflow_id)
        return self._known[workflow_id]

    def _read(self, workflow_id: WorkflowId) -> Json | None:
        try:
            answer = self._http.read(f"/workflow/{conductor_wire.segment(workflow_id)}", query={"includeTasks": "true"})
        except ConductorNotFound:
            return None
        return conductor_wire.an_object(answer)


@dataclass(frozen=True, slots=True)
class Servers:
    lake: LakeFS
    settings: LakeSettings
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
