"""What a worker shows of itself: readiness, metrics and the status file, without a worker."""

import asyncio
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from tests.support.waiting import eventually

from perago.supervisor import status
from perago.supervisor.metrics import Metrics
from perago.supervisor.monitoring import Monitoring
from perago.supervisor.recorder import Recorder
from perago.supervisor.shutdown import Shutdown

LISTENING = "serving metrics and health checks"


def fetch(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def slot(*, can_run: bool = True, attempt: object = None) -> Any:
    return SimpleNamespace(can_run=can_run, attempt=attempt, describe=lambda: {"busy": attempt is not None})


def monitored(test: Callable[[Monitoring, Callable[[str], tuple[int, str]]], None], *slots: Any) -> None:
    """Run the test in a thread, beside the server that it asks."""

    async def serve() -> None:
        log, metrics = mock.Mock(), Metrics()
        made = Monitoring(["words"], list(slots), Shutdown(lambda: None), Recorder(metrics, log), metrics, log)
        async with made.health_server("127.0.0.1", 0):
            port = log.info.call_args.kwargs["port"]
            assert log.info.call_args.args == (LISTENING,)
            await asyncio.to_thread(test, made, lambda path: fetch(port, path))

    asyncio.run(serve())


def test_readiness_follows_the_worker_and_its_servers() -> None:
    def check(shown: Monitoring, get: Callable[[str], tuple[int, str]]) -> None:
        assert get("/readyz")[0] == 503
        assert "the worker is starting" in get("/readyz")[1]
        shown.is_serving = True
        assert get("/readyz")[0] == 200
        shown.recorder.lakefs_is_up = False
        assert get("/readyz")[0] == 200
        shown.all_need_lakefs = True
        assert "lakeFS does not respond" in get("/readyz")[1]
        shown.recorder.conductor_is_up = False
        assert "Conductor cannot be reached" in get("/readyz")[1]
        shown.shutdown.draining.get_loop().call_soon_threadsafe(shown.shutdown.drain)
        eventually(lambda: "the worker is stopping" in get("/readyz")[1])

    monitored(check, slot(can_run=False), slot())


def test_a_worker_without_executors_is_not_ready() -> None:
    def check(shown: Monitoring, get: Callable[[str], tuple[int, str]]) -> None:
        shown.is_serving = True
        assert "no executor is running" in get("/readyz")[1]

    monitored(check, slot(can_run=False))


def test_metrics_count_busy_slots() -> None:
    def check(shown: Monitoring, get: Callable[[str], tuple[int, str]]) -> None:
        assert shown.busy == 1
        lines = get("/metrics")[1].splitlines()
        assert {"perago_busy_slots 1.0", "perago_slots 2.0"} <= set(lines)

    monitored(check, slot(attempt="running"), slot())


def test_without_a_port_nothing_is_served() -> None:
    async def serve() -> None:
        log, metrics = mock.Mock(), Metrics()
        made = Monitoring([], [], Shutdown(lambda: None), Recorder(metrics, log), metrics, log)
        async with made.health_server("127.0.0.1", None):
            assert log.info.call_args is None

    asyncio.run(serve())


def test_the_status_file_is_written_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perago.supervisor.monitoring.STATUS_SECONDS", 0.01)

    def check(shown: Monitoring, get: Callable[[str], tuple[int, str]]) -> None:
        with closing(status.StatusFile(tmp_path)) as file:
            loop = shown.shutdown.draining.get_loop()
            writing = asyncio.run_coroutine_threadsafe(shown.write_status(file), loop)
            (worker,) = eventually(lambda: status.running_workers(tmp_path))
            assert (worker.state["state"], worker.state["modules"], worker.state["slots"]) == (
                "serving",
                ["words"],
                [{"busy": False}],
            )
            loop.call_soon_threadsafe(shown.shutdown.drain)
            eventually(lambda: status.running_workers(tmp_path)[0].state["state"] == "stopping")
            writing.cancel()
        assert status.all_workers(tmp_path) == []

    monitored(check, slot())
