"""The parts of the demo: the report interceptor, the workflow, and the output."""

import http.server
import json
import re
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
from examples.shop.report import Params, report, ticks
from rich.console import Console
from tests.support.waiting import eventually

from perago.demo import pipeline, screen, story
from perago.demo.report_interceptor import ReportInterceptor
from perago.model import Commit, CommitId, MetaRangeId


class Upstream(http.server.BaseHTTPRequestHandler):
    """A server that answers with the request that it received."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = json.dumps({"path": self.path, "body": json.loads(body)}).encode()
        self.send_response(201)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def upstream() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/api"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("path", ["/tasks", "/tasks/update-v2"])
def test_interceptor_holds_back_one_report_and_forwards_the_rest(upstream: str, path: str) -> None:
    interceptor = ReportInterceptor(upstream, lambda update: update["status"] == "COMPLETED")
    pool = urllib3.PoolManager(retries=False, timeout=10)
    ended: list[type[BaseException]] = []

    def post(path: str, status: str) -> Any:
        answer = pool.request("POST", f"{interceptor.url}{path}", json={"status": status})
        return answer.status, json.loads(answer.data)

    def report() -> None:
        try:
            post(path, "COMPLETED")
        except urllib3.exceptions.HTTPError as error:
            ended.append(type(error))

    assert post("/tasks", "IN_PROGRESS") == (201, {"path": "/api/tasks", "body": {"status": "IN_PROGRESS"}})
    assert post("/workflow", "COMPLETED")[0] == 201
    held = threading.Thread(target=report)
    held.start()
    assert interceptor.caught.wait(10)
    assert not ended
    interceptor.released.set()
    held.join(10)
    assert ended == [urllib3.exceptions.ProtocolError]
    assert post("/tasks", "COMPLETED")[0] == 201, "only once"
    interceptor.close()
    pool.clear()


def test_connection_that_a_killed_worker_resets_prints_nothing(upstream: str, capfd: pytest.CaptureFixture[str]) -> None:
    interceptor = ReportInterceptor(upstream, lambda _update: False)
    address = ("127.0.0.1", int(interceptor.url.rpartition(":")[2].removesuffix("/api")))
    before = threading.active_count()
    with socket.create_connection(address) as worker:
        worker.sendall(b"POST /api/tasks HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
        assert worker.recv(4096).startswith(b"HTTP/1.1 201")
        # Closed with a reset, as the system does for a process that is killed with unread data.
        worker.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    eventually(lambda: threading.active_count() <= before, within=10)
    interceptor.close()
    assert capfd.readouterr().err == ""


class Recording(pipeline.JsonApi):
    def __init__(self) -> None:
        super().__init__("http://nowhere.invalid")
        self.sent: list[tuple[str, str, Any]] = []

    def call(self, method: str, path: str, body: object = None) -> Any:
        self.sent.append((method, path, body))
        return "id"


def test_each_step_gets_the_workspace_of_the_previous_one() -> None:
    api = Recording()
    assert pipeline.start(api, {"ref": "a"}, 0.5) == "id"
    tasks = api.sent[0][2][0]["tasks"]
    assert [task["name"] for task in tasks] == [f"shop.{step}" for step in pipeline.STEPS]
    given = [task["inputParameters"]["workspace"] for task in tasks]
    assert given == ["${workflow.input.workspace}", *(f"${{{step}.output.workspace}}" for step in pipeline.STEPS[:-1])]
    assert tasks[0]["inputParameters"]["params"] == {"scale": 0.5}
    assert tasks[4]["inputParameters"]["params"]["quarantined"] == "${clean.output.result.quarantined}"


def test_tables_show_attempts_and_history() -> None:
    done = pipeline.StepAttempt("clean", "1", "COMPLETED", 2.5, {"clean": 4894, "share": 0.5}, "c", "")
    lost = pipeline.StepAttempt("features", "2", "TIMED_OUT", 20.0, {}, "", "responseTimeout")
    again = pipeline.StepAttempt("features", "3", "IN_PROGRESS", 1.0, {}, "", "")
    workflow = pipeline.PipelineState("w", "RUNNING", "", (done, lost, again))
    commit = Commit(CommitId("abcdef0123456789"), (), MetaRangeId("m"), "shop.clean: clean", {"perago.attempt": "1"})
    console = Console(width=120, record=True)
    console.print(screen.steps(workflow, "body 3 of 8 tasks"), screen.history([commit]))
    text = console.export_text()
    for part in ("clean 4,894, share 0.50", "TIMED_OUT", "responseTimeout", "body 3 of 8 tasks", "abcdef012345", "waiting"):
        assert part in text


def step(name: str, status: str, commit: str) -> pipeline.StepAttempt:
    return pipeline.StepAttempt(name, "id", status, 1.25, {}, commit, "")


def test_saved_report_tells_what_was_replaced() -> None:
    attempts = [
        step("clean", "COMPLETED", "1" * 64),
        step("features", "TIMED_OUT", ""),
        step("features", "COMPLETED", "2" * 64),
        step("gate", "COMPLETED", "2" * 64),
    ]
    page = story.added("<html><main></main></html>\n", attempts, Commit(CommitId("dead" * 16), (), MetaRangeId("m"), "", {}))
    assert page.startswith("<html><main></main><style>")
    assert page.endswith("</section></html>\n")
    rows = [re.findall(r"<td>(.*?)</td>", row) for row in page.split("<tr>")[2:]]
    assert rows == [
        ["clean", "1", "COMPLETED", "1.2 s", "1" * 12, ""],
        ["features", "1", "TIMED_OUT", "1.2 s", "dead" * 3, f"worker killed, replaced by {'2' * 12}"],
        ["features", "2", "COMPLETED", "1.2 s", "2" * 12, ""],
        ["gate", "1", "COMPLETED", "1.2 s", "", "read-only"],
    ]


def test_charts_have_axis_values_units_and_sorted_bars(tmp_path: Path) -> None:
    tables = {
        "by_day": [("2026-01-01", 71_000.5), ("2026-01-02", 64_000), ("2026-01-03", 60_000)],
        "by_category": [("books", 1.0), ("toys", 3.0), ("music", 2.0)],
        "by_country": [("DE", 5.0)],
        "by_segment": [("a<b", 5.0)],
    }
    for name, rows in tables.items():
        (tmp_path / "summary" / name).mkdir(parents=True)
        lines = [f"{key},{value},1\n" for key, value in rows]
        (tmp_path / "summary" / name / "part.csv").write_text("".join(["key,revenue,rows\n", *lines]))
    report(tmp_path, Params())
    page = (tmp_path / "report" / "index.html").read_text()
    assert "Total revenue: 195,000.50 EUR" in page
    words = re.findall(r"<text[^>]*>(.*?)</text>", page)
    assert words[:8] == ["0", "20,000", "40,000", "60,000", "80,000", "2026-01-01", "2026-01-02", "2026-01-03"]
    assert "<figcaption>Revenue by day, EUR</figcaption>" in page
    assert words[8:14] == ["toys", "3 EUR", "music", "2 EUR", "books", "1 EUR"]
    assert "a&lt;b" in words


@pytest.mark.parametrize(("top", "shown"), [(0.0, [0]), (1, [0, 0.2, 0.4]), (79_000, [0, 20_000, 40_000, 60_000, 80_000])])
def test_ticks_are_round(top: float, shown: list[float]) -> None:
    assert ticks(top)[: len(shown)] == pytest.approx(shown)
    assert len(ticks(top)) <= 7
