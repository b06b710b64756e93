"""A worker that cannot start prints one error line and exits with code 1, before it polls."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.support.fault_proxy import FaultProxy, cut
from tests.support.waiting import eventually
from tests.support.worker_harness import GROW, PLAIN, WorkerHarness

from perago.cli import commands, main

NO_LAKE: dict[str, Any] = {
    "LAKECTL_SERVER_ENDPOINT_URL": "",
    "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "",
    "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "",
}


AT_ONCE = ("--register", "--wait", "0")
ALWAYS = 10**9


def start_error(harness: WorkerHarness, *modules: str, options: tuple[str, ...] = ("--register",), **environ: Any) -> str:
    """The error line of a worker that could not start."""
    worker = harness.launch(*modules, options=options, **environ)
    assert worker.process.wait(60) == 1, worker.output.read_text()
    assert worker.survivors() == []
    return worker.output.read_text().splitlines()[-1]


def unused_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def test_missing_conductor_setting(harness: WorkerHarness) -> None:
    line = start_error(harness, PLAIN, CONDUCTOR_SERVER_URL="")
    assert line.startswith("error: CONDUCTOR_SERVER_URL is required for perago start; set it in ")


def test_missing_lakefs_settings_for_a_workspace_task(harness: WorkerHarness) -> None:
    line = start_error(harness, GROW, **NO_LAKE)
    assert line.startswith("error: LakeFS config is required for workspace tasks; set LAKECTL_SERVER_ENDPOINT_URL, ")


def test_workspace_free_task_runs_without_lakefs_settings(harness: WorkerHarness) -> None:
    harness.start(PLAIN, **NO_LAKE)
    assert harness.ended(harness.plain()) == "COMPLETED"


def test_unreachable_conductor(harness: WorkerHarness) -> None:
    address = f"{unused_address()}/api"
    assert start_error(harness, PLAIN, options=AT_ONCE, CONDUCTOR_SERVER_URL=address) == (
        f"error: Conductor at {address} does not answer GET /tasks/queue/polldata: Connection refused; "
        "is it running, and does CONDUCTOR_SERVER_URL name it? [PG-530]"
    )


def test_credentials_for_a_conductor_without_authentication(harness: WorkerHarness) -> None:
    line = start_error(harness, PLAIN, CONDUCTOR_AUTH_KEY="key-of-mine", CONDUCTOR_AUTH_SECRET="secret-of-mine")
    assert "unset them for a server without authentication" in line
    assert "of-mine" not in harness.workers[0].output.read_text()


def test_unreachable_lakefs(harness: WorkerHarness) -> None:
    line = start_error(harness, GROW, options=AT_ONCE, LAKECTL_SERVER_ENDPOINT_URL=unused_address())
    assert line.startswith("error: lakeFS cannot be used:")
    assert "does LAKECTL_SERVER_ENDPOINT_URL name it?" in line


def test_invalid_lakefs_address(harness: WorkerHarness) -> None:
    line = start_error(harness, GROW, LAKECTL_SERVER_ENDPOINT_URL=f"{unused_address()}/api")
    assert line.startswith("error: LAKECTL_SERVER_ENDPOINT_URL: the lakeFS address must be http(s)://host[:port]")


def test_wrong_lakefs_credentials(harness: WorkerHarness) -> None:
    line = start_error(harness, GROW, LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY="a-wrong-secret")
    assert line.startswith("error: lakeFS does not accept the credentials in LAKECTL_CREDENTIALS_*")
    assert "a-wrong-secret" not in harness.workers[0].output.read_text()


def test_unregistered_task(harness: WorkerHarness) -> None:
    line = start_error(harness, PLAIN, options=())
    assert line == (
        f"error: task {harness.prefix}.plain is not registered in Conductor; "
        f"run `perago register {PLAIN}` or start with --register [PG-120]"
    )


def test_missing_module(harness: WorkerHarness) -> None:
    line = start_error(harness, "tests.support.tasks.nothing")
    assert "no module 'tests.support.tasks.nothing'" in line
    assert line.endswith(" [PG-110]")


def test_module_that_exits_on_import(harness: WorkerHarness) -> None:
    harness.folder.mkdir()
    Path(harness.folder / "deadly.py").write_text("import os\nos._exit(9)\n")
    assert start_error(harness, "deadly") == "error: the first executor exited with code 9 while it imported the modules [PG-120]"


def test_metrics_port_in_use(harness: WorkerHarness) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert start_error(harness, PLAIN, options=("--register", "--metrics-port", port)) == (
            f"error: --metrics-port {port} on --metrics-host 127.0.0.1 cannot be used: Address already in use; "
            "choose another [PG-120]"
        )


@pytest.mark.parametrize("name", ["PERAGO_LOG_ROOT", "PERAGO_WORKSPACE_ROOT", "PERAGO_CACHE_ROOT"])
def test_unwritable_directory(harness: WorkerHarness, name: str) -> None:
    harness.folder.mkdir()
    (harness.folder / "file").touch()
    wrong = str(harness.folder / "file" / "below")
    changes: dict[str, Any] = {name: wrong}
    assert start_error(harness, GROW, **changes) == (
        f"error: {name} {wrong} cannot be written (Not a directory); set it to a directory that this user may write to [PG-120]"
    )


@pytest.mark.parametrize("options", [(), ("--register",)])
def test_address_that_is_not_conductor(harness: WorkerHarness, options: tuple[str, ...]) -> None:
    wrong = f"{harness.stack.conductor_url}/wrong"
    assert start_error(harness, PLAIN, options=options, CONDUCTOR_SERVER_URL=wrong) == (
        f"error: {wrong} does not answer as Conductor does; "
        "CONDUCTOR_SERVER_URL is its API, such as http://host:8080/api [PG-520]"
    )


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, typer.Abort])
def test_ctrl_c_during_start_shows_no_traceback(monkeypatch: pytest.MonkeyPatch, interruption: type[BaseException]) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise interruption

    monkeypatch.setattr(commands, "app", interrupted)
    with pytest.raises(SystemExit) as caught:
        main.main()
    assert caught.value.code == 130


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/nothing", "not an address"])
def test_wrong_setting_shows_no_traceback(harness: WorkerHarness, url: str) -> None:
    start_error(harness, PLAIN, options=AT_ONCE, CONDUCTOR_SERVER_URL=url)
    assert "Traceback" not in harness.workers[0].output.read_text()


def test_servers_that_come_up_later_are_waited_for(harness: WorkerHarness) -> None:
    with FaultProxy(harness.stack.conductor_url) as conductor, FaultProxy(harness.stack.lakefs_url) as lakefs:
        for proxy in (conductor, lakefs):
            proxy.on(".*", cut(), times=ALWAYS)
        worker = harness.launch(
            GROW,
            options=("--register", "--metrics-port", "0"),
            CONDUCTOR_SERVER_URL=conductor.url,
            LAKECTL_SERVER_ENDPOINT_URL=lakefs.url,
        )
        waiting = worker.until("waiting for Conductor")
        assert (waiting["level"], waiting["at_most"]) == ("warning", "1m")
        assert "is it running, and does CONDUCTOR_SERVER_URL name it?" in waiting["error"]
        asked = len(conductor.seen)
        eventually(lambda: len(conductor.seen) > asked, what="another request")
        assert (worker.fetch("/healthz")[0], worker.fetch("/readyz")[0]) == (200, 503)
        conductor.heal()
        worker.until("waiting for lakeFS")
        lakefs.heal()
        worker.until("worker started")
        assert [line["event"] for line in worker.lines() if "waiting" in line.get("event", "")] == [
            "waiting for Conductor",
            "waiting for lakeFS",
        ]
        eventually(lambda: worker.fetch("/readyz")[0] == 200)
        assert harness.ended(harness.grow(harness.seed())) == "COMPLETED"
        assert worker.stop() == 0


def test_wait_ends_with_the_error_and_at_once_with_a_signal(harness: WorkerHarness) -> None:
    address = f"{unused_address()}/api"
    limited = harness.launch(PLAIN, options=("--wait", "100ms"), CONDUCTOR_SERVER_URL=address)
    stopped = harness.launch(PLAIN, options=("--wait", "1h"), CONDUCTOR_SERVER_URL=address)
    stopped.until("waiting for Conductor")
    assert stopped.stop(within=5) == 0
    assert limited.process.wait(30) == 1
    assert limited.output.read_text().splitlines()[-1].endswith("does CONDUCTOR_SERVER_URL name it? [PG-530]")


def test_wait_that_is_not_a_duration(harness: WorkerHarness) -> None:
    worker = harness.launch(PLAIN, options=("--wait", "soon"))
    assert worker.process.wait(30) == 2
    assert "--wait: write a duration such as 30s, 15m, 24h or 30d" in worker.output.read_text()


def test_workers_of_one_module_have_different_names(harness: WorkerHarness) -> None:
    first, second = harness.start(PLAIN, PERAGO_WORKER_ID_PREFIX="gpu"), harness.start(PLAIN, PERAGO_WORKER_ID_PREFIX="gpu")
    assert first.said("worker started")[0]["worker_id"] == "gpu0000"
    assert second.said("worker started")[0]["worker_id"] == "gpu-2-0000"
    program = [sys.executable, "-c", "from perago.cli.main import main; main()", "status"]

    def shown() -> bool:
        status = subprocess.run(
            program, env=harness.environment(), cwd=harness.folder, capture_output=True, text=True, check=False, timeout=30
        )
        return {"gpu0001  idle", "gpu-2-0001  idle"} <= {line.strip() for line in status.stdout.splitlines()}

    eventually(shown, what="both names in perago status")
    names = {path.parent.name for path in (harness.logs / PLAIN).glob("*/*.jsonl")}
    assert {"worker_id=gpu0000", "worker_id=gpu-2-0000"} <= names
    assert first.stop() == 0
    # The name is free again.
    assert harness.start(PLAIN, PERAGO_WORKER_ID_PREFIX="gpu").said("worker started")[0]["worker_id"] == "gpu0000"


def test_default_roots_belong_to_the_user(harness: WorkerHarness) -> None:
    own = harness.folder / "tmp" / f"perago-{os.getuid()}"
    own.parent.mkdir(parents=True)
    roots: dict[str, Any] = dict.fromkeys(("PERAGO_LOG_ROOT", "PERAGO_WORKSPACE_ROOT", "PERAGO_CACHE_ROOT"), "")
    own.symlink_to(harness.folder)
    assert start_error(harness, GROW, TMPDIR=str(own.parent), **roots).startswith(
        f"error: {own} is not a directory of this user; remove it, or set PERAGO_WORKSPACE_ROOT"
    )
    own.unlink()
    harness.start(GROW, TMPDIR=str(own.parent), **roots)
    assert own.stat().st_mode & 0o777 == 0o700
    assert {"logs", "workspaces", "cache"} <= {path.name for path in own.iterdir()}
