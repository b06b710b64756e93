"""Real servers from the artifact cache: started, killed, started again and stopped."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.waiting import eventually
from tests.support.worker_harness import alive, children

from perago.dev import data_directory
from perago.dev.stack import Endpoints, Stack, StackOptions
from perago.errors import DevStackError
from perago.provision import artifact_cache

PERAGO = str(Path(sys.executable).with_name("perago"))


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def call(url: str, keys: dict[str, Any], body: object = None) -> Any:
    login = urllib.request.HTTPPasswordMgrWithPriorAuth()
    login.add_password(None, url, keys["access_key_id"], keys["secret_access_key"], is_authenticated=True)
    opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(login))
    data = None if body is None else json.dumps(body).encode()
    with opener.open(urllib.request.Request(url, data, {"Content-Type": "application/json"}), timeout=10) as answer:
        return json.loads(answer.read())


@contextmanager
def perago_dev(*arguments: str, temp: Path, **env: str) -> Generator[subprocess.Popen[str]]:
    """The command in its own process; killed at the end of the test, which must end the servers too."""
    process = subprocess.Popen(
        [PERAGO, "dev", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(temp), "HOME": str(temp), "PERAGO_CACHE_DIR": str(artifact_cache.default_root())} | env,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def ready(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    return json.loads(line)


def errors(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("error:")]


@pytest.fixture
def temp(tmp_path: Path) -> Path:
    directory = tmp_path / "tmp"
    directory.mkdir()
    return directory


@pytest.mark.timeout(300)
def test_servers_can_be_used_from_a_script_and_keep_their_state(installed_servers: None, tmp_path: Path, temp: Path) -> None:
    data, env_file = tmp_path / "data", tmp_path / ".env"
    env_file.write_text("MINE=1\nCONDUCTOR_SERVER_URL=old\n")
    with perago_dev("--json", "--data-dir", str(data), "--env-file", str(env_file), temp=temp) as process:
        first = ready(process)
        assert '"healthy":true' in get(first["conductor_url"].removesuffix("/api") + "/health")
        assert get(first["lakefs_url"] + "/_health").startswith("alive")
        call(f"{first['lakefs_url']}/api/v1/repositories", first, {"name": "kept", "storage_namespace": "local://kept"})
        written = env_file.read_text().splitlines()
        settings = [f"{name}={value}" for name, value in first["environment"].items()]
        assert written == ["MINE=1", f"# perago dev (process {process.pid}, data in {data}) wrote the next lines", *settings]
        assert (env_file.stat().st_mode & 0o777, (data / "credentials.json").stat().st_mode & 0o777) == (0o600, 0o600)

        process.send_signal(signal.SIGTERM)
        rest, said = process.communicate(timeout=30)
        assert (process.returncode, rest, errors(said)) == (0, "", [])
    assert env_file.read_text() == "MINE=1\nCONDUCTOR_SERVER_URL=old\n"
    assert not alive(first["conductor_pid"])
    assert not alive(first["lakefs_pid"])

    with perago_dev("--json", "--data-dir", str(data), temp=temp) as process:
        second = ready(process)
        assert second["secret_access_key"] == first["secret_access_key"]
        assert call(f"{second['lakefs_url']}/api/v1/repositories/kept", second)["id"] == "kept"

        os.kill(second["conductor_pid"], signal.SIGKILL)
        began = time.monotonic()
        _, said = process.communicate(timeout=30)
        assert time.monotonic() - began < 10
        assert process.returncode == 1
        assert errors(said) == [f"error: Conductor 3.32.3 was killed by SIGKILL (9); log: {data / 'conductor.log'} [PG-140]"]
    assert not alive(second["lakefs_pid"])
    assert not list(temp.iterdir())


def test_servers_end_when_the_command_is_killed(installed_servers: None, temp: Path) -> None:
    """At once after it has started them: they need not be ready for that."""
    with perago_dev("--json", temp=temp) as process:
        servers = eventually(lambda: both_servers(process.pid), within=60, what="two servers")
        assert [path.name.partition("-dev-")[0] for path in temp.iterdir()] == ["perago"]
        process.kill()
        eventually(lambda: not any(map(alive, servers)), within=5)
    eventually(lambda: not list(temp.iterdir()), within=5)


def both_servers(command: int) -> list[int]:
    """The processes below its guardians, once both servers run."""
    found = [pid for guardian in children(command) for pid in children(guardian)]
    return found if len(found) == 2 else []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [pytest.param("conductor", marks=pytest.mark.chaos), "lakefs"])
def test_killed_server_is_noticed_within_two_seconds_and_can_be_restarted(own_stack: Stack, name: str) -> None:
    before = own_stack.endpoints
    server = getattr(own_stack, name)
    pid = server.pid
    os.kill(pid, signal.SIGKILL)
    began = time.monotonic()
    with pytest.raises(DevStackError, match=f"{server.name} was killed by SIGKILL \\(9\\); log: ") as info:
        own_stack.watch()
    assert time.monotonic() - began < 2.0
    kept = Path(str(info.value).rpartition("log: ")[2])
    assert kept.stat().st_size > 0
    kept.unlink()

    server.start()
    assert server.pid != pid
    assert own_stack.endpoints == before
    assert get(before.conductor_url.removesuffix("/api") + "/health")
    assert get(before.lakefs_url + "/_health")


def test_running_stack_cannot_be_started_again(own_stack: Stack) -> None:
    pid = own_stack.conductor.pid
    with pytest.raises(DevStackError, match="are running already"):
        own_stack.start()
    with pytest.raises(DevStackError, match=r"Conductor .* runs already"):
        own_stack.conductor.start()
    assert alive(pid)


def test_repr_does_not_contain_the_secret(own_stack: Stack) -> None:
    assert own_stack.secret_access_key not in repr(own_stack.endpoints)
    assert own_stack.secret_access_key not in repr(own_stack)
    assert Endpoints.from_json(own_stack.endpoints.to_json()) == own_stack.endpoints


def test_servers_listen_on_loopback_only(own_stack: Stack) -> None:
    with socket.socket() as elsewhere:
        # The same port on another address of this machine is free, so nothing listens on all of them.
        elsewhere.bind(("127.0.0.2", own_stack.lakefs.port))
    with socket.socket() as elsewhere:
        elsewhere.bind(("127.0.0.2", own_stack.conductor.port))


@pytest.mark.parametrize("option", ["--conductor-port", "--lakefs-port"])
def test_port_in_use_is_reported(temp: Path, option: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with perago_dev(option, str(port), temp=temp) as process:
            out, said = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    name = "Conductor" if "conductor" in option else "lakeFS"
    assert said.splitlines() == [
        f"error: port {port} for {name} is in use; stop what uses it or choose another with {option} [PG-140]"
    ]
    assert not list(temp.iterdir())


def test_same_port_for_both_servers_is_refused() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(DevStackError, match=f"cannot both use port {port}"):
        Stack(StackOptions(conductor_port=port, lakefs_port=port)).start()


def test_data_directory_in_use_is_reported(tmp_path: Path, temp: Path) -> None:
    held = data_directory.acquire(tmp_path / "data")
    try:
        with perago_dev("--data-dir", str(tmp_path / "data"), temp=temp) as process:
            _, said = process.communicate(timeout=60)
    finally:
        held.close()
    assert process.returncode == 1
    owner = f"another perago dev (process {os.getpid()})"
    assert said == f"error: the data directory {tmp_path / 'data'} is in use by {owner}; stop it or name another [PG-140]\n"


def test_unusable_env_file_is_reported_before_anything_starts(tmp_path: Path, temp: Path) -> None:
    path = tmp_path / "missing" / ".env"
    with perago_dev("--env-file", str(path), temp=temp, PERAGO_CACHE_DIR=str(tmp_path / "cache")) as process:
        out, said = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert said == f"error: cannot write {path}: its directory does not exist [PG-140]\n"
    assert not (tmp_path / "cache").exists()


def test_unwritable_cache_directory_is_reported(tmp_path: Path, temp: Path) -> None:
    (tmp_path / "file").touch()
    with perago_dev(temp=temp, PERAGO_CACHE_DIR=str(tmp_path / "file" / "cache")) as process:
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert len(errors(said)) == 1
    assert "cannot write to the cache directory" in said
    assert not list(temp.iterdir())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stop_during_build_leaves_no_process_and_no_artifact(tmp_path: Path, temp: Path, number: signal.Signals) -> None:
    tools, store = tmp_path / "tools", tmp_path / "cache"
    tools.mkdir()
    version = '[ "$1" = version ] && echo go version go1.26.8 linux/amd64 && exit'
    (tools / "go").write_text(f"#!/bin/sh\n{version}\necho $$ > {tmp_path}/pid\nsleep 600 & wait\n")
    (tools / "go").chmod(0o755)
    with perago_dev("--json", temp=temp, PERAGO_CACHE_DIR=str(store), PATH=f"{tools}:{os.environ['PATH']}") as process:
        eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith("\n"), within=60)
        builder = int((tmp_path / "pid").read_text())
        process.send_signal(number)
        out, said = process.communicate(timeout=30)
    assert (process.returncode, out, errors(said)) == (128 + number, "", [])
    assert not alive(builder)
    assert not list((store / "work").iterdir())
    assert not (store / "artifacts").exists()
    assert not list(temp.iterdir())
