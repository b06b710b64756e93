"""Shared by watch and submit --watch: follow a run, show it, and choose the exit code."""

import contextlib
from collections.abc import Generator, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from perago import human_units
from perago.cli import _repository, _run_board
from perago.conductor.workflows import WorkflowClient
from perago.errors import TaskStatus
from perago.model import WorkflowId
from perago.operate import servers, watching
from perago.operate.run_state import Lanes, Row, RunReader, RunState, StepAttempt
from perago.settings import ConductorAccess
from perago.supervisor import status as worker_status
from perago.terminal import console

INTERRUPTED = 130
PATIENCE = 300.0
"""Seconds that Conductor may be away at a time, unless --wait says otherwise."""
Run = Annotated[
    str,
    typer.Argument(metavar="RUN", help="Its id, the beginning of it (8 characters or more), or last.", show_default=False),
]


class WatchExitCode(IntEnum):
    """As `perago run` has them; in addition to 1 (error) and 2 (wrong usage), which every command has."""

    COMPLETED = 0
    FAILED = 3
    FAILED_WITH_TERMINAL_ERROR = 4
    TIMED_OUT = 5
    TERMINATED = 6


@contextlib.contextmanager
def connected(access: ConductorAccess) -> Generator[WorkflowClient]:
    client = WorkflowClient(
        access.url, timeout=servers.TIMEOUTS.request, auth_key=access.auth_key, auth_secret=access.auth_secret
    )
    with contextlib.closing(client):
        yield client


def watch(client: WorkflowClient, run: WorkflowId, log_root: Path, *, patience: float, as_json: bool) -> WatchExitCode:
    """Follow the run until it ends; Ctrl-C stops watching and exits with 130."""
    reader = RunReader(client)
    try:
        with _repository.interruptible():
            if as_json:
                ended = watching.follow(reader, run, lambda _: None, _note, patience=patience)
            else:
                with _run_board.opened(phases_of(log_root)) as board:
                    ended = watching.follow(reader, run, board.show, board.note, patience=patience)
    except KeyboardInterrupt:
        _note(f"no longer watching; the run goes on. perago watch {run} shows it again, perago cancel {run} ends it")
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        console.write_json(document(ended))
    _explain(ended)
    return exit_code(ended)


def phases_of(log_root: Path) -> _run_board.Phases:
    """Phase and progress of the attempts that workers on this machine run, by task id."""

    def read() -> Mapping[str, str]:
        slots = [slot for worker in worker_status.running_workers(log_root) for slot in worker.state.get("slots", ())]
        attempts = [slot["attempt"] for slot in slots if slot.get("attempt")]
        return {str(one["task_id"]): f"{one['phase']} {one['progress']}".rstrip() for one in attempts}

    return read


def exit_code(run: RunState) -> WatchExitCode:
    """A run fails for good, as a task does, where no retry can help."""
    failure = run.failure
    if run.status == "FAILED" and failure is not None and failure.status == TaskStatus.FAILED_WITH_TERMINAL_ERROR:
        return WatchExitCode.FAILED_WITH_TERMINAL_ERROR
    return WatchExitCode[run.status] if run.status in WatchExitCode.__members__ else WatchExitCode.FAILED


def document(run: RunState) -> dict[str, Any]:
    """For scripts."""
    return {
        "run": run.id,
        "pipeline": run.name,
        "version": run.version,
        "status": run.status,
        "reason": run.reason or None,
        "started": moment(run.started),
        "seconds": round(run.seconds, 3),
        "output": dict(run.output),
        "steps": [_row(row) for row in run.rows],
    }


def moment(seconds: float) -> str | None:
    return human_units.show_moment(seconds) if seconds else None


def _row(row: Row) -> dict[str, Any]:
    if isinstance(row, Lanes):
        failures = [_attempt(one) for one in row.failures]
        place = {"step": row.step, "iteration": row.iteration or None, "depth": row.depth}
        return {**place, "lanes": dict(row.counts), "failures": failures}
    return _attempt(row)


def _attempt(one: StepAttempt) -> dict[str, Any]:
    return {
        "step": one.step,
        "iteration": one.iteration or None,
        "depth": one.depth,
        "attempt": one.attempt,
        "status": one.status,
        "seconds": round(one.seconds, 3),
        "commit": one.commit or None,
        "result": dict(one.result),
        "reason": one.reason or None,
        "task": one.task_type,
        "task_id": one.task_id,
        "workflow_id": one.workflow_id,
    }


def _note(line: str) -> None:
    console.stderr().print(line)


def _explain(run: RunState) -> None:
    """One line about a run that did not complete."""
    if run.status == WatchExitCode.COMPLETED.name:
        return
    failure = run.failure if run.status != WatchExitCode.TERMINATED.name else None
    why = run.reason if failure is None else f"step {failure.step}, attempt {failure.attempt}: {failure.reason or failure.status}"
    console.error(f"run {run.id} ended with {run.status}{': ' + why if why else ''}")
    if run.status != WatchExitCode.TERMINATED.name:
        _note(f"perago retry {run.id} runs the step that failed again")
