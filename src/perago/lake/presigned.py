"""Bytes straight from and to the object store, by links that lakeFS signs. If that goes wrong, lakeFS itself is the fallback."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar
from urllib.parse import urlsplit

from perago.errors import LakeCorrupt, RuntimeConfigError
from perago.http import http1
from perago.lake import error_mapping, http, transfer
from perago.lake.error_mapping import Refusal

UPLOAD_FROM = 16 * 1024 * 1024
"""Smaller files go through lakeFS: a link costs two requests more."""
UPLOAD_TO = 5 * 1024**3
"""The largest object that stores take in one piece; lakeFS splits larger ones itself."""

T = TypeVar("T")


def get(server: http.Http, request: http.Request, url: str, receive: http.Receive[T]) -> T | Refusal:
    return _follow(server, request, url, receive)


def put(server: http.Http, request: http.Request, url: str, file: transfer.Upload) -> Refusal | None:
    """Upload a file. Stores that answer with an MD5 as entity tag are held to it."""

    def receive(head: http1.Head, body: Iterable[memoryview]) -> None:
        http.acknowledged(head, body)
        tag = head.headers.get("etag", "").strip('"')
        if transfer.is_md5(tag) and tag != file.md5:
            raise LakeCorrupt(f"{request.what}: the store has MD5 {tag}, not {file.md5}")

    headers = f"{request.headers}Content-Length: {file.size}\r\n"
    return _follow(server, replace(request, method="PUT", headers=headers), url, receive, file.send)


def _follow(
    server: http.Http, request: http.Request, url: str, receive: http.Receive[T], send: http.Send = http.nothing_more
) -> T | Refusal:
    """Once. The link's query is a secret of its own and no part of any message."""
    try:
        origin = http.origin(url)
    except RuntimeConfigError:
        return error_mapping.malformed(request.what, write=False, why="the signed link cannot be followed")
    parts = urlsplit(url)
    target = f"{parts.path or '/'}?{parts.query}"
    return server.once(replace(request, target=target, anonymous=True), origin, receive, send)
