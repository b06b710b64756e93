"""The parts of the demos: the report interceptor, the random kills, the data, and the output."""

import http.server
import json
import os
import random
import re
import signal
import socket
import struct
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
from examples.shop.report import Params, report, ticks
from rich.console import Console
from tests.support.waiting import eventually

from perago.demo import backfill, flights, screen, story
from perago.demo.random_kills import RandomKills
from perago.demo.report_interceptor import ReportInterceptor
from perago.demo.workers import DemoWorker, RunningAttempt
from perago.model import Commit, CommitId, MetaRangeId, TaskId, WorkflowId
from perago.operate.run_state import StepAttempt


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


def test_history_shows_attempts() -> None:
    commit = Commit(CommitId("abcdef0123456789"), (), MetaRangeId("m"), "shop.clean: clean", {"perago.attempt": "1"})
    console = Console(width=120, record=True)
    console.print(screen.history([commit]))
    assert re.search(r"abcdef012345 .* shop.clean: clean .* 2 ", console.export_text())


def step(name: str, status: str, commit: str, attempt: int = 1) -> StepAttempt:
    return StepAttempt(name, 0, attempt, 0, status, f"shop.{name}", TaskId("id"), WorkflowId("w"), 1.25, commit, {}, "")


def test_saved_report_tells_what_was_replaced() -> None:
    attempts = [
        step("clean", "COMPLETED", "1" * 64),
        step("features", "TIMED_OUT", ""),
        step("features", "COMPLETED", "2" * 64, attempt=2),
        step("gate", "COMPLETED", ""),
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


class IdleWorker(DemoWorker):
    """A worker that is never started; it remembers its kills."""

    def __init__(self, attempts: list[RunningAttempt]) -> None:
        self.name = "worker 1"
        self.attempts = attempts
        self.done: list[str] = []

    def running(self) -> list[RunningAttempt]:
        return self.attempts

    def kill(self) -> None:
        self.done.append("kill")

    def start(self) -> None:
        self.done.append("start")


def test_kills_happen_once_each_and_none_before_its_moment() -> None:
    worker = IdleWorker([])
    kills = RandomKills([worker], 20, 90, random.Random(1))
    said = [(number, line) for number in range(90) for line in kills.due(number)]
    moments = [number for number, _ in said]
    assert len(moments) == kills.workers == 20
    assert len(set(moments)) > 10, "they are spread"
    assert worker.done == ["kill", "start"] * 20
    assert list(kills.due(1000)) == []
    assert said[0][1] == "killed worker 1, which was idle; it is started again"


def test_an_executor_or_its_worker_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append((pid, number)))
    worker = IdleWorker([RunningAttempt(4711, WorkflowId("w"), "recompute_3", "body")])
    kills = RandomKills([worker], 40, 1, random.Random(1))
    lines = list(kills.due(0))
    assert set(lines) == {
        "killed an executor of worker 1 during recompute_3 (body)",
        "killed worker 1 during recompute_3; it is started again",
    }
    assert killed == [(4711, signal.SIGKILL)] * kills.executors
    assert kills.executors == 40 - kills.workers
    assert 10 < kills.executors < 30
    assert kills.abandoned == [WorkflowId("w")] * kills.workers


def test_an_executor_that_has_ended_meanwhile_is_no_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_pid: int, _number: int) -> None:
        raise ProcessLookupError

    monkeypatch.setattr(os, "kill", gone)
    kills = RandomKills([IdleWorker([RunningAttempt(4711, WorkflowId("w"), "a", "body")])], 10, 1, random.Random(1))
    assert len(list(kills.due(0))) == kills.workers == 10


def test_comparison_says_whether_it_is_extrapolated() -> None:
    assert backfill.comparison(5, 10.0, 5, 25.0) == [
        "Without kills, 5 days side by side and published once: 10.0 s.",
        "One after another, each published: 25.0 s (measured), 2.5 times as long.",
    ]
    assert backfill.comparison(90, 30.0, 10, 20.0)[1] == (
        "One after another, each published: 180.0 s (extrapolated from 10 days in 20.0 s), 6.0 times as long."
    )


def test_flights_are_split_by_day(tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    tables.mkdir()
    for table in ("airlines", "airports", "planes", "weather"):
        (tables / f"{table}.csv").write_text(f"{table}\n")
    with zipfile.ZipFile(tables / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", "year,month,day,x\n2013,1,2,a\n2013,1,1,b\n2013,12,31,c\n2013,1,2,d\n")
    flights.write(tables, tmp_path / "made", 2)
    by_day = {file.name: file.read_text() for file in (tmp_path / "made" / "raw" / "flights").iterdir()}
    header = "year,month,day,x\n"
    assert by_day == {"2013-01-01.csv": f"{header}2013,1,1,b\n", "2013-01-02.csv": f"{header}2013,1,2,a\n2013,1,2,d\n"}
    assert (tmp_path / "made" / "raw" / "weather.csv").read_text() == "weather\n"
