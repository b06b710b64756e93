"""The token that a Conductor with authentication asks for: fetched with a key and its secret, and again when it has expired."""

import json
import threading
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from perago.errors import ConductorError, ConductorRejected, ConductorUnavailable
from perago.http import request
from perago.http.client import HttpClient
from perago.http.failure import RequestFailure
from perago.http.request import HttpRequest, ReplyHead


class TokenLogin:
    """Safe to share between threads: one of them fetches a token, the others wait and use the same."""

    def __init__(self, key: str, secret: str, timeout: float) -> None:
        self._body = json.dumps({"keyId": key, "keySecret": secret}, separators=(",", ":")).encode()
        self._timeout = timeout
        self._header = ""
        self._lock = threading.Lock()

    def header(self, client: HttpClient) -> str:
        return self._header or self.renewed(client, "")

    def renewed(self, client: HttpClient, refused: str) -> str:
        with self._lock:
            if self._header == refused:
                self._header = f"X-Authorization: {self._fetch(client)}\r\n"
            return self._header

    def _fetch(self, client: HttpClient) -> str:
        headers = f"Content-Type: application/json\r\nContent-Length: {len(self._body)}\r\n"
        fetching = HttpRequest("token", "POST /token", "POST", "/token", self._timeout, headers, self._body, anonymous=True)
        result = client.attempt(fetching, _receive_token)
        if isinstance(result, RequestFailure):
            raise _login_error(result)
        return result


def _receive_token(_head: ReplyHead, body: Iterable[memoryview]) -> str:
    try:
        reply: Any = json.loads(request.read_all(body))
        token = reply["token"]
    except (ValueError, KeyError, TypeError):
        token = None
    if not isinstance(token, str) or not token:
        raise ConductorRejected("Conductor's token endpoint answered without a token")
    return token


def _login_error(result: RequestFailure) -> Exception:
    """Without the reply's text, which may repeat the credentials."""
    status = result.status
    if status is None:
        return result.error
    error: ConductorError = ConductorRejected(f"Conductor refuses CONDUCTOR_AUTH_KEY and CONDUCTOR_AUTH_SECRET (HTTP {status})")
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        error = ConductorUnavailable(f"Conductor answered {status} to POST /token")
    elif status == HTTPStatus.NOT_FOUND:
        error = ConductorRejected(
            "Conductor has nothing that takes CONDUCTOR_AUTH_KEY and CONDUCTOR_AUTH_SECRET (HTTP 404); "
            "unset them for a server without authentication, or correct CONDUCTOR_SERVER_URL"
        )
    return error
