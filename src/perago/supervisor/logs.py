"""JSON lines, one file per process, rotated by size and age; readable lines on a terminal, JSON on a pipe."""

import contextlib
import json
import os
import sys
import time
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import structlog

from perago.model import Attempt, ExecutionId, Outcome, WorkspaceRef, code_suffix

Logger = Any
"""The type of structlog's bound loggers is determined at run time."""


def of_attempt(attempt: Attempt, execution_id: ExecutionId) -> dict[str, Any]:
    """The fields of every line about an attempt."""
    return {
        "task_type": attempt.task_type,
        "workflow_id": attempt.workflow_id,
        "task_id": attempt.task_id,
        "retry_count": attempt.retry_count,
        "execution_id": execution_id,
    }


def of_origin(attempt: Attempt, workflow_name: str, workspace: WorkspaceRef | None) -> dict[str, str]:
    """The step of the workflow, and the data that it starts from, for the summary line."""
    about = {"workflow_name": workflow_name, "step": attempt.reference_name}
    if workspace is not None:
        about |= {"repository": workspace.repository, "branch": workspace.branch, "input_commit": workspace.ref}
    return about


def of_outcome(outcome: Outcome) -> dict[str, str]:
    """The commit of the output, or why there is none, for the summary line."""
    found = {"error": outcome.error, "code": outcome.code, "reason": outcome.reason}
    match outcome.output:
        case {"workspace": {"ref": str(ref)}}:
            found["output_commit"] = ref
        case _:
            pass
    return {name: value for name, value in found.items() if value is not None}


def short(identifier: str) -> str:
    """The first part of a UUID, or the first characters of a commit id; lakeFS finds a commit by these."""
    return identifier.partition("-")[0][:12]


def attempt_line(line: Mapping[str, Any]) -> str:
    """The summary of an attempt for a terminal: step, data, time, and the reason if it failed."""
    parts = [
        str(line["status"]),
        str(line["task_type"]),
        f"step {line['step']} of workflow {line['workflow_name']} {short(line['workflow_id'])}",
        data_text(line),
        f"{line['seconds']:.1f} s",
    ]
    text = "  ".join(part for part in parts if part)
    if line["delivery"] != "accepted":
        text += f"  {line['delivery']}: {line.get('delivery_reason', '')}"
    if "reason" in line:
        text += f"  {line['reason']}{code_suffix(line.get('code'))}"
    return "".join(char if char.isprintable() else " " for char in text)


def data_text(line: Mapping[str, Any]) -> str:
    """`sales/main 1a2b3c -> 4d5e6f`; empty for a task without a workspace."""
    if "repository" not in line:
        return ""
    text = f"{line['repository']}/{line['branch']} {short(line['input_commit'])}"
    if "output_commit" in line:
        text += f" -> {short(line['output_commit'])}"
    if removed := line.get("removed_commits"):
        text += f" (removed {', '.join(map(short, removed))})"
    return text


@dataclass
class LogFile:
    """The log file of one process. If it cannot be written, lines are lost and the worker continues."""

    directory: Path
    pid: int
    max_size: int
    retention: float
    _file: TextIO | None = field(default=None, init=False)
    _size: int = field(default=0, init=False)
    _part: int = field(default=0, init=False)
    _error_was_shown: bool = field(default=False, init=False)

    def write(self, line: str) -> None:
        try:
            file = self._open()
            self._size += file.write(line + "\n")
            file.flush()
        except OSError as error:
            self._show_error(error)
        if self._size >= self.max_size:
            self.close()

    def close(self) -> None:
        file, self._file, self._size = self._file, None, 0
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()

    def _open(self) -> TextIO:
        if self._file is None:
            self.directory.mkdir(parents=True, exist_ok=True)
            delete_old(self.directory, self.retention)
            stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
            self._part += 1
            # Process ids are reused, times are not: two processes never share a file.
            path = self.directory / f"{stamp}-{self.pid}-{self._part}.jsonl"
            self._file = path.open("a", encoding="utf-8", errors="backslashreplace")
        return self._file

    def _show_error(self, error: OSError) -> None:
        if not self._error_was_shown:
            self._error_was_shown = True
            sys.stderr.write(f"perago: cannot write logs to {self.directory}: {error.strerror}\n")


def delete_old(directory: Path, retention: float) -> None:
    oldest = time.time() - retention
    for path in directory.glob("*.jsonl"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < oldest:
                path.unlink()


class Console:
    """Writes to stderr: readable lines on a terminal, JSON otherwise."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._renderer = structlog.dev.ConsoleRenderer(colors=True) if self._stream.isatty() else None

    def show(self, line: str, event: Mapping[str, Any]) -> None:
        shown = line if self._renderer is None else self._readable(self._renderer, event)
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(shown + "\n")
            self._stream.flush()

    def _readable(self, render: structlog.dev.ConsoleRenderer, event: Mapping[str, Any]) -> str:
        shown = {name: event[name] for name in ("timestamp", "level", "event")}
        match event["event"]:
            case "attempt":
                shown["event"] = attempt_line(event)
            case "traceback":
                shown["event"] = f"traceback of task {event['task_id']}\n{event['text']}"
            case _:
                shown = dict(event)
        return str(render(None, "", shown))


@dataclass(frozen=True, slots=True)
class LogFiles:
    """Creates the loggers of a worker's processes, one file each."""

    root: Path
    max_size: int
    retention: float
    console: Console

    def logger(self, worker_id: str, pid: int | None = None) -> tuple[Logger, LogFile]:
        file = LogFile(self.root / f"worker_id={worker_id}", os.getpid() if pid is None else pid, self.max_size, self.retention)

        def write(logger: object, name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
            del logger, name
            line = json.dumps(event, default=str, ensure_ascii=False)
            file.write(line)
            if event.get("level") != "debug":
                self.console.show(line, event)
            raise structlog.DropEvent

        made = structlog.wrap_logger(
            None,
            processors=[structlog.processors.add_log_level, structlog.processors.TimeStamper(fmt="iso", utc=True), write],
            wrapper_class=structlog.make_filtering_bound_logger(0),
            cache_logger_on_first_use=False,
        )
        return made.bind(worker_id=worker_id), file
