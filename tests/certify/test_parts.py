"""The parts of `perago certify` that need no server: which requests it recognises, and how it isolates workers."""

import re
import threading

import pytest
import urllib3
from tests.support import manual
from tests.support.fault_proxy import FaultProxy, HeldRequest, answer

from perago.certify import catalog, contract, team, worker_process
from perago.certify.verdict import Interrupted, NotReached
from perago.certify.waiting import Patience
from perago.cli import commands
from perago.fault_proxy.messages import Message
from perago.model import BranchName, Repository

REPOSITORY = Repository("certify-1-x")
API = f"/api/v1/repositories/{REPOSITORY}"


@pytest.mark.parametrize(
    ("request_line", "publishes"),
    [
        (f"POST {API}/refs/perago-staging-1/merge/target", True),
        (f"POST {API}/refs/target/merge/target", False),
        (f"POST {API}/refs/perago-staging-1/merge/target-2", False),
        (f"GET {API}/refs/perago-staging-1/merge/target", False),
        (f"PUT {API}/branches/target/hard_reset?ref=perago-staging-1", True),
        (f"PUT {API}/branches/other/hard_reset?ref=target", False),
        (f"POST {API}/branches/target/commits", True),
        (f"POST {API}/branches/staging/commits", False),
        (f"POST {API}/branches/target/revert", True),
        ("POST /api/v1/repositories/another/branches/target/commits", False),
    ],
)
def test_publish_requests_are_those_that_move_the_branch(request_line: str, publishes: bool) -> None:
    assert bool(re.match(team.publishing(REPOSITORY, BranchName("target")), request_line)) is publishes


@pytest.mark.parametrize(
    ("request_line", "writes"),
    [
        (f"POST {API}/branches", True),
        (f"DELETE {API}/branches/x", True),
        (f"PUT /{REPOSITORY}/branch/object", True),
        (f"GET {API}/branches", False),
        (f"HEAD {API}/branches", False),
        (f"POST /api/v1/repositories/{REPOSITORY}-2/branches", False),
    ],
)
def test_writes_to_a_repository(request_line: str, writes: bool) -> None:
    assert bool(re.match(team.writing(REPOSITORY), request_line)) is writes


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("GET /api/tasks/poll/batch/t?count=1&timeout=5", "GET /api/tasks/poll/batch/t?count=1&timeout=5&domain=d"),
        ("GET /api/tasks/poll/t", "GET /api/tasks/poll/t?domain=d"),
        ("GET /api/tasks/poll/batch/t?domain=other&count=1", "GET /api/tasks/poll/batch/t?count=1&domain=d"),
        ("GET /api/tasks/poll/batch/t?count=1&domain=other", "GET /api/tasks/poll/batch/t?count=1&domain=d"),
        ("POST /api/tasks", "POST /api/tasks"),
        ("GET /api/tasks/queue/polldata?taskType=t", "GET /api/tasks/queue/polldata?taskType=t"),
    ],
)
def test_polls_get_the_domain_of_their_worker(given: str, sent: str) -> None:
    amended = worker_process._domain_adder("d")(Message(f"{given} HTTP/1.1\r\nHost: x\r\n\r\n".encode(), b"body"))
    assert amended == Message(f"{sent} HTTP/1.1\r\nHost: x\r\n\r\n".encode(), b"body")


@pytest.mark.parametrize(
    ("output", "commit"),
    [({"workspace": {"ref": "c"}}, "c"), ({"workspace": "c"}, None), ({"workspace": {"ref": 7}}, None), ({}, None), (None, None)],
)
def test_commit_of_an_output(output: object, commit: str | None) -> None:
    assert contract.accepted_commit({"outputData": output}) == commit


def test_every_scenario_has_a_name_and_says_what_is_tried() -> None:
    names = catalog.names()
    assert len(names) == len(set(names)) > 20
    assert all(scenario.attempted.endswith(".") for scenario in catalog.scenarios())


