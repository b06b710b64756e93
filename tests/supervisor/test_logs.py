"""Log files: one per process, rotated by size, deleted by age; a disk error costs lines and nothing else."""

import io
import json
import os
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from perago import errors, events
from perago.attempt import outcome
from perago.conductor import reporting
from perago.model import (
    Attempt,
    BranchName,
    CommitId,
    ExecutionId,
    Outcome,
    Repository,
    TaskId,
    TaskType,
    WorkerId,
    WorkflowId,
    WorkspaceRef,
)
from perago.supervisor import attempt_stats, logs, metrics, recorder


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


ATTEMPT = Attempt(
    WorkflowId("5f0c1d2e-3b4a"), TaskId("77aa88bb-1"), 0, "clean", 1, 0, TaskType("sales.clean"), WorkerId("w"), 0, 1
)
WORKSPACE = WorkspaceRef(Repository("sales"), BranchName("main"), CommitId("a" * 64))


def shown_on_a_terminal(tmp_path: Path, made: Outcome, delivery: reporting.Delivery, removed: str | None = None) -> str:
    """The line about an attempt, without its time and colours; JSON in the file."""
    stream = Terminal()
    log, file = log_files(tmp_path, stream).logger("w0001")
    stats = attempt_stats.AttemptStats(0.0)
    if removed is not None:
        stats.add(events.Removed(events.Removal.REPLACE, "main", removed, "b" * 64, "abandoned"))
    about = {**logs.of_origin(ATTEMPT, "monthly", WORKSPACE), **stats.summary(1.25)}
    ended = recorder.AttemptReported(ATTEMPT, ExecutionId("e"), "w0001", made, delivery, about, was_cancelled=False)
    recorder.Recorder(metrics.Metrics(), log).observe(ended)
    file.close()
    assert json.loads(next(tmp_path.rglob("*.jsonl")).read_text().splitlines()[0])["input_commit"] == "a" * 64
    return re.sub(r"\x1b\[\d*m", "", stream.getvalue())


def test_attempt_is_one_short_line_on_a_terminal(tmp_path: Path) -> None:
    published = outcome.completed(replace(WORKSPACE, ref=CommitId("b" * 64)), {})
    line = shown_on_a_terminal(tmp_path, published, reporting.Accepted(1), removed="c" * 64)
    assert re.fullmatch(
        r"\S+Z \[info +\] COMPLETED  sales.clean  step clean of workflow monthly 5f0c1d2e  "
        r"sales/main a{12} -> b{12} \(removed c{12}\)  1.2 s *\n",
        line,
    )


def test_failed_attempt_says_why_on_a_terminal(tmp_path: Path) -> None:
    refused = outcome.failed(errors.PublishFenceError("the branch \x1b[31m moved"))
    line = shown_on_a_terminal(tmp_path, refused, reporting.Superseded("the task is TIMED_OUT"))
    assert line.rstrip().endswith(
        "sales/main aaaaaaaaaaaa  1.2 s  superseded: the task is TIMED_OUT  the branch  [31m moved [PG-360]"
    )


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
