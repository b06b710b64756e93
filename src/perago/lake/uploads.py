"""Uploads: small files from memory, other files through lakeFS, and large ones by a presigned link to the object store."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from perago.errors import LakeCorrupt
from perago.http import client, request
from perago.http.failure import RequestFailure
from perago.http.request import HttpRequest, Receive, ReplyHead
from perago.lake import api, decode, object_headers, presigned, transfer
from perago.lake.port import SmallFile
from perago.model import ObjectInfo


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a file goes: its name in errors, the branch's path in the API, and the object's path, quoted for a query."""

    what: str
    branch: str
    path: str

    @property
    def target(self) -> str:
        return f"{self.branch}/objects?path={self.path}"


def upload_small(lake: api.LakeApi, destinations: Sequence[Destination], files: Sequence[SmallFile]) -> Iterator[ObjectInfo]:
    """In this order, together on one connection where that is possible; raises for the first one that fails."""
    done = 0
    if all(object_headers.fit(file.metadata) for file in files):
        calls = [(_small_request(lake, to, file), _stored(to, file)) for to, file in zip(destinations, files, strict=True)]
        for result in lake.http.pipeline(calls, lake.timeouts.transfer(sum(len(file.data) for file in files))):
            if isinstance(result, RequestFailure):
                raise result.error
            done += 1
            yield result
    for to, file in zip(destinations[done:], files[done:], strict=True):
        sent = lake.http.call(_small_request(lake, to, file), _stored(to, file))
        yield sent if object_headers.fit(file.metadata) else _set_metadata(lake, to, sent, file.metadata)


def upload_file(
    lake: api.LakeApi, to: Destination, file: transfer.UploadSource, content_type: str, metadata: Mapping[str, str]
) -> ObjectInfo:
    """Through lakeFS. Metadata that headers cannot hold follows in another request."""
    headers = f"{object_headers.headers(to.what, content_type, metadata)}Content-Length: {file.size}\r\n"
    small = file.content() if file.size <= transfer.SMALL else None
    sending = HttpRequest(
        "write",
        to.what,
        "POST",
        to.target,
        lake.timeouts.transfer(file.size),
        headers,
        small or b"",
        write=True,
        stall=lake.timeouts.request,
    )
    send = client.send_nothing if small is not None else file.send
    sent = lake.http.call(sending, api.json_reply(decode.object_info), send)
    return sent if object_headers.fit(metadata) else _set_metadata(lake, to, sent, metadata)


def upload_by_link(
    lake: api.LakeApi, to: Destination, file: transfer.UploadSource, content_type: str, metadata: Mapping[str, str]
) -> ObjectInfo | None:
    """To the object store by a presigned link, then linked in lakeFS; None if the store did not take the file."""
    target = f"{to.branch}/staging/backing?path={to.path}"
    address, url = lake.get_json("write", to.what, f"{target}&presign=true", decode.location)
    sending = HttpRequest("write", to.what, "PUT", "", lake.timeouts.transfer(file.size), stall=lake.timeouts.request)
    if isinstance(presigned.put(lake.http, sending, url, file), RequestFailure):
        return None
    body = {
        "staging": {"physical_address": address, "presigned_url": url},
        "checksum": file.md5,
        "size_bytes": file.size,
        "content_type": content_type,
        "user_metadata": dict(metadata),
    }
    return lake.send_write(api.JsonWrite("write", to.what, "PUT", target, body), api.json_reply(decode.object_info))


def require_stored(what: str, sent: ObjectInfo, size: int, md5: str) -> None:
    """Raise `LakeCorrupt` unless lakeFS has the bytes that were sent."""
    if (sent.size, sent.checksum) != (size, md5):
        raise LakeCorrupt(f"{what}: lakeFS has {sent.size} bytes with MD5 {sent.checksum}, not {size} with {md5}")


def _small_request(lake: api.LakeApi, to: Destination, file: SmallFile) -> HttpRequest:
    size = len(file.data)
    headers = f"{object_headers.headers(to.what, file.content_type, file.metadata)}Content-Length: {size}\r\n"
    timeout, stall = lake.timeouts.transfer(size), lake.timeouts.request
    return HttpRequest("write", to.what, "POST", to.target, timeout, headers, file.data, write=True, stall=stall)


def _stored(to: Destination, file: SmallFile) -> Receive[ObjectInfo]:
    def receive(head: ReplyHead, body: Iterable[memoryview]) -> ObjectInfo:
        sent = decode.object_info(request.receive_object(head, body))
        require_stored(to.what, sent, len(file.data), hashlib.md5(file.data, usedforsecurity=False).hexdigest())
        return sent

    return receive


def _set_metadata(lake: api.LakeApi, to: Destination, sent: ObjectInfo, metadata: Mapping[str, str]) -> ObjectInfo:
    target = f"{to.branch}/objects/stat/user_metadata?path={to.path}"
    lake.send_write(api.JsonWrite("write", to.what, "PUT", target, {"set": dict(metadata)}), request.receive_nothing)
    return replace(sent, metadata=dict(metadata))
