"""One request to any URL, on its own connection, for callers that decide themselves what each status means."""

from collections.abc import Mapping
from dataclasses import dataclass

from perago.http.client import request_text, send_nothing, send_request
from perago.http.connection import Deadline
from perago.http.failure import ConnectionBroken, RequestStage
from perago.http.pool import ConnectionPool
from perago.http.request import read_all, split_url


@dataclass(frozen=True, slots=True)
class HttpReply:
    """Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def fetch(
    url: str, *, timeout: float, method: str = "GET", headers: Mapping[str, str] | None = None, body: bytes | None = None
) -> HttpReply:
    """The reply, whatever its status, within `timeout` seconds. `ConnectionBroken` without one; `ValueError` for a bad URL."""
    origin, target = split_url(url)
    lines = {"Connection": "close", **(headers or {})}
    if body is not None:
        lines["Content-Length"] = str(len(body))
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    deadline = Deadline(timeout)
    pool = ConnectionPool(None, timeout, keep=0)
    connection = pool.acquire(origin, deadline)
    try:
        request = request_text(method, origin, target if target.startswith("/") else f"/{target}", text, body or b"")
        head = send_request(connection, request, send_nothing, deadline)
        return HttpReply(head.status, head.headers, read_all(connection.body(head, deadline)))
    except ValueError as error:
        raise ConnectionBroken(RequestStage.SENT, f"the reply has {error}") from error
    finally:
        pool.release(connection)
