"""Bytes straight from and to the object store, by links that lakeFS signs. If that fails, the caller goes through lakeFS."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from perago.errors import LakeCorrupt
from perago.http import request
from perago.http.client import HttpClient, SendBody, send_nothing
from perago.http.failure import RequestFailure
from perago.http.request import HttpRequest, Receive, ReplyHead
from perago.lake import error_mapping, transfer

UPLOAD_FROM = 16 * 1024 * 1024
"""Smaller files go through lakeFS: a link costs two more requests."""
UPLOAD_TO = 5 * 1024**3
"""The largest object that stores take in one piece; lakeFS splits larger ones itself."""

T = TypeVar("T")


def get(http: HttpClient, reading: HttpRequest, url: str, receive: Receive[T]) -> T | RequestFailure:
    return _follow(http, reading, url, receive)


def put(http: HttpClient, writing: HttpRequest, url: str, file: transfer.UploadSource) -> RequestFailure | None:
    """Upload a file. The entity tag of the reply must be the file's MD5 if it is an MD5."""

    def receive(head: ReplyHead, body: Iterable[memoryview]) -> None:
        request.receive_nothing(head, body)
        tag = head.headers.get("etag", "").strip('"')
        if transfer.is_md5(tag) and tag != file.md5:
            raise LakeCorrupt(f"{writing.what}: the store has MD5 {tag}, not {file.md5}")

    headers = f"{writing.headers}Content-Length: {file.size}\r\n"
    return _follow(http, replace(writing, method="PUT", headers=headers), url, receive, file.send)


def _follow(
    http: HttpClient, following: HttpRequest, url: str, receive: Receive[T], send: SendBody = send_nothing
) -> T | RequestFailure:
    """Once. The link contains a secret, its signature, so no message quotes it."""
    try:
        origin, target = request.split_url(url)
    except ValueError:
        return error_mapping.malformed(following, "the signed link cannot be followed")
    return http.once(replace(following, target=target or "/", origin=origin), receive, send)
