"""One rule for both servers: a write whose last byte was not sent did not happen; one that was sent whole may have happened.

The first half shows what both clients make of a connection that breaks at each stage. The second half shows on the real servers
what the rule relies on: a request without its last byte has no effect.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from tests.support import fault_proxy as faults
from tests.support import lake_sites
from tests.support.conductor_sites import RealConductorSite, nonce, take
from tests.support.fault_proxy import FaultProxy
from tests.support.lake_sites import MAIN, RealSite

from perago.conductor.client import ConductorClient
from perago.dev.stack import Endpoints
from perago.errors import (
    ConductorError,
    ConductorRejected,
    ConductorUnavailable,
    ConductorUnknown,
    LakeRejected,
    LakeUnavailable,
    LakeUnknown,
    PeragoError,
    TaskStatus,
)
from perago.http import failure
from perago.http.failure import RequestStage
from perago.http.request import HttpTimeouts
from perago.lake.client import LakeFS
from perago.lake.port import SmallFile
from perago.model import Attempt, BranchName, CommitId, ObjectPath, Outcome, Repository, TaskId, TaskType, WorkerId, WorkflowId

REPOSITORY, STAGING, COMMIT = Repository("repository"), BranchName("staging"), CommitId("c" * 64)
ATTEMPT = Attempt(WorkflowId("w1"), TaskId("t1"), 0, "r", 1, 0, TaskType("x"), WorkerId("n"), 1, 1)
LARGE = "x" * 20_000_000
"""More than the socket buffers of both sides hold, so that a request cannot be sent to a server that does not read."""
COMPLETED = Outcome(TaskStatus.COMPLETED, {"result": {}})

Write = Callable[[str, str], None]
Serve = Callable[[socket.socket], None]


def write_to_lakefs(url: str, content: str) -> None:
    with LakeFS(url, "key", "secret", timeouts=HttpTimeouts(5, 5)) as lake:
        lake.commit_branch(REPOSITORY, STAGING, content, {})


def write_to_conductor(url: str, content: str) -> None:
    with contextlib.closing(ConductorClient(f"{url}/api", timeout=5)) as client:
        client.report(ATTEMPT, Outcome(TaskStatus.COMPLETED, {"result": content}), timeout=5)


WRITES: dict[str, tuple[Write, type[PeragoError], type[PeragoError], type[PeragoError]]] = {
    "lakeFS": (write_to_lakefs, LakeUnavailable, LakeUnknown, LakeRejected),
    "Conductor": (write_to_conductor, ConductorUnavailable, ConductorUnknown, ConductorRejected),
}
both_servers = pytest.mark.parametrize("name", WRITES)


@contextmanager
def listening(serve: Serve) -> Generator[str]:
    """A server that handles one connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            connection, _ = listener.accept()
            with connection:
                serve(connection)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(10)


def receive_request(connection: socket.socket) -> None:
    """Until the end of a small request: its JSON object ends with a brace."""
    data = b""
    while not data.endswith(b"}"):
        data += connection.recv(1 << 16)


def close_while_receiving(connection: socket.socket) -> None:
    connection.recv(1000)


def close_after_request(connection: socket.socket) -> None:
    receive_request(connection)


def reply_with(reply: bytes) -> Serve:
    def serve(connection: socket.socket) -> None:
        receive_request(connection)
        connection.sendall(reply)

    return serve


def test_the_rule() -> None:
    assert {stage: failure.may_have_happened(stage) for stage in RequestStage} == {
        RequestStage.CONNECTING: False,
        RequestStage.SENDING: False,
        RequestStage.SENT: True,
    }


@both_servers
def test_write_without_connection_did_not_happen(name: str) -> None:
    write, unavailable, _, _ = WRITES[name]
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(unavailable, match="refused"):
            write(f"http://127.0.0.1:{unused.getsockname()[1]}", "small")


@both_servers
def test_write_that_broke_while_sending_did_not_happen(name: str) -> None:
    write, unavailable, _, _ = WRITES[name]
    with listening(close_while_receiving) as url, pytest.raises(unavailable):
        write(url, LARGE)


