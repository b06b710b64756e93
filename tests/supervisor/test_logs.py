"""Log files: one per process, rotated by size, deleted by age; a disk error costs lines and nothing else."""

import io
import json
import os
import time
from pathlib import Path

import pytest

from perago.supervisor import logs


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def log_files(root: Path, console: io.StringIO, max_size: int = 10**6, retention: float = 3600) -> logs.LogFiles:
    return logs.LogFiles(root, max_size, retention, logs.Console(console))


def test_lines_are_json_in_the_file_of_the_worker(tmp_path: Path) -> None:
    log, file = log_files(tmp_path, io.StringIO()).logger("build0001", 77)
    log.info("attempt", task_id="t1", text='with "quotes"\nand ü')
    file.close()
    (path,) = tmp_path.glob("worker_id=build0001/*.jsonl")
    assert "-77-" in path.name
    line = json.loads(path.read_text())
    assert (line["event"], line["level"], line["worker_id"], line["task_id"]) == ("attempt", "info", "build0001", "t1")
    assert line["text"] == 'with "quotes"\nand ü'
    assert line["timestamp"].endswith("Z")


def test_pipe_gets_json_and_terminal_gets_text(tmp_path: Path) -> None:
    piped, shown = io.StringIO(), Terminal()
    for number, stream in enumerate((piped, shown)):
        log, file = log_files(tmp_path / str(number), stream).logger("w0001")
        log.warning("slow", seconds=3)
        file.close()
    assert json.loads(piped.getvalue())["event"] == "slow"
    assert "slow" in shown.getvalue()
    assert not shown.getvalue().startswith("{")


def test_debug_lines_go_to_the_file_only(tmp_path: Path) -> None:
    stream = io.StringIO()
    log, file = log_files(tmp_path, stream).logger("w0001")
    log.debug("detail")
    file.close()
    assert stream.getvalue() == ""
    assert "detail" in next(tmp_path.rglob("*.jsonl")).read_text()


def test_files_are_rotated_by_size_without_losing_lines(tmp_path: Path) -> None:
    log, file = log_files(tmp_path, io.StringIO(), max_size=2000).logger("w0001")
    for number in range(100):
        log.info("line", number=number)
    file.close()
    paths = sorted(tmp_path.rglob("*.jsonl"), key=lambda path: int(path.stem.rpartition("-")[2]))
    assert len(paths) > 3
    assert max(path.stat().st_size for path in paths) < 2300
    assert [json.loads(line)["number"] for path in paths for line in path.read_text().splitlines()] == list(range(100))


def test_old_files_are_deleted_and_others_kept(tmp_path: Path) -> None:
    directory = tmp_path / "worker_id=w0001"
    directory.mkdir()
    for name, age in (("old.jsonl", 7200), ("young.jsonl", 60), ("other.txt", 7200)):
        (directory / name).touch()
        os.utime(directory / name, (time.time() - age, time.time() - age))
    log, file = log_files(tmp_path, io.StringIO(), retention=3600).logger("w0001")
    log.info("now")
    file.close()
    assert not (directory / "old.jsonl").exists()
    assert {"young.jsonl", "other.txt"} < {path.name for path in directory.iterdir()}


def test_unwritable_directory_is_reported_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "worker_id=w0001").write_text("a file where the directory should be")
    stream = io.StringIO()
    log, file = log_files(tmp_path, stream).logger("w0001")
    log.info("one")
    log.info("two")
    file.close()
    assert len(stream.getvalue().splitlines()) == 2
    assert capsys.readouterr().err.count("cannot write logs") == 1
