"""The `Lake` port on a lakeFS server: each verb is a request or a few, and their replies become values of the model."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self, TypeVar

from perago.errors import LakeConflict, LakeForbidden, LakeRejected
from perago.http import request
from perago.http.failure import RequestFailure
from perago.http.request import HttpRequest, HttpTimeouts, Receive
from perago.lake import decode, error_mapping, object_part, presigned, transfer, uploads, url_parts
from perago.lake.api import JsonWrite, LakeApi, branch_path, json_reply, repository_path
from perago.lake.port import PAGE, BranchHead, Capabilities, ObjectChange, ObjectDifference, ObjectPage, Ref, SmallFile
from perago.model import BranchName, Commit, CommitId, ObjectInfo, ObjectPath, Repository

T = TypeVar("T")
TRANSFER_TIMEOUTS = HttpTimeouts(connect=10, request=60)
"""For clients that transfer the files of tasks."""


class LakeFS(LakeApi):
    """Safe to share between threads."""

    _capabilities: Capabilities | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def capabilities(self) -> Capabilities:
        """Asked of the server once."""
        if self._capabilities is None:
            self._capabilities = self.get_json("capabilities", "read the configuration of lakeFS", "/config", decode.capabilities)
        return self._capabilities

    # commits and branches

    def commit(self, repository: Repository, ref: Ref) -> Commit:
        target = f"{repository_path(repository)}/commits/{url_parts.ref(ref)}"
        return self.get_json("commit", f"read commit {ref} of {repository}", target, decode.commit)

    def head(self, repository: Repository, branch: BranchName) -> Commit:
        target = f"{repository_path(repository)}/refs/{url_parts.branch(branch)}/commits?amount=1&limit=true"
        return self.get_json("head", f"read the head of {repository}/{branch}", target, decode.newest)

    def branch(self, repository: Repository, branch: BranchName) -> CommitId:
        what = f"read branch {branch} of {repository}"
        return self.get_json("branch", what, branch_path(repository, branch), decode.branch_head).commit

    def create_branch(self, repository: Repository, branch: BranchName, source: CommitId) -> None:
        body = {"name": url_parts.branch(branch), "source": source, "hidden": True}
        what = f"create branch {branch} in {repository}"
        self.send_write(
            JsonWrite("create_branch", what, "POST", f"{repository_path(repository)}/branches", body), request.receive_nothing
        )

    def delete_branch(self, repository: Repository, branch: BranchName) -> None:
        what = f"delete branch {branch} of {repository}"
        self.send_write(JsonWrite("delete_branch", what, "DELETE", branch_path(repository, branch)), request.receive_nothing)

    def branches(self, repository: Repository, prefix: str, *, page: int = PAGE) -> Iterable[BranchHead]:
        what = f"list the branches of {repository} that begin with {prefix!r}"
        target = f"{repository_path(repository)}/branches?show_hidden=true&prefix={url_parts.text(prefix)}"
        for found in self.get_pages("branches", what, target, decode.branch_head, page):
            yield from found

    def commit_branch(
        self, repository: Repository, branch: BranchName, message: str, metadata: Mapping[str, str], *, allow_empty: bool = False
    ) -> Commit:
        body: dict[str, object] = {"message": message, "metadata": dict(metadata)}
        if allow_empty:
            body["allow_empty"] = True
        target = f"{branch_path(repository, branch)}/commits"
        return self.send_write(
            JsonWrite("commit_branch", f"commit {repository}/{branch}", "POST", target, body), json_reply(decode.commit)
        )

    def merge(
        self,
        repository: Repository,
        source: Ref,
        target: BranchName,
        *,
        message: str,
        metadata: Mapping[str, str],
        timeout: float,
    ) -> CommitId:
        body = {"message": message, "metadata": dict(metadata), "squash_merge": True}
        path = f"{repository_path(repository)}/refs/{url_parts.ref(source)}/merge/{url_parts.branch(target)}"
        what = f"merge {source} into {repository}/{target}"
        return self.send_write(JsonWrite("merge", what, "POST", path, body), json_reply(decode.merged), timeout)

    def revert(self, repository: Repository, branch: BranchName, commit: Commit, message: str) -> Commit:
        """LakeFS answers without the new commit, which only the caller's own branch lets us read afterwards."""
        what = f"revert {commit.id} on {repository}/{branch}"
        parent = 1 if len(commit.parents) > 1 else 0
        body = {"ref": commit.id, "parent_number": parent, "commit_overrides": {"message": message}}
        write = JsonWrite("revert", what, "POST", f"{branch_path(repository, branch)}/revert", body)
        self.send_write(write, request.receive_nothing)
        return self.head(repository, branch)

    def relocate(self, repository: Repository, target: BranchName, to: BranchName, *, timeout: float) -> None:
        what = f"relocate {repository}/{target} to {to}"
        path = f"{branch_path(repository, target)}/hard_reset?ref={url_parts.branch(to)}"
        try:
            self.send_write(JsonWrite("relocate", what, "PUT", path), request.receive_nothing, timeout)
        except LakeForbidden as error:
            hint = "replacing an abandoned publication needs fs:RevertBranch and a branch without protection rules"
            raise LakeForbidden(f"{error}; {hint}") from error

    def interrupt_updates(self, repository: Repository, branch: BranchName) -> None:
        """A merge of the branch into itself: lakeFS rewrites the branch's record before it finds that nothing is to be merged."""
        what = f"interrupt the updates of {repository}/{branch}"
        path = f"{repository_path(repository)}/refs/{url_parts.branch(branch)}/merge/{url_parts.branch(branch)}"
        body = {"message": "interrupt updates", "squash_merge": True}
        try:
            self.send_write(JsonWrite("interrupt_updates", what, "POST", path, body), json_reply(decode.merged))
        except LakeConflict as error:
            if error_mapping.NO_CHANGES not in str(error):
                raise
        else:
            raise LakeRejected(f"{what}: lakeFS made a commit of a branch merged into itself")

    def differences(
        self, repository: Repository, left: CommitId, right: CommitId, *, page: int = PAGE
    ) -> Iterable[ObjectDifference]:
        what = f"compare {left} with {right} in {repository}"
        compared = f"{url_parts.ref(left)}/diff/{url_parts.ref(right)}"
        target = f"{repository_path(repository)}/refs/{compared}?type=two_dot&include_right_stats=true"
        for found in self.get_pages("differences", what, target, decode.difference, page):
            yield from found

    # objects

    def objects(
        self, repository: Repository, ref: Ref, prefix: str, after: ObjectPath | None = None, *, presign: bool = False
    ) -> ObjectPage:
        query = f"amount={PAGE}&prefix={url_parts.text(prefix)}&after={url_parts.text(after or '')}"
        query += "&presign=true" if presign else ""
        target = f"{repository_path(repository)}/refs/{url_parts.ref(ref)}/objects/ls?{query}"
        return self.get_json("objects", f"list {prefix!r} of {repository}@{ref}", target, decode.page)

    def read(self, repository: Repository, ref: Ref, info: ObjectInfo, into: Path) -> str:
        reading = self._reading(repository, ref, info)
        return self._read(reading, info, transfer.save(reading.what, info, into))

    def read_part(
        self, repository: Repository, ref: Ref, info: ObjectInfo, start: int, length: int, write: object_part.Write
    ) -> bool:
        whole = self._reading(repository, ref, info)
        reading = object_part.request(whole, info, start, length, self.timeouts.transfer(length))
        return self._read(reading, info, object_part.receive(reading.what, info, start, length, write))

    def read_small(self, repository: Repository, ref: Ref, infos: Sequence[ObjectInfo]) -> Iterator[tuple[str, bytes]]:
        requests = [self._reading(repository, ref, info) for info in infos]
        receives = [transfer.load(reading.what, info) for reading, info in zip(requests, infos, strict=True)]
        done = 0
        if all(info.presigned_url is None for info in infos):
            timeout = self.timeouts.transfer(sum(info.size for info in infos))
            for result in self.http.pipeline(list(zip(requests, receives, strict=True)), timeout):
                if isinstance(result, RequestFailure):
                    break
                done += 1
                yield result
        for number in range(done, len(infos)):
            yield self._read(requests[number], infos[number], receives[number])

    def write(
        self,
        repository: Repository,
        branch: BranchName,
        path: ObjectPath,
        source: Path,
        *,
        content_type: str,
        metadata: Mapping[str, str],
        md5: str | None = None,
    ) -> ObjectInfo:
        to = _destination(repository, branch, path)
        with transfer.upload(source, md5) as file:
            sent = None
            if presigned.UPLOAD_FROM <= file.size <= presigned.UPLOAD_TO and self.capabilities().presign_write:
                sent = uploads.upload_by_link(self, to, file, content_type, metadata)
            sent = sent or uploads.upload_file(self, to, file, content_type, metadata)
            uploads.require_stored(to.what, sent, file.size, file.md5)
        return sent

    def write_small(self, repository: Repository, branch: BranchName, files: Sequence[SmallFile]) -> Iterator[ObjectInfo]:
        return uploads.upload_small(self, [_destination(repository, branch, file.path) for file in files], files)

    def copy_object(self, repository: Repository, branch: BranchName, path: ObjectPath, source: CommitId) -> None:
        """LakeFS copies the bytes; linking to those that exist is no part of its public API."""
        what = f"copy {path!r} of {repository}@{source} to {branch}"
        target = f"{branch_path(repository, branch)}/objects/copy?dest_path={url_parts.path(path)}"
        body = {"src_path": path, "src_ref": source}
        self.send_write(JsonWrite("copy_object", what, "POST", target, body), request.receive_nothing)

    def delete_objects(self, repository: Repository, branch: BranchName, paths: Sequence[ObjectPath]) -> None:
        what = f"delete {len(paths)} objects of {repository}/{branch}"
        if len(paths) > PAGE:
            raise LakeRejected(f"{what}: at most {PAGE} at a time")
        for path in paths:
            url_parts.encoded(path)
        write = JsonWrite(
            "delete_objects", what, "POST", f"{branch_path(repository, branch)}/objects/delete", {"paths": list(paths)}
        )
        error_mapping.raise_refused_deletes(what, self.send_write(write, json_reply(decode.refused_deletes)))

    def uncommitted(self, repository: Repository, branch: BranchName) -> Iterable[ObjectChange]:
        what = f"read the uncommitted changes of {repository}/{branch}"
        for page in self.get_pages("uncommitted", what, f"{branch_path(repository, branch)}/diff?", decode.change):
            yield from page

    def _reading(self, repository: Repository, ref: Ref, info: ObjectInfo) -> HttpRequest:
        what = f"read {info.path!r} of {repository}@{ref}"
        target = f"{repository_path(repository)}/refs/{url_parts.ref(ref)}/objects?path={url_parts.path(info.path)}"
        timeouts = self.timeouts
        return HttpRequest("read", what, "GET", target, timeouts.transfer(info.size), stall=timeouts.request)

    def _read(self, reading: HttpRequest, info: ObjectInfo, receive: Receive[T]) -> T:
        if info.presigned_url is not None:
            result = presigned.get(self.http, reading, info.presigned_url, receive)
            if not isinstance(result, RequestFailure):
                return result
        return self.http.call(reading, receive)


def _destination(repository: Repository, branch: BranchName, path: ObjectPath) -> uploads.Destination:
    what = f"write {path!r} to {repository}/{branch}"
    return uploads.Destination(what, branch_path(repository, branch), url_parts.path(path))
