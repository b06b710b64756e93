"""Two sites for the same tests: the in-memory lake, and a real lakeFS with the official SDK as an independent client."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tests.support import memory_lake
from tests.support.waiting import eventually

from perago.dev.stack import Endpoints
from perago.http.request import HttpTimeouts, RequestRecord
from perago.in_memory.lake import MemoryLake
from perago.lake import port
from perago.lake.client import LakeFS
from perago.model import BranchName, Commit, CommitId, ObjectPath, Repository

if TYPE_CHECKING:
    from lakefs_sdk.models.object_stats import ObjectStats

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
        memory_lake.tag(self.memory, self.repository, name, CommitId(ref))

    def protect(self, branch: BranchName) -> None:
        memory_lake.protect(self.memory, self.repository, branch)

    def visible_branches(self) -> list[str]:
        return [str(name) for name in memory_lake.visible_branches(self.memory, self.repository)]

    def requests(self, verb: str) -> int:
        return self.memory.calls[verb]


class RealSite:
    def __init__(self, stack: Endpoints, name: str) -> None:
        from tests.support.sdk_client import SdkClient  # noqa: PLC0415  the SDK takes a second to load

        self.repository = Repository(name)
        self.records: list[RequestRecord] = []
        self.lake = client(stack, stack.lakefs_url, self.records)
        self.sdk = SdkClient(stack, name)
        self.sdk.create_repository()

    def put(self, branch: str, path: str, data: bytes, content_type: str = "text/plain") -> None:
        self.sdk.put(branch, path, data, content_type)

    def publish(self, branch: str, files: Mapping[str, bytes], message: str = "made by hand") -> CommitId:
        for path, data in files.items():
            self.put(branch, path, data)
        return CommitId(self.sdk.make_commit(branch, message))

    def stats(self, ref: str) -> "Mapping[str, ObjectStats]":
        return self.sdk.stats(ref)

    def content(self, ref: str) -> dict[str, bytes]:
        return {path: self.sdk.get(ref, path) for path in self.stats(ref)}

    def tag(self, name: str, ref: str) -> None:
        self.sdk.tag(name, ref)

    def protect(self, branch: BranchName) -> None:
        """lakeFS keeps rules in a cache for some seconds: wait until the new one is applied."""
        self.sdk.protect(branch)
        eventually(lambda: self.sdk.refuses_reset(branch), within=30, what="the protection rule")

    def visible_branches(self) -> list[str]:
        return self.sdk.branches()

    def requests(self, verb: str) -> int:
        return sum(record.verb == verb for record in self.records)

    def close(self) -> None:
        self.lake.close()
        self.sdk.delete_repository()
        self.sdk.close()


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
