"""lakeFS behind the `Lake` port: verbs in, requests out, JSON back into values of the model."""

import base64
import hashlib
import json
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, TypeVar
from urllib.parse import urlsplit

from perago.errors import LakeConflict, LakeCorrupt, LakeForbidden, LakeRejected, RuntimeConfigError
from perago.http import http1
from perago.lake import decode, error_mapping, http, object_headers, presigned, transfer, url_parts
from perago.lake.error_mapping import Refusal
from perago.lake.http import Request, RequestRecord, Timeouts
from perago.lake.port import PAGE, BranchHead, Capabilities, ObjectChange, ObjectPage, Ref, SmallFile
from perago.model import BranchName, Commit, CommitId, ObjectInfo, ObjectPath, Repository

API = "/api/v1"
_JSON = "Content-Type: application/json\r\n"

T = TypeVar("T")


def unheard(_record: RequestRecord) -> None:
    """For those who do not count requests."""


@dataclass(frozen=True, slots=True)
class _Write:
    """A write with a JSON body, or none."""

    verb: str
    what: str
    method: str
    target: str
    body: decode.Json | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a file goes, in parts of a URL."""

    what: str
    branch: str
    path: str


class LakeFS:
    """Safe to share between threads. `on_request` hears of every request as it was really sent, retries included."""

    def __init__(
        self,
        url: str,
        access_key_id: str,
        secret_access_key: str,
        *,
        timeouts: Timeouts,
        on_request: Callable[[RequestRecord], None] = unheard,
        tls: ssl.SSLContext | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        token = base64.b64encode(f"{access_key_id}:{secret_access_key}".encode()).decode()
        self._timeouts = timeouts
        self._http = http.Http(_endpoint(url), f"Basic {token}", timeouts, on_request=on_request, tls=tls, pause=pause)
        self._capabilities: Capabilities | None = None

    def close(self) -> None:
        """Close the idle connections; the client stays usable."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def capabilities(self) -> Capabilities:
        """Asked of the server once."""
        if self._capabilities is None:
            self._capabilities = self._get("capabilities", "read the configuration of lakeFS", "/config", decode.capabilities)
        return self._capabilities

    # commits and branches

    def commit(self, repository: Repository, ref: Ref) -> Commit:
        target = f"{_repository(repository)}/commits/{url_parts.ref(ref)}"
        return self._get("commit", f"read commit {ref} of {repository}", target, decode.commit)

    def head(self, repository: Repository, branch: BranchName) -> Commit:
        target = f"{_repository(repository)}/refs/{url_parts.branch(branch)}/commits?amount=1&limit=true"
        return self._get("head", f"read the head of {repository}/{branch}", target, decode.newest)

    def branch(self, repository: Repository, branch: BranchName) -> CommitId:
        what = f"read branch {branch} of {repository}"
        return self._get("branch", what, _branch(repository, branch), decode.branch_head).commit

    def create_branch(self, repository: Repository, branch: BranchName, source: CommitId) -> None:
        body = {"name": url_parts.branch(branch), "source": source, "hidden": True}
        what = f"create branch {branch} in {repository}"
        self._write(_Write("create_branch", what, "POST", f"{_repository(repository)}/branches", body), http.acknowledged)

    def delete_branch(self, repository: Repository, branch: BranchName) -> None:
        what = f"delete branch {branch} of {repository}"
        self._write(_Write("delete_branch", what, "DELETE", _branch(repository, branch)), http.acknowledged)

    def branches(self, repository: Repository, prefix: str, *, page: int = PAGE) -> Iterable[BranchHead]:
        what = f"list the branches of {repository} that begin with {prefix!r}"
        target = f"{_repository(repository)}/branches?show_hidden=true&prefix={url_parts.text(prefix)}"
        for found in self._pages("branches", what, target, page):
            yield from map(decode.branch_head, found)

    def commit_branch(self, repository: Repository, branch: BranchName, message: str, metadata: Mapping[str, str]) -> Commit:
        body = {"message": message, "metadata": dict(metadata)}
        target = f"{_branch(repository, branch)}/commits"
        return self._write(_Write("commit_branch", f"commit {repository}/{branch}", "POST", target, body), _json(decode.commit))

    def merge(
        self,
        repository: Repository,
        source: BranchName,
        target: BranchName,
        *,
        message: str,
        metadata: Mapping[str, str],
        timeout: float,
    ) -> CommitId:
        body = {"message": message, "metadata": dict(metadata), "squash_merge": True}
        path = f"{_repository(repository)}/refs/{url_parts.branch(source)}/merge/{url_parts.branch(target)}"
        what = f"merge {source} into {repository}/{target}"
        return self._write(_Write("merge", what, "POST", path, body), _json(decode.merged), timeout)

    def relocate(self, repository: Repository, target: BranchName, to: BranchName, *, timeout: float) -> None:
        what = f"relocate {repository}/{target} to {to}"
        path = f"{_branch(repository, target)}/hard_reset?ref={url_parts.branch(to)}"
        try:
            self._write(_Write("relocate", what, "PUT", path), http.acknowledged, timeout)
        except LakeForbidden as error:
            hint = "replacing an abandoned publication needs fs:RevertBranch and a branch without protection rules"
            raise LakeForbidden(f"{error}; {hint}") from error

    def interrupt_updates(self, repository: Repository, branch: BranchName) -> None:
        """A merge of the branch into itself: lakeFS rewrites the branch's record before it finds that nothing is to be merged."""
        what = f"interrupt the updates of {repository}/{branch}"
        path = f"{_repository(repository)}/refs/{url_parts.branch(branch)}/merge/{url_parts.branch(branch)}"
        body = {"message": "interrupt updates", "squash_merge": True}
        try:
            self._write(_Write("interrupt_updates", what, "POST", path, body), _json(decode.merged))
        except LakeConflict as error:
            if error_mapping.NO_CHANGES not in str(error):
                raise
        else:
            raise LakeRejected(f"{what}: lakeFS made a commit of a branch merged into itself")

    # objects

    def objects(
        self, repository: Repository, ref: Ref, prefix: str, after: ObjectPath | None = None, *, presign: bool = False
    ) -> ObjectPage:
        query = f"amount={PAGE}&prefix={url_parts.text(prefix)}&after={url_parts.text(after or '')}"
        query += "&presign=true" if presign else ""
        target = f"{_repository(repository)}/refs/{url_parts.ref(ref)}/objects/ls?{query}"
        return self._get("objects", f"list {prefix!r} of {repository}@{ref}", target, decode.page)

    def read(self, repository: Repository, ref: Ref, info: ObjectInfo, into: Path) -> str:
        request = self._reading(repository, ref, info)
        return self._read(request, info, transfer.save(request.what, info, into))

    def read_small(self, repository: Repository, ref: Ref, infos: Sequence[ObjectInfo]) -> Iterator[tuple[str, bytes]]:
        requests = [self._reading(repository, ref, info) for info in infos]
        receives = [transfer.load(request.what, info) for request, info in zip(requests, infos, strict=True)]
        done = 0
        if all(info.presigned_url is None for info in infos):
            timeout = self._timeouts.transfer(sum(info.size for info in infos))
            for result in self._http.together(list(zip(requests, receives, strict=True)), timeout):
                if isinstance(result, Refusal):
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
    ) -> ObjectInfo:
        what = f"write {path!r} to {repository}/{branch}"
        place = _Place(what, _branch(repository, branch), url_parts.path(path))
        with transfer.upload(source) as file:
            sent = self._link(place, file, content_type, metadata) or self._upload(place, file, content_type, metadata)
            _require_stored(what, sent, file.size, file.md5)
        return sent

    def write_small(self, repository: Repository, branch: BranchName, files: Sequence[SmallFile]) -> Iterator[ObjectInfo]:
        places = [
            _Place(f"write {file.path!r} to {repository}/{branch}", _branch(repository, branch), url_parts.path(file.path))
            for file in files
        ]
        done = 0
        if all(object_headers.in_headers(file.metadata) for file in files):
            calls = [(self._uploading(place, file), _stored(place, file)) for place, file in zip(places, files, strict=True)]
            for result in self._http.together(calls, self._timeouts.transfer(sum(len(file.data) for file in files))):
                if isinstance(result, Refusal):
                    raise result.error
                done += 1
                yield result
        for number in range(done, len(files)):
            yield self._write_one(places[number], files[number])

    def delete_objects(self, repository: Repository, branch: BranchName, paths: Sequence[ObjectPath]) -> None:
        what = f"delete {len(paths)} objects of {repository}/{branch}"
        if len(paths) > PAGE:
            raise LakeRejected(f"{what}: at most {PAGE} at a time")
        for path in paths:
            url_parts.encoded(path)
        write = _Write("delete_objects", what, "POST", f"{_branch(repository, branch)}/objects/delete", {"paths": list(paths)})
        error_mapping.deletes(what, self._write(write, _json(decode.refused_deletes)))

    def uncommitted(self, repository: Repository, branch: BranchName) -> Iterable[ObjectChange]:
        what = f"read the uncommitted changes of {repository}/{branch}"
        for page in self._pages("uncommitted", what, f"{_branch(repository, branch)}/diff?"):
            yield from map(decode.change, page)

    # inside

    def _reading(self, repository: Repository, ref: Ref, info: ObjectInfo) -> Request:
        what = f"read {info.path!r} of {repository}@{ref}"
        target = f"{API}{_repository(repository)}/refs/{url_parts.ref(ref)}/objects?path={url_parts.path(info.path)}"
        return Request("read", what, "GET", target, self._timeouts.transfer(info.size), stall=self._timeouts.request)

    def _read(self, request: Request, info: ObjectInfo, receive: http.Receive[T]) -> T:
        if info.presigned_url is not None:
            result = presigned.get(self._http, request, info.presigned_url, receive)
            if not isinstance(result, Refusal):
                return result
        return self._http.call(request, receive)

    def _uploading(self, place: _Place, file: SmallFile) -> Request:
        headers = f"{object_headers.headers(place.what, file.content_type, file.metadata)}Content-Length: {len(file.data)}\r\n"
        target, timeout = f"{API}{place.branch}/objects?path={place.path}", self._timeouts.transfer(len(file.data))
        return Request("write", place.what, "POST", target, timeout, headers, file.data, write=True, stall=self._timeouts.request)

    def _write_one(self, place: _Place, file: SmallFile) -> ObjectInfo:
        sent = self._http.call(self._uploading(place, file), _stored(place, file))
        return sent if object_headers.in_headers(file.metadata) else self._labelled(place, sent, file.metadata)

    def _upload(self, place: _Place, file: transfer.Upload, content_type: str, metadata: Mapping[str, str]) -> ObjectInfo:
        """Through lakeFS; metadata that no header can carry follows in a request of its own."""
        headers = f"{object_headers.headers(place.what, content_type, metadata)}Content-Length: {file.size}\r\n"
        small = file.content() if file.size <= transfer.SMALL else None
        target = f"{API}{place.branch}/objects?path={place.path}"
        timeout = self._timeouts.transfer(file.size)
        stall = self._timeouts.request
        request = Request("write", place.what, "POST", target, timeout, headers, small or b"", write=True, stall=stall)
        sent = self._http.call(request, _json(decode.object_info), http.nothing_more if small is not None else file.send)
        return sent if object_headers.in_headers(metadata) else self._labelled(place, sent, metadata)

    def _labelled(self, place: _Place, sent: ObjectInfo, metadata: Mapping[str, str]) -> ObjectInfo:
        target = f"{place.branch}/objects/stat/user_metadata?path={place.path}"
        self._write(_Write("write", place.what, "PUT", target, {"set": dict(metadata)}), http.acknowledged)
        return replace(sent, metadata=dict(metadata))

    def _link(self, place: _Place, file: transfer.Upload, content_type: str, metadata: Mapping[str, str]) -> ObjectInfo | None:
        """By a signed link, straight to the object store; None where that is not possible or was refused."""
        if not presigned.UPLOAD_FROM <= file.size <= presigned.UPLOAD_TO or not self.capabilities().presign_write:
            return None
        target = f"{place.branch}/staging/backing?path={place.path}"
        address, url = self._get("write", place.what, f"{target}&presign=true", decode.location)
        timeout, stall = self._timeouts.transfer(file.size), self._timeouts.request
        request = Request("write", place.what, "PUT", "", timeout, stall=stall)
        if isinstance(presigned.put(self._http, request, url, file), Refusal):
            return None
        body = {
            "staging": {"physical_address": address, "presigned_url": url},
            "checksum": file.md5,
            "size_bytes": file.size,
            "content_type": content_type,
            "user_metadata": dict(metadata),
        }
        return self._write(_Write("write", place.what, "PUT", target, body), _json(decode.object_info))

    def _get(self, verb: str, what: str, target: str, decoded: Callable[[decode.Json], T]) -> T:
        return self._http.call(Request(verb, what, "GET", f"{API}{target}", self._timeouts.request), _json(decoded))

    def _write(self, write: _Write, receive: http.Receive[T], timeout: float | None = None) -> T:
        """Sent once, whatever happens."""
        text = b"" if write.body is None else json.dumps(write.body).encode()
        headers = f"{_JSON if text else ''}Content-Length: {len(text)}\r\n"
        seconds = self._timeouts.request if timeout is None else timeout
        target = f"{API}{write.target}"
        return self._http.call(Request(write.verb, write.what, write.method, target, seconds, headers, text, write=True), receive)

    def _pages(self, verb: str, what: str, target: str, amount: int = PAGE) -> Iterator[Sequence[decode.Json]]:
        after: str | None = ""
        while after is not None:
            page, after = self._get(verb, what, f"{target}&amount={amount}&after={url_parts.text(after)}", decode.results)
            yield page


