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

from perago.model import Attempt, ExecutionId

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
        self._render = structlog.dev.ConsoleRenderer(colors=True) if self._stream.isatty() else None

    def show(self, line: str, event: Mapping[str, Any]) -> None:
        shown = line if self._render is None else str(self._render(None, "", dict(event)))
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(shown + "\n")
            self._stream.flush()


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
