"""Conductor's error table: what happened to a request, as one of our errors with a message of one line. Pure functions."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from perago.errors import ConductorError, ConductorNotFound, ConductorRejected, ConductorUnavailable, ConductorUnknown
from perago.http import failure
from perago.http.failure import ConnectionBroken, ErrorTable, RequestFailure
from perago.http.request import HttpRequest

_MAX_QUOTE = 300
"""Characters of Conductor's own message that an error quotes."""
_GATEWAY_STATUSES = {HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT}
"""From a proxy that passed the request on and got no reply."""


def table(url: str) -> ErrorTable:
    """For the server at this address, which messages name."""

    def broken(request: HttpRequest, error: ConnectionBroken) -> RequestFailure:
        if request.write and failure.may_have_happened(error.stage):
            line = f"Conductor broke off {request.what} ({error.reason}): whether it acted is unknown"
            return RequestFailure(ConductorUnknown(line))
        line = f"Conductor at {url} does not answer {request.what}: {error.reason}"
        return RequestFailure(ConductorUnavailable(line), retry=True)

    return ErrorTable(refused, broken, malformed)


def refused(request: HttpRequest, status: int, headers: Mapping[str, str], body: bytes) -> RequestFailure:
    """For a reply that is not 2xx."""
    message = _message(body)
    line = f"Conductor answered {status} to {request.what}{': ' + message if message else ''}"
    error = _error(status, line, write=request.write)
    return RequestFailure(error, isinstance(error, ConductorUnavailable), failure.retry_after(headers), status)


def malformed(request: HttpRequest, reason: str) -> RequestFailure:
    """For a 2xx reply that cannot be understood."""
    line = f"Conductor's answer to {request.what} is unreadable ({reason})"
    if request.write:
        return RequestFailure(ConductorUnknown(f"{line}: whether it acted is unknown"))
    return RequestFailure(ConductorUnavailable(line), retry=True)


def _error(status: int, line: str, *, write: bool) -> ConductorError:
    if status == HTTPStatus.NOT_FOUND:
        return ConductorNotFound(line)
    if write and status in _GATEWAY_STATUSES:
        return ConductorUnknown(f"{line}: whether it acted is unknown")
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ConductorUnavailable(line)
    return ConductorRejected(line)


def _message(body: bytes) -> str:
    """Conductor's own message, on one line and not too long."""
    try:
        message: Any = json.loads(body)["message"]
    except (ValueError, KeyError, TypeError):
        return ""
    return " ".join(str(message).split())[:_MAX_QUOTE]
