"""lakeFS's REST API: JSON requests and their replies, with the keys, timeouts and errors of lakeFS."""

import base64
import json
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

from perago.errors import RuntimeConfigError
from perago.http import client, request
from perago.http.client import HttpClient
from perago.http.request import HttpRequest, HttpTimeouts, Origin, Receive, RequestRecord
from perago.lake import decode, error_mapping, url_parts
from perago.lake.port import PAGE
from perago.model import BranchName, Repository

BASE = "/api/v1"
_JSON = "Content-Type: application/json\r\n"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JsonWrite:
    """A write with a JSON body, or none; `target` is path and query below `BASE`."""

    verb: str
    what: str
    method: str
    target: str
    body: decode.Json | None = None


class LakeApi:
    """One server; safe to share between threads. `on_request` is called for each request as it was sent, retries included."""

    def __init__(
        self,
        url: str,
        access_key_id: str,
        secret_access_key: str,
        *,
        timeouts: HttpTimeouts,
        on_request: Callable[[RequestRecord], None] = client.ignore_record,
        tls: ssl.SSLContext | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        token = base64.b64encode(f"{access_key_id}:{secret_access_key}".encode()).decode()
        self.timeouts = timeouts
        self.http = HttpClient(
            _origin(url),
            BASE,
            error_mapping.TABLE,
            connect_timeout=timeouts.connect,
            login=client.FixedLogin(f"Authorization: Basic {token}\r\n"),
            on_request=on_request,
            tls=tls,
            pause=pause,
        )

    def close(self) -> None:
        """Close the idle connections; the client stays usable."""
        self.http.close()

    def get_json(self, verb: str, what: str, target: str, decoded: Callable[[decode.Json], T]) -> T:
        """Read a JSON object and decode it."""
        return self.http.call(HttpRequest(verb, what, "GET", target, self.timeouts.request), json_reply(decoded))

    def get_pages(
        self, verb: str, what: str, target: str, decoded: Callable[[decode.Json], T], amount: int = PAGE
    ) -> Iterator[Sequence[T]]:
        """The pages of a listing; `target` ends with a query, or with its question mark.

        The items are decoded at once, because their JSON needs several times the memory.
        """

        def page_of(reply: decode.Json) -> tuple[Sequence[T], str | None]:
            items, following = decode.results(reply)
            return [decoded(item) for item in items], following

        after: str | None = ""
        while after is not None:
            page, after = self.get_json(verb, what, f"{target}&amount={amount}&after={url_parts.text(after)}", page_of)
            yield page

    def send_write(self, write: JsonWrite, receive: Receive[T], timeout: float | None = None) -> T:
        """Send a write, once."""
        text = b"" if write.body is None else json.dumps(write.body).encode()
        headers = f"{_JSON if text else ''}Content-Length: {len(text)}\r\n"
        seconds = self.timeouts.request if timeout is None else timeout
        return self.http.call(
            HttpRequest(write.verb, write.what, write.method, write.target, seconds, headers, text, write=True), receive
        )


def json_reply(decoded: Callable[[decode.Json], T]) -> Receive[T]:
    return lambda head, body: decoded(request.receive_object(head, body))


def repository_path(name: Repository) -> str:
    return f"/repositories/{url_parts.repository(name)}"


def branch_path(repository: Repository, name: BranchName) -> str:
    return f"{repository_path(repository)}/branches/{url_parts.branch(name)}"


def _origin(url: str) -> Origin:
    """The address may end with the API's path, as in lakectl's configuration. Any other path would be ignored: refused."""
    try:
        origin, _ = request.split_url(url)
    except ValueError:
        raise RuntimeConfigError("the lakeFS address must look like http://host:port or https://host") from None
    parts = urlsplit(url)
    if parts.path.rstrip("/") not in ("", BASE) or "@" in parts.netloc:
        raise RuntimeConfigError(f"the lakeFS address must be http(s)://host[:port], with nothing but {BASE} after it")
    return origin
