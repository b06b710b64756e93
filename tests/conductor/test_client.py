"""How the client handles replies, errors and timeouts of a scripted server."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from perago.conductor.client import ConductorClient
from perago.errors import ConductorNotFound, ConductorRejected, ConductorUnavailable, ConductorUnknown, TaskStatus
from perago.model import Attempt, Outcome, TaskId, TaskType, WorkerId, WorkflowId

TASK = {"taskId": "t1", "workflowInstanceId": "w1", "referenceTaskName": "r", "taskType": "x", "status": "IN_PROGRESS"}
ATTEMPT = Attempt(WorkflowId("w1"), TaskId("t1"), 0, "r", 1, 0, TaskType("x"), WorkerId("n"), 1, 1)
DONE = Outcome(TaskStatus.COMPLETED, {"result": {}})
HANG_UP = -1
HANG = -2


@dataclass
class Scripted:
    """Answers in order, the last one repeatedly; keeps the requests."""

    url: str
    answers: list[tuple[int, object]] = field(default_factory=list)
    seen: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)


class Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is part of the test."""


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    script = Scripted("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            script.seen.append((self.command, self.path, dict(self.headers), body))
            status, payload = script.answers.pop(0) if len(script.answers) > 1 else script.answers[0]
            if status == HANG_UP:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if status == HANG:
                script.released.wait(10)
                self.close_connection = True
                return
            data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = answer  # noqa: N815 - the names http.server looks for

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name http.server gives it
            """Nothing on stderr."""

    with Quiet(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        script.url = f"http://127.0.0.1:{server.server_address[1]}/api"
        yield script
        script.released.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def client(scripted: Scripted) -> Iterator[ConductorClient]:
    made = ConductorClient(scripted.url, timeout=2.0)
    yield made
    made.close()


def test_a_read_is_tried_again_on_a_busy_server(scripted: Scripted, client: ConductorClient) -> None:
    scripted.answers = [(503, b""), (429, b""), (200, TASK)]
    assert client.task(TaskId("t1")).status == "IN_PROGRESS"
    assert len(scripted.seen) == 3


def test_a_read_gives_up_after_a_few(scripted: Scripted, client: ConductorClient) -> None:
    scripted.answers = [(500, {"message": "database\nis locked"})]
    with pytest.raises(ConductorUnavailable, match=r"^Conductor answered 500 to GET /tasks/t1: database is locked$"):
        client.task(TaskId("t1"))
    assert len(scripted.seen) == 3


def test_a_read_that_was_cut_is_tried_again(scripted: Scripted, client: ConductorClient) -> None:
    scripted.answers = [(HANG_UP, None), (200, TASK)]
    assert client.task(TaskId("t1")).task_id == "t1"


def test_a_write_goes_out_once_and_a_cut_one_is_unknown(scripted: Scripted, client: ConductorClient) -> None:
    scripted.answers = [(HANG_UP, None)]
    with pytest.raises(ConductorUnknown, match="whether it acted is unknown") as caught:
        client.report(ATTEMPT, DONE, timeout=2)
    assert caught.value.__cause__ is not None
    assert len(scripted.seen) == 1


WRITES: dict[str, Callable[[ConductorClient], object]] = {
    "report": lambda client: client.report(ATTEMPT, DONE, timeout=2),
    "report and poll": lambda client: client.report_and_poll(ATTEMPT, DONE, WorkerId("n"), timeout=2),
    "poll": lambda client: client.poll(TaskType("x"), WorkerId("n"), wait_seconds=0),
    "extend": lambda client: client.extend_lease(ATTEMPT),
    "hand back": lambda client: client.hand_back(ATTEMPT),
    "log": lambda client: client.log(TaskId("t1"), ["line"]),
}


@pytest.mark.parametrize("verb", WRITES)
def test_every_write_that_fails_with_a_status_is_sent_once(scripted: Scripted, client: ConductorClient, verb: str) -> None:
    scripted.answers = [(503, {"message": "later"})]
    with pytest.raises(ConductorUnavailable):
        WRITES[verb](client)
    assert len(scripted.seen) == 1


@pytest.mark.parametrize("status", [502, 504])
def test_a_gateway_that_lost_a_write_does_not_know_what_became_of_it(
    scripted: Scripted, client: ConductorClient, status: int
) -> None:
    scripted.answers = [(status, b"Bad Gateway")]
    with pytest.raises(ConductorUnknown, match="whether it acted is unknown"):
        client.poll(TaskType("x"), WorkerId("n"), wait_seconds=0)
    with pytest.raises(ConductorUnavailable):
        client.task(TaskId("t1"))


def test_a_server_that_hangs_costs_the_timeout_and_no_more(scripted: Scripted) -> None:
    scripted.answers = [(HANG, None)]
    client = ConductorClient(scripted.url, timeout=5)
    with pytest.raises(ConductorUnknown, match="timed out"):
        client.report(ATTEMPT, DONE, timeout=0.3)
    client.close()


def test_a_closed_port_is_unavailable_for_writes_too() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/api"
        client = ConductorClient(url, timeout=1)
        with pytest.raises(ConductorUnavailable, match="does not answer POST /tasks"):
            client.report(ATTEMPT, DONE, timeout=1)
        client.close()


def test_http_statuses_are_mapped_to_errors(scripted: Scripted, client: ConductorClient) -> None:
    scripted.answers = [(404, {"message": "No such task"})]
    with pytest.raises(ConductorNotFound, match="No such task"):
        client.task(TaskId("t1"))
    scripted.answers = [(400, {"message": "bad"})]
    with pytest.raises(ConductorRejected, match="400"):
        client.extend_lease(ATTEMPT)


def test_an_address_that_is_not_an_api_is_said_so(scripted: Scripted, client: ConductorClient) -> None:
    scripted.answers = [(200, b"<!doctype html><title>Conductor</title>")]
    with pytest.raises(ConductorRejected, match="does CONDUCTOR_SERVER_URL name Conductor's API"):
        client.check()


@pytest.mark.parametrize(
    "answer", [(404, {"message": "No static resource"}), (404, b"nothing here"), (200, {"version": 1}), (200, b"ok")]
)
def test_a_server_that_is_no_conductor_is_said_so(
    scripted: Scripted, client: ConductorClient, answer: tuple[int, object]
) -> None:
    scripted.answers = [answer]
    with pytest.raises(ConductorRejected, match=r"does not answer as Conductor does; CONDUCTOR_SERVER_URL is its API"):
        client.check()


def test_a_conductor_passes_the_check(scripted: Scripted, client: ConductorClient) -> None:
    scripted.answers = [(200, [])]
    client.check()


@pytest.mark.parametrize("spoilt", [b"ok", ["text"], [{"taskId": "t1"}], {"taskId": "t1"}], ids=repr)
def test_a_poll_that_cannot_be_read_may_have_taken_a_task(scripted: Scripted, client: ConductorClient, spoilt: object) -> None:
    scripted.answers = [(200, spoilt)]
    with pytest.raises(ConductorUnknown, match="answer to a poll for x cannot be read"):
        client.poll(TaskType("x"), WorkerId("n"), wait_seconds=0)


@pytest.mark.parametrize("spoilt", [b"ok", [], 5], ids=repr)
def test_a_read_that_is_no_task_is_an_error_and_no_crash(scripted: Scripted, client: ConductorClient, spoilt: object) -> None:
    scripted.answers = [(200, spoilt)]
    with pytest.raises(ConductorRejected, match="where an object was expected"):
        client.task(TaskId("t1"))


def test_an_input_that_conductor_keeps_elsewhere_is_told_apart(scripted: Scripted, client: ConductorClient) -> None:
    scripted.answers = [(200, [TASK | {"inputData": {}, "externalInputPayloadStoragePath": "a.json"}]), (200, [TASK])]
    found = [client.poll(TaskType("x"), WorkerId("n"), wait_seconds=0) for _ in range(2)]
    assert [one.input_is_elsewhere for one in found if one is not None] == [True, False]


def test_a_completion_never_extends_the_lease_and_a_failure_has_no_output(scripted: Scripted, client: ConductorClient) -> None:
    scripted.answers = [(200, b"t1")]
    client.report(ATTEMPT, DONE, timeout=2)
    client.report(ATTEMPT, Outcome(TaskStatus.FAILED, {"left": 1}, "why"), timeout=2)
    completed, failed = (json.loads(body) for *_, body in scripted.seen)
    assert "extendLease" not in completed
    assert completed["outputData"] == {"result": {}}
    assert "outputData" not in failed
    assert failed["reasonForIncompletion"] == "why"


def test_output_that_is_not_json_is_refused_before_it_is_sent(scripted: Scripted, client: ConductorClient) -> None:
    with pytest.raises(ConductorRejected, match="not JSON"):
        client.report(ATTEMPT, Outcome(TaskStatus.COMPLETED, {"result": {"x": float("nan")}}), timeout=2)
    assert scripted.seen == []


def test_names_are_escaped_in_paths(scripted: Scripted, client: ConductorClient) -> None:
    scripted.answers = [(200, [])]
    assert client.poll(TaskType("a/b?c ü"), WorkerId("w&1"), wait_seconds=9) is None
    assert scripted.seen[0][1] == "/api/tasks/poll/batch/a%2Fb%3Fc%20%C3%BC?count=1&timeout=5000&workerid=w%261"


def test_a_token_is_fetched_sent_and_fetched_again_when_it_ran_out(scripted: Scripted) -> None:
    client = ConductorClient(scripted.url, timeout=2, auth_key="key", auth_secret="hush-hush")
    scripted.answers = [(200, {"token": "one"}), (200, TASK), (401, b""), (200, {"token": "two"}), (200, b"t1"), (200, TASK)]
    client.task(TaskId("t1"))
    client.extend_lease(ATTEMPT)
    client.task(TaskId("t1"))
    asked = [(path, headers.get("X-Authorization")) for _, path, headers, _ in scripted.seen]
    assert asked == [
        ("/api/token", None),
        ("/api/tasks/t1", "one"),
        ("/api/tasks", "one"),
        ("/api/token", None),
        ("/api/tasks", "two"),
        ("/api/tasks/t1", "two"),
    ]
    assert json.loads(scripted.seen[0][3]) == {"keyId": "key", "keySecret": "hush-hush"}
    client.close()


def test_refused_credentials_are_named_and_not_shown(scripted: Scripted) -> None:
    client = ConductorClient(scripted.url, timeout=2, auth_key="AKIAKEY", auth_secret="hush-hush")
    scripted.answers = [(403, {"message": "no such key AKIAKEY hush-hush"})]
    with pytest.raises(ConductorRejected) as caught:
        client.check()
    assert str(caught.value) == "Conductor refuses CONDUCTOR_AUTH_KEY and CONDUCTOR_AUTH_SECRET (HTTP 403)"
    assert "hush" not in repr(client)
    assert "hush" not in repr(client.__dict__)
    client.close()