def _endpoint(url: str) -> str:
    """Lakectl's habit of naming the API's path too is welcome; any other path would be ignored, so it is refused."""
    if urlsplit(url).path.rstrip("/") not in ("", API) or "@" in urlsplit(url).netloc:
        raise RuntimeConfigError(f"the lakeFS address must be http(s)://host[:port], with nothing but {API} after it")
    return url


def _repository(name: Repository) -> str:
    return f"/repositories/{url_parts.repository(name)}"


def _branch(repository: Repository, name: BranchName) -> str:
    return f"{_repository(repository)}/branches/{url_parts.branch(name)}"


def _require_stored(what: str, sent: ObjectInfo, size: int, md5: str) -> None:
    if (sent.size, sent.checksum) != (size, md5):
        raise LakeCorrupt(f"{what}: lakeFS has {sent.size} bytes with MD5 {sent.checksum}, not {size} with {md5}")


def _stored(place: _Place, file: SmallFile) -> http.Receive[ObjectInfo]:
    def receive(head: http1.Head, body: Iterable[memoryview]) -> ObjectInfo:
        sent = decode.object_info(http.reply(head, body))
        _require_stored(place.what, sent, len(file.data), hashlib.md5(file.data, usedforsecurity=False).hexdigest())
        return sent

    return receive


def _json(decoded: Callable[[decode.Json], T]) -> http.Receive[T]:
    return lambda head, body: decoded(http.reply(head, body))
