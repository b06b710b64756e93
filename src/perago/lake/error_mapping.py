"""What lakeFS answered, or did not, as one of our errors: said once, here, in one line. Pure functions."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast

from perago.errors import (
    LakeConflict,
    LakeError,
    LakeForbidden,
    LakeNotFound,
    LakeRejected,
    LakeUnavailable,
    LakeUnknown,
)
from perago.http import http1

_SAID = 300
"""How many characters of lakeFS's own words a message may hold."""
_LEAVES: dict[int, type[LakeError]] = {
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
"""A 500 that says the update was never begun."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call that failed: the error to raise, and whether a read may be tried again (`after` seconds at the earliest)."""

    error: LakeError
    again: bool = False
    after: float = 0.0


def refused(what: str, *, write: bool, head: http1.Head, body: bytes) -> Refusal:
    """An answer that is not 2xx."""
    said = _words(body)
    line = f"{what}: lakeFS answered {head.status}{f' ({said})' if said else ''}"
    leaf = _leaf(head.status, said, write=write)
    again = leaf is LakeUnavailable and head.status != HTTPStatus.LOCKED
    return Refusal(leaf(line), again, _retry_after(head))


def broken(what: str, *, write: bool, error: http1.Broken) -> Refusal:
    """No answer, or half of one. A write whose last byte was not sent cannot have been applied."""
    if write and error.stage is http1.Stage.SENT:
        return Refusal(LakeUnknown(f"{what}: no answer from lakeFS, it may or may not have happened ({error})"))
    return Refusal(LakeUnavailable(f"{what}: lakeFS cannot be reached ({error})"), again=True)


def malformed(what: str, *, write: bool, why: str) -> Refusal:
    """A 2xx whose body is not what it should be."""
    if write:
        return Refusal(LakeUnknown(f"{what}: lakeFS's answer is unreadable, it may or may not have happened ({why})"))
    return Refusal(LakeUnavailable(f"{what}: lakeFS's answer is unreadable ({why})"), again=True)


def deletes(what: str, refusals: Sequence[tuple[int, str, str]]) -> None:
    """Raise for the first object of a bulk delete that was refused."""
    if refusals:
        status, path, said = refusals[0]
        line = f"{what}: lakeFS refused {len(refusals)}, {path!r} with {status} ({said[:_SAID]})"
        raise _leaf(status, said, write=True)(line)


def _leaf(status: int, said: str, *, write: bool) -> type[LakeError]:
    if leaf := _LEAVES.get(status):
        return leaf
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return LakeUnknown if write and _LOCKED not in said else LakeUnavailable
    return LakeConflict if status == HTTPStatus.BAD_REQUEST and any(word in said for word in _CONFLICTS) else LakeRejected


def _words(body: bytes) -> str:
    """LakeFS's message, or the beginning of whatever came instead, on one line."""
    try:
        reply: Any = json.loads(body)
    except ValueError:
        reply = None
    said = cast("dict[str, Any]", reply).get("message", "") if isinstance(reply, dict) else body.decode("utf-8", "replace")
    line = " ".join(str(said).split())
    return line if len(line) <= _SAID else line[:_SAID] + "…"


def _retry_after(head: http1.Head) -> float:
    """Seconds; the header's other form, a date, is not worth a clock comparison."""
    value = head.headers.get("retry-after", "")
    return float(value) if value.isdecimal() else 0.0