def test_manual_lists_the_scenarios() -> None:
    rows = manual.rows(manual.DOCS / "how-to" / "certify-a-worker.md", "The scenarios")[1:]
    assert [row[0].strip("`") for row in rows] == catalog.names()


def test_manual_names_the_variables_of_the_worker() -> None:
    page = (manual.DOCS / "how-to" / "certify-a-worker.md").read_text()
    assert f"`{contract.TASK_TYPE_VARIABLE}`" in page
    assert f"`{contract.DEFAULT_TASK_TYPE}`" in page
    seconds = f"{contract.SHORT_RESPONSE_SECONDS} or {contract.LONG_RESPONSE_SECONDS} seconds"
    assert seconds in " ".join(page.split())


def test_wait_ends_with_its_deadline_the_limit_of_the_run_or_a_stop() -> None:
    with pytest.raises(NotReached, match="the poll did not come within 0 s"):
        Patience(60).until(lambda: False, "the poll", within=0)
    with pytest.raises(NotReached, match="the time limit of the run was over before the poll"):
        Patience(0).until(lambda: False, "the poll")
    stopped = Patience(60)
    stopped.stopped.set()
    with pytest.raises(Interrupted):
        stopped.until(lambda: False, "the poll")
    assert not Patience(60).has_come(lambda: False, 0)


def test_held_request_is_one_of_several_and_may_be_dropped() -> None:
    """The first that arrives is held, whichever proxy it comes to; the others pass."""
    held, pool = HeldRequest(), urllib3.PoolManager(retries=False, timeout=10)
    failed: list[type[BaseException]] = []
    with FaultProxy() as upstream, FaultProxy(upstream.url) as one, FaultProxy(upstream.url) as other:
        upstream.on("GET /", answer(200, b"ok"), times=9)
        for proxy in (one, other):
            proxy.on("GET /", held, times=9)

        def ask() -> None:
            try:
                pool.request("GET", f"{one.url}/first")
            except urllib3.exceptions.HTTPError as error:
                failed.append(type(error))

        asking = threading.Thread(target=ask)
        asking.start()
        assert held.reached.wait(10)
        assert held.proxy is one
        assert pool.request("GET", f"{other.url}/second").data == b"ok"
        held.drop()
        asking.join(10)
        assert failed == [urllib3.exceptions.ProtocolError]
        assert [seen.line for seen in upstream.seen] == ["GET /second"]
    pool.clear()


def test_proxy_names_the_upstream_as_host_unless_the_request_is_signed() -> None:
    hosts: list[bytes] = []
    pool = urllib3.PoolManager(retries=False, timeout=10)
    with FaultProxy(amend=lambda request: hosts.append(request.head) or request) as upstream, FaultProxy(upstream.url) as proxy:
        upstream.on("GET /", answer(200), times=2)
        pool.request("GET", f"{proxy.url}/plain")
        pool.request("GET", f"{proxy.url}/signed", headers={"Authorization": "AWS4-HMAC-SHA256 x"})
        here, there = (url.removeprefix("http://").encode() for url in (proxy.url, upstream.url))
    assert b"Host: " + there in hosts[0]
    assert b"Host: " + here in hosts[1]
    pool.clear()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--worker", "no-such-program -x"], "there is no program 'no-such-program' on PATH"),
        (["--worker", "'unclosed"], "is not a command line: No closing quotation"),
        (["--worker", "''"], "it is empty; write the command that starts your worker"),
        (
            ["--worker", "true", "--only", "no-such-scenario"],
            "there is no scenario 'no-such-scenario'; there are plain-publication,",
        ),
        (["--worker", "true", "--time-limit", "soon"], "--time-limit"),
        (["--worker", "true", "--task", "two words"], "--task"),
        (["--worker", "true", "--storage-namespace", "s3://x"], "only for --configured-servers"),
        (["--worker", "true", "--log-dir", "/proc/nowhere"], "--log-dir: /proc/nowhere cannot be made"),
        ([], "missing option '--worker'"),
    ],
)
def test_wrong_usage_is_one_line_before_anything_starts(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.run(["certify", *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
