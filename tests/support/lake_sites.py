"""Two sites for the same tests: the in-memory lake, and a real lakeFS with the official SDK as an independent client."""

import mimetypes
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from lakefs_sdk.api.branches_api import BranchesApi
from lakefs_sdk.api.commits_api import CommitsApi
from lakefs_sdk.api.experimental_api import ExperimentalApi
from lakefs_sdk.api.objects_api import ObjectsApi
from lakefs_sdk.api.repositories_api import RepositoriesApi
from lakefs_sdk.api.tags_api import TagsApi
from lakefs_sdk.api_client import ApiClient
from lakefs_sdk.configuration import Configuration
from lakefs_sdk.exceptions import ForbiddenException
from lakefs_sdk.models.branch_protection_rule import BranchProtectionRule
from lakefs_sdk.models.commit_creation import CommitCreation
from lakefs_sdk.models.object_stats import ObjectStats
from lakefs_sdk.models.repository_creation import RepositoryCreation
from lakefs_sdk.models.tag_creation import TagCreation

from perago.dev.stack import Endpoints
from perago.http.request import HttpTimeouts, RequestRecord
from perago.in_memory.lake import MemoryLake
from perago.lake import port
from perago.lake.client import LakeFS
from perago.model import BranchName, Commit, CommitId, ObjectPath, Repository

MAIN = BranchName("main")
TIMEOUTS = HttpTimeouts(connect=5, request=30)


class Site(Protocol):
    """A lake with one repository, and operations on it that do not use the port."""

    @property
    def lake(self) -> port.Lake: ...

    @property
    def repository(self) -> Repository: ...

    def put(self, branch: str, path: str, data: bytes, content_type: str = "text/plain") -> None: ...

    def publish(self, branch: str, files: Mapping[str, bytes], message: str = "made by hand") -> CommitId: ...

    def content(self, ref: str) -> dict[str, bytes]: ...

    def tag(self, name: str, ref: str) -> None: ...

    def protect(self, branch: BranchName) -> None: ...

    def visible_branches(self) -> list[str]: ...

    def requests(self, verb: str) -> int: ...


class MemorySite:
    def __init__(self) -> None:
        self.lake = self.memory = MemoryLake()
        self.repository = Repository("repository")
        self.memory.create_repository(self.repository)

    def put(self, branch: str, path: str, data: bytes, content_type: str = "text/plain") -> None:
        self.memory.put(self.repository, BranchName(branch), ObjectPath(path), data, content_type=content_type)

    def publish(self, branch: str, files: Mapping[str, bytes], message: str = "made by hand") -> CommitId:
        for path, data in files.items():
            self.put(branch, path, data)
        return self.memory.publish(self.repository, BranchName(branch), {}, message).id

    def content(self, ref: str) -> dict[str, bytes]:
        return {str(path): data for path, data in self.memory.content(self.repository, CommitId(ref)).items()}

    def tag(self, name: str, ref: str) -> None:
        self.memory.tag(self.repository, name, CommitId(ref))

    def protect(self, branch: BranchName) -> None:
        self.memory.protect(self.repository, branch)

    def visible_branches(self) -> list[str]:
        return [str(name) for name in self.memory.visible_branches(self.repository)]

    def requests(self, verb: str) -> int:
        return self.memory.calls[verb]


class RealSite:
    def __init__(self, stack: Endpoints, name: str) -> None:
        self.repository = Repository(name)
        self.records: list[RequestRecord] = []
        self.lake = client(stack, stack.lakefs_url, self.records)
        self.sdk = ApiClient(
            Configuration(host=f"{stack.lakefs_url}/api/v1", username=stack.access_key_id, password=stack.secret_access_key)
        )
        self.objects = ObjectsApi(self.sdk)
        self._repositories = RepositoriesApi(self.sdk)
        creation = RepositoryCreation(name=name, storage_namespace=f"local://{name}", default_branch="main")
        self._repositories.create_repository(creation)

    def put(self, branch: str, path: str, data: bytes, content_type: str = "text/plain") -> None:
        """The SDK uploads files, and takes the content type from their names."""
        with tempfile.NamedTemporaryFile(suffix=mimetypes.guess_extension(content_type)) as source:
            source.write(data)
            source.flush()
            self.objects.upload_object(self.repository, branch, path, content=source.name)

    def publish(self, branch: str, files: Mapping[str, bytes], message: str = "made by hand") -> CommitId:
        for path, data in files.items():
            self.put(branch, path, data)
        made = CommitsApi(self.sdk).commit(self.repository, branch, CommitCreation(message=message))
        return CommitId(made.id)

    def stats(self, ref: str) -> dict[str, ObjectStats]:
        found: dict[str, ObjectStats] = {}
        after = ""
        while True:
            page = self.objects.list_objects(self.repository, ref, amount=1000, after=after)
            found |= {item.path: item for item in page.results}
            if not page.pagination.has_more:
                return found
            after = page.pagination.next_offset

    def content(self, ref: str) -> dict[str, bytes]:
        return {path: bytes(self.objects.get_object(self.repository, ref, path)) for path in self.stats(ref)}

    def tag(self, name: str, ref: str) -> None:
        TagsApi(self.sdk).create_tag(self.repository, TagCreation(id=name, ref=ref))

    def protect(self, branch: BranchName) -> None:
        """lakeFS keeps rules in a cache for some seconds: wait until the new one is applied."""
        rules = [BranchProtectionRule(pattern=branch)]
        self._repositories.set_branch_protection_rules(self.repository, branch_protection_rule=rules)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                ExperimentalApi(self.sdk).hard_reset_branch(self.repository, branch, branch)
            except ForbiddenException:
                return
            time.sleep(0.1)
        raise AssertionError("the protection rule never came into force")

    def visible_branches(self) -> list[str]:
        return [branch.id for branch in BranchesApi(self.sdk).list_branches(self.repository).results]

    def requests(self, verb: str) -> int:
        return sum(record.verb == verb for record in self.records)

    def close(self) -> None:
        self.lake.close()
        self._repositories.delete_repository(self.repository, force=True)
        self.sdk.rest_client.pool_manager.clear()


def client(stack: Endpoints, url: str, records: list[RequestRecord] | None = None, timeouts: HttpTimeouts = TIMEOUTS) -> LakeFS:
    heard: list[RequestRecord] = [] if records is None else records
    return LakeFS(
        url,
        stack.access_key_id,
        stack.secret_access_key,
        timeouts=timeouts,
        on_request=heard.append,
        pause=lambda _seconds: None,
    )


def stage(site: Site, name: str, source: CommitId, files: Mapping[str, bytes], deletes: tuple[str, ...] = ()) -> Commit:
    """Create a staging branch with one commit through the port; only the content is uploaded by the site."""
    branch = BranchName(name)
    site.lake.create_branch(site.repository, branch, source)
    for path, data in files.items():
        site.put(name, path, data)
    if deletes:
        site.lake.delete_objects(site.repository, branch, [ObjectPath(path) for path in deletes])
    return site.lake.commit_branch(site.repository, branch, "stage", {"perago.test": name})


def merge(site: Site, source: str, target: str = "main") -> CommitId:
    return site.lake.merge(
        site.repository, BranchName(source), BranchName(target), message="publish", metadata={"by": source}, timeout=30
    )


def file(folder: Path, data: bytes, name: str = "source") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path
