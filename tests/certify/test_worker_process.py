"""The processes of a worker under test: started, paused, killed, replaced, and seen through their proxies."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.fault_proxy import FaultProxy, HeldRequest, answer
from tests.support.waiting import eventually

from perago.certify import team as team_module
from perago.certify.team import Team
from perago.certify.verdict import NotReached
from perago.certify.waiting import Patience
from perago.certify.worker_process import WorkerCommand, WorkerProcess
from perago.errors import SetupError
from perago.model import LakeAccess, Repository
from perago.process import guardian
from perago.settings import ConductorAccess

POLLER = """
import json, os, time, urllib.request
base, lakefs = os.environ["CONDUCTOR_SERVER_URL"], os.environ["LAKECTL_SERVER_ENDPOINT_URL"]
while True:
    urllib.request.urlopen(base + "/tasks/poll/batch/" + os.environ["CERTIFY_TASK_TYPE"] + "?count=1").read()
    try:
        urllib.request.urlopen(urllib.request.Request(lakefs + "/api/v1/repositories/r/branches", b"{}")).read()
    except OSError:
        pass
    time.sleep(0.05)
"""


@pytest.fixture
def server() -> Iterator[FaultProxy]:
    """Answers every request as Conductor answers a poll when there is no task."""
    with FaultProxy() as upstream:
        upstream.on("", answer(200, b"[]"), times=100_000)
        yield upstream


def command_for(folder: Path, server: FaultProxy, *words: str) -> WorkerCommand:
    access = ConductorAccess(f"{server.url}/api", "key", "secret"), LakeAccess(server.url, "key", "secret")
    return WorkerCommand(words, "a-type", *access, folder, folder)


def poller(folder: Path) -> tuple[str, str]:
    script = folder / "poller.py"
    script.write_text(POLLER)
    return sys.executable, str(script)


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def sleeping(worker: WorkerProcess) -> list[int]:
    """Its two children when both execute `sleep`; empty before."""
    found = guardian.descendants(worker._child.pid)
    programs = [Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0] for pid in found]
    return found if programs == [b"sleep"] * 2 else []


def test_pause_stops_the_processes_that_the_worker_started(tmp_path: Path, server: FaultProxy) -> None:
    worker = WorkerProcess(command_for(tmp_path, server, "sh", "-c", "setsid sleep 100 & sleep 100"), "one", "d")
    try:
        # A child that is stopped before it has executed its program would keep its parent from being stopped.
        family = eventually(lambda: sleeping(worker), what="its two children")
        worker.pause()
        eventually(lambda: {state_of(pid) for pid in [worker._child.pid, *family]} == {"T"}, what="a stop of all")
        worker.go_on()
        eventually(lambda: "T" not in {state_of(pid) for pid in [worker._child.pid, *family]}, what="a continuation of all")
        worker.pause()
        worker.kill()
        assert not worker.is_running()
        eventually(lambda: not [pid for pid in family if Path(f"/proc/{pid}").exists()], what="the end of all")
    finally:
        worker.close()


def test_environment_has_the_settings_and_the_proxies(tmp_path: Path, server: FaultProxy) -> None:
    program = "import json, os; print(json.dumps(dict(os.environ)))"
    worker = WorkerProcess(command_for(tmp_path, server, sys.executable, "-c", program), "one", "d")
    try:
        eventually(lambda: not worker.is_running(), what="its end")
        given = json.loads(worker.log.read_text())
        assert given["CONDUCTOR_SERVER_URL"] == worker.conductor.url != f"{server.url}/api"
        assert given["CONDUCTOR_SERVER_URL"].endswith("/api")
        assert given["LAKECTL_SERVER_ENDPOINT_URL"] == worker.lakefs.url
        assert given["CERTIFY_TASK_TYPE"] == "a-type"
        assert given["CONDUCTOR_AUTH_SECRET"] == given["LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"] == "secret"
        with pytest.raises(SetupError, match="the worker ended with exit code 0 before it was stopped; its last output: "):
            worker.require_running()
    finally:
        worker.close()


def test_team_replaces_workers_that_ended_and_polls_in_one_domain(tmp_path: Path, server: FaultProxy) -> None:
    team = Team(command_for(tmp_path, server, *poller(tmp_path)), "team", "a-domain", Patience(60))
    try:
        team.ensure(2)
        first, second = team._workers
        first.kill()
        team.revive()
        assert second in team._workers
        assert first not in team._workers
        assert len(team._workers) == 2
        assert {seen.line for seen in server.requests("GET /api/tasks/poll/")} == {
            "GET /api/tasks/poll/batch/a-type?count=1&domain=a-domain"
        }
    finally:
        team.close()


def test_held_request_names_its_sender_and_is_dropped_at_the_end(tmp_path: Path, server: FaultProxy) -> None:
    team = Team(command_for(tmp_path, server, *poller(tmp_path)), "team", "d", Patience(60))
    try:
        team.ensure(1)
        held = HeldRequest()
        team.on_lakefs("POST .*/repositories/r/", held)
        assert team.until_held(held, "a write") is team._workers[0]
        team.until_quiet(Repository("r"))
        team.end_faults()
        assert held.passed.wait(10)
        assert held.dropped
    finally:
        team.close()


def test_worker_that_ends_again_and_again_is_given_up(
    tmp_path: Path, server: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(team_module, "_MOST_RESTARTS", 2)
    team = Team(command_for(tmp_path, server, *poller(tmp_path)), "team", "d", Patience(60))
    try:
        for _ in range(2):
            team.ensure(1)
            team._workers[0].log.write_text("out of memory\n")
            team._workers[0].kill()
        with pytest.raises(NotReached, match="the worker ended by itself again and again; its last output: out of memory"):
            team.ensure(1)
    finally:
        team.close()
