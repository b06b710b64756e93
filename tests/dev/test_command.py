"""Output and files of `perago dev`, without servers."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from perago.cli import _env_file, dev
from perago.dev import data_directory
from perago.dev.stack import Endpoints
from perago.errors import DevStackError
from perago.provision.progress import InstallProgress
from perago.terminal import progress

ENDPOINTS = Endpoints("http://127.0.0.1:1/api", "http://127.0.0.1:2", "http://127.0.0.1:2", "KEY", "very-secret")
OTHERS = Endpoints("http://127.0.0.1:3/api", "http://127.0.0.1:4", "http://127.0.0.1:4", "KEY", "other-secret")
DATA = Path("/nowhere/perago-dev")


@pytest.mark.parametrize(
    ("news", "said"),
    [
        (InstallProgress("step", "compiled 3"), "compiled 3"),
        (InstallProgress("step", done=35_400_000), "35.4 MB"),
        (InstallProgress("step", done=0, total=457_760_812), "0 B of 458 MB"),
    ],
)
def test_bytes_are_said_where_they_are_counted(news: InstallProgress, said: str) -> None:
    assert progress.status_text(news) == said


def test_a_pipe_gets_one_line_when_a_step_begins_and_one_when_it_ends() -> None:
    out = io.StringIO()
    lines = progress._Lines(Console(file=out))
    for done in range(5):
        lines(InstallProgress("download", done=done, total=5))
    lines(InstallProgress("download", "transient error of the registry, trying again in 2 s", notice=True))
    lines(InstallProgress("download", finished=True))
    lines(InstallProgress("lakeFS", "healthy after 1.2 s", finished=True))
    assert out.getvalue().splitlines() == [
        "download",
        "download: transient error of the registry, trying again in 2 s",
        "download: done",
        "lakeFS: healthy after 1.2 s",
    ]


def test_an_env_file_is_made_for_its_owner_only(tmp_path: Path) -> None:
    _env_file.write(tmp_path / ".env", ENDPOINTS, DATA)
    assert (tmp_path / ".env").read_text() == (
        f"# perago dev (process {os.getpid()}, data in {DATA}) wrote the next lines\n"
        "CONDUCTOR_SERVER_URL=http://127.0.0.1:1/api\n"
        "LAKECTL_SERVER_ENDPOINT_URL=http://127.0.0.1:2\n"
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID=KEY\n"
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY=very-secret\n"
    )
    assert (tmp_path / ".env").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [".env"]


def test_other_lines_of_an_env_file_stay(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("# mine\nA=1\nexport CONDUCTOR_SERVER_URL=old\n\nLAKECTL_CREDENTIALS_ACCESS_KEY_ID = old\nB=2")
    _env_file.write(path, ENDPOINTS, DATA)
    assert path.read_text().splitlines()[:4] == ["# mine", "A=1", "", "B=2"]
    assert "old" not in path.read_text()
    _env_file.write(path, ENDPOINTS, DATA)
    assert path.read_text().count("CONDUCTOR_SERVER_URL") == 1


@pytest.mark.parametrize("name", ["missing/.env", "folder"])
def test_an_env_file_that_cannot_be_written_is_one_clear_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    for use in (_env_file.require_usable, lambda path: _env_file.write(path, ENDPOINTS, DATA)):
        with pytest.raises(DevStackError, match=f"cannot write {tmp_path / name}: ") as info:
            use(tmp_path / name)
        assert "very-secret" not in str(info.value)


@pytest.mark.parametrize("before", [None, "", "A=1\nexport CONDUCTOR_SERVER_URL=mine\n\nB=2"])
def test_an_env_file_is_as_before_when_the_servers_have_stopped(tmp_path: Path, before: str | None) -> None:
    path = tmp_path / ".env"
    if before is not None:
        path.write_text(before)
    with _env_file.written(path, ENDPOINTS, DATA):
        assert "CONDUCTOR_SERVER_URL=http://127.0.0.1:1/api" in path.read_text()
    assert (path.read_text() if path.exists() else None) == before
    assert len(list(tmp_path.iterdir())) == (before is not None)


def test_lines_that_somebody_changes_while_the_servers_run_stay(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("CONDUCTOR_SERVER_URL=mine\nLAKECTL_SERVER_ENDPOINT_URL=mine\n")
    with _env_file.written(path, ENDPOINTS, DATA):
        changed = path.read_text().replace("http://127.0.0.1:2", "http://other")
        path.write_text(f"NEW=1\n{changed}")
    assert path.read_text() == "NEW=1\nLAKECTL_SERVER_ENDPOINT_URL=http://other\nCONDUCTOR_SERVER_URL=mine\n"


def test_an_env_file_that_was_removed_stays_removed(tmp_path: Path) -> None:
    with _env_file.written(tmp_path / ".env", ENDPOINTS, DATA):
        (tmp_path / ".env").unlink()
    assert not list(tmp_path.iterdir())


def test_an_env_file_of_a_perago_dev_that_runs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    first = data_directory.acquire(tmp_path / "data")
    try:
        with _env_file.written(path, ENDPOINTS, first.path):
            text = path.read_text()
            refusal = rf"^{path} has the settings of a perago dev that runs \(process {os.getpid()}\); .* name another file$"
            with pytest.raises(DevStackError, match=refusal):
                _env_file.require_usable(path)
            with pytest.raises(DevStackError, match=refusal):
                _env_file.write(path, OTHERS, DATA)
            assert path.read_text() == text
    finally:
        first.close()
    assert not path.exists()


@pytest.mark.parametrize("before", [None, "A=1\n"])
def test_the_lines_of_a_killed_perago_dev_are_replaced_and_do_not_return(tmp_path: Path, before: str | None) -> None:
    path = tmp_path / ".env"
    if before is not None:
        path.write_text(before)
    killed = data_directory.acquire(tmp_path / "data")
    _env_file.write(path, ENDPOINTS, killed.path)
    killed.close()
    _env_file.require_usable(path)
    with _env_file.written(path, OTHERS, DATA):
        assert path.read_text().count("# perago dev") == 1
        assert "127.0.0.1:1/" not in path.read_text()
    assert (path.read_text() if path.exists() else None) == before


def test_one_data_directory_and_one_env_file_are_used_again_after_a_kill(tmp_path: Path) -> None:
    path, data = tmp_path / ".env", tmp_path / "data"
    path.write_text(f"{_env_file.Writer(2**22 + 1, data).line}\n")
    again = data_directory.acquire(data)
    try:
        with _env_file.written(path, ENDPOINTS, data):
            assert f"process {os.getpid()}" in path.read_text()
    finally:
        again.close()


def test_an_unreachable_server_of_a_killed_perago_dev_is_explained(tmp_path: Path) -> None:
    def runs() -> str:
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        command = [sys.executable, "-c", "from perago.cli import main; main.main()", "runs"]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False).stderr

    data = data_directory.acquire(tmp_path / "data")
    _env_file.write(tmp_path / ".env", ENDPOINTS, data.path)
    hint = " (.env has the address of a perago dev that no longer runs; start it again with perago dev --env-file .env)"
    assert hint not in runs()
    data.close()
    assert runs().endswith(f"{hint} [PG-530]\n")


def test_the_ready_text_has_every_address_and_a_block_to_paste() -> None:
    text = dev._as_text(ENDPOINTS)
    assert all(f"{name}={value}\n" in text for name, value in ENDPOINTS.environment().items())
    assert text.splitlines()[:3] == [
        "Conductor API       http://127.0.0.1:1/api",
        "lakeFS API          http://127.0.0.1:2",
        "lakeFS S3 gateway   http://127.0.0.1:2",
    ]
