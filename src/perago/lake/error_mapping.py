"""lakeFS's error table: what happened to a request, as one of our errors with a message of one line. Pure functions."""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, cast

from perago.errors import (
    LakeConflict,
    LakeCorrupt,
    LakeError,
    LakeForbidden,
    LakeNotFound,
    LakeRejected,
    LakeUnavailable,
    LakeUnknown,
)
from perago.http import failure
from perago.http.failure import ConnectionBroken, ErrorTable, RequestFailure
from perago.http.request import HttpRequest

_MAX_QUOTE = 300
"""Characters of lakeFS's own message that an error quotes."""
_ERRORS: dict[int, type[LakeError]] = {
    HTTPStatus.UNAUTHORIZED: LakeForbidden,
    HTTPStatus.FORBIDDEN: LakeForbidden,
    HTTPStatus.NOT_FOUND: LakeNotFound,
    HTTPStatus.GONE: LakeNotFound,
    HTTPStatus.CONFLICT: LakeConflict,
    HTTPStatus.LOCKED: LakeUnavailable,
    HTTPStatus.TOO_MANY_REQUESTS: LakeUnavailable,
    HTTPStatus.NOT_IMPLEMENTED: LakeRejected,
}
NO_CHANGES = "no changes"
_CONFLICTS = (NO_CHANGES, "dirty branch")
"""lakeFS answers these with 400."""
_LOCKED = "currently locked"
"""In a 500 it means that the update was not begun."""


def refused(request: HttpRequest, status: int, headers: Mapping[str, str], body: bytes) -> RequestFailure:
    """For a reply that is not 2xx."""
    message = _message(body)
    line = f"{request.what}: lakeFS answered {status}{f' ({message})' if message else ''}"
    error = _error_type(status, message, write=request.write)
    retry = error is LakeUnavailable and status != HTTPStatus.LOCKED
    return RequestFailure(error(line), retry, failure.retry_after(headers), status)


def broken(request: HttpRequest, error: ConnectionBroken) -> RequestFailure:
    """For a request without a complete reply."""
    if request.write and failure.may_have_happened(error.stage):
        line = f"{request.what}: no answer from lakeFS, it may or may not have happened ({error})"
        return RequestFailure(LakeUnknown(line))
    return RequestFailure(LakeUnavailable(f"{request.what}: lakeFS cannot be reached ({error})"), retry=True)


def malformed(request: HttpRequest, reason: str) -> RequestFailure:
    """For a 2xx reply that cannot be understood."""
    if request.write:
        line = f"{request.what}: lakeFS's answer is unreadable, it may or may not have happened ({reason})"
        return RequestFailure(LakeUnknown(line))
    return RequestFailure(LakeUnavailable(f"{request.what}: lakeFS's answer is unreadable ({reason})"), retry=True)


TABLE = ErrorTable(refused, broken, malformed, retried=(LakeCorrupt,))


def raise_refused_deletes(what: str, refusals: Sequence[tuple[int, str, str]]) -> None:
    """Raise for the first object of a bulk delete that was refused: its status, its path and lakeFS's message."""
    if refusals:
        status, path, message = refusals[0]
        line = f"{what}: lakeFS refused {len(refusals)}, {path!r} with {status} ({message[:_MAX_QUOTE]})"
        raise _error_type(status, message, write=True)(line)


def _error_type(status: int, message: str, *, write: bool) -> type[LakeError]:
    if error := _ERRORS.get(status):
        return error
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return LakeUnknown if write and _LOCKED not in message else LakeUnavailable
    is_conflict = status == HTTPStatus.BAD_REQUEST and any(text in message for text in _CONFLICTS)
    return LakeConflict if is_conflict else LakeRejected


def _message(body: bytes) -> str:
    """LakeFS's message, or the beginning of any other body, on one line."""
    try:
        reply: Any = json.loads(body)
    except ValueError:
        reply = None
    text = cast("dict[str, Any]", reply).get("message", "") if isinstance(reply, dict) else body.decode("utf-8", "replace")
    line = " ".join(str(text).split())
    return line if len(line) <= _MAX_QUOTE else line[:_MAX_QUOTE] + "…"