@both_servers
@pytest.mark.parametrize(
    "serve",
    [
        close_after_request,
        reply_with(b"HTTP/1.1 20"),
        reply_with(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{"),
        reply_with(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"),
        reply_with(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n"),
        reply_with(b"SSH-2.0-OpenSSH\r\n\r\n"),
    ],
    ids=["no reply", "half a head", "half a body", "no last chunk", "negative chunk size", "not HTTP"],
)
def test_write_that_was_sent_without_a_whole_reply_is_unknown(name: str, serve: Serve) -> None:
    write, _, unknown, _ = WRITES[name]
    with listening(serve) as url, pytest.raises(unknown):
        write(url, "small")


@both_servers
def test_complete_refusal_decides_even_if_its_body_is_cut(name: str) -> None:
    write, _, _, rejected = WRITES[name]
    with listening(reply_with(b"HTTP/1.1 412 No\r\nContent-Length: 10\r\n\r\n{")) as url, pytest.raises(rejected, match="412"):
        write(url, "small")


def test_several_writes_sent_together_are_unknown_even_if_sending_broke() -> None:
    files = [SmallFile(ObjectPath(str(number)), LARGE.encode(), "x/y", {}) for number in range(2)]
    with (
        listening(close_while_receiving) as url,
        LakeFS(url, "key", "secret", timeouts=HttpTimeouts(5, 5)) as lake,
        pytest.raises(LakeUnknown, match="'0'"),
    ):
        list(lake.write_small(REPOSITORY, STAGING, files))


# the real servers


@pytest.fixture
def lakefs(stack: Endpoints, fresh_name: Callable[[], str]) -> Iterator[RealSite]:
    site = RealSite(stack, fresh_name())
    yield site
    site.close()


@pytest.fixture
def conductor(stack: Endpoints) -> Iterator[RealConductorSite]:
    site = RealConductorSite(stack.conductor_url)
    yield site
    site.close()


def without_last_byte(url: str) -> faults.Fault:
    """Passes on all of the request but its last byte, waits until the server has finished with it, and hangs up."""
    address = urlsplit(url)

    def fault(exchange: faults.Exchange) -> None:
        with socket.create_connection((address.hostname or "", address.port or 80), 30) as connection:
            connection.sendall(exchange.request.raw[:-1])
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass
        raise faults.Gone

    return fault


LAKE_WRITES: dict[str, Callable[[LakeFS, RealSite], object]] = {
    "create_branch": lambda lake, site: lake.create_branch(site.repository, BranchName("new"), lake_head(site)),
    "delete_branch": lambda lake, site: lake.delete_branch(site.repository, STAGING),
    "commit_branch": lambda lake, site: lake.commit_branch(site.repository, STAGING, "message", {}),
    "merge": lambda lake, site: lake.merge(site.repository, STAGING, MAIN, message="m", metadata={}, timeout=30),
    "relocate": lambda lake, site: lake.relocate(site.repository, MAIN, STAGING, timeout=30),
    "write_small": lambda lake, site: list(
        lake.write_small(site.repository, STAGING, [SmallFile(ObjectPath("new"), b"new", "text/plain", {})])
    ),
    "delete_objects": lambda lake, site: lake.delete_objects(site.repository, STAGING, [ObjectPath("a")]),
}


def lake_head(site: RealSite) -> CommitId:
    return site.lake.head(site.repository, MAIN).id


def lake_state(site: RealSite) -> object:
    return (
        list(site.lake.branches(site.repository, "")),
        list(site.lake.uncommitted(site.repository, STAGING)),
        site.content("staging"),
    )


@pytest.mark.parametrize("verb", LAKE_WRITES)
def test_lakefs_discards_a_request_without_its_last_byte(lakefs: RealSite, stack: Endpoints, verb: str) -> None:
    base = lakefs.publish("main", {"a": b"1"})
    lake_sites.stage(lakefs, "staging", base, {"b": b"2"})
    lakefs.put("staging", "c", b"uncommitted")
    before = lake_state(lakefs)
    with FaultProxy(stack.lakefs_url) as proxy, lake_sites.client(stack, proxy.url) as lake:
        proxy.on("(POST|PUT|DELETE) ", without_last_byte(stack.lakefs_url))
        with pytest.raises(LakeUnknown):
            LAKE_WRITES[verb](lake, lakefs)
    assert lake_state(lakefs) == before


CONDUCTOR_WRITES: dict[str, Callable[[ConductorClient, Attempt], object]] = {
    "report": lambda client, attempt: client.report(attempt, COMPLETED, timeout=30),
    "report_and_poll": lambda client, attempt: client.report_and_poll(attempt, COMPLETED, nonce(), timeout=30),
    "hand_back": lambda client, attempt: client.hand_back(attempt),
}


@pytest.mark.parametrize("verb", CONDUCTOR_WRITES)
def test_conductor_discards_an_update_without_its_last_byte(conductor: RealConductorSite, verb: str) -> None:
    task_type = conductor.task_type()
    conductor.start(task_type)
    attempt = take(conductor.conductor, task_type).attempt
    before = conductor.conductor.task(attempt.task_id)
    with FaultProxy(conductor.url) as proxy, contextlib.closing(ConductorClient(proxy.url, timeout=30)) as client:
        proxy.on("POST ", without_last_byte(conductor.url))
        with pytest.raises(ConductorUnknown):
            CONDUCTOR_WRITES[verb](client, attempt)
    assert conductor.conductor.task(attempt.task_id) == before


def test_conductor_hands_out_no_task_to_a_poll_without_its_last_byte(conductor: RealConductorSite) -> None:
    task_type = conductor.task_type()
    conductor.start(task_type)
    lost = nonce()
    with FaultProxy(conductor.url) as proxy, contextlib.closing(ConductorClient(proxy.url, timeout=30)) as client:
        proxy.on("GET ", without_last_byte(conductor.url))
        with pytest.raises(ConductorError):
            client.poll(task_type, lost, wait_seconds=0)
    polled = take(conductor.conductor, task_type)
    assert polled.attempt.poll_count == 1
    assert polled.attempt.worker_id != lost
