"""`perago status`: shows the workers on this machine, their slots, attempts and recent outcomes."""

import time
from typing import Any

import typer

from perago.cli import _inputs
from perago.model import code_suffix
from perago.supervisor import logs
from perago.supervisor import status as worker_status
from perago.supervisor.status import WorkerState
from perago.terminal import console

_LATE_SECONDS = 5
"""Five missed updates of the status file."""


def status(as_json: _inputs.AsJson = False) -> None:
    """Show the workers on this machine that log under PERAGO_LOG_ROOT.

    One that died is shown for an hour. Exit codes: 0 at least one runs, 1 none does.
    """
    workers = worker_status.all_workers(_inputs.load_settings().perago_log_root)
    is_any_running = any(worker.is_running for worker in workers)
    if as_json:
        console.write_json([as_document(worker) for worker in workers])
    elif not is_any_running:
        console.stdout().print("no worker is running here")
    for worker in [] if as_json else workers:
        for line in lines(worker, time.time()):
            console.stdout().print(console.printable(line))
    raise typer.Exit(0 if is_any_running else 1)


def as_document(worker: WorkerState) -> dict[str, Any]:
    """The state as the worker wrote it, except that `state` is `died` for a worker whose process is gone."""
    state = worker.state if worker.is_running else {**worker.state, "state": "died"}
    return {**state, "age": round(worker.age, 1)}


def lines(worker: WorkerState, now: float) -> list[str]:
    state = worker.state
    slots = state["slots"] if worker.is_running else [slot for slot in state["slots"] if "attempt" in slot]
    return [
        f"worker {state['pid']} ({', '.join(state['modules'])}): {_condition(worker, now)}",
        *(_slot(slot) for slot in slots),
        *(_recent(one, now) for one in state["recent"]),
    ]


def _condition(worker: WorkerState, now: float) -> str:
    state = worker.state
    if not worker.is_running:
        return f"died {worker.age:.0f} s ago"
    conductor = "" if state["conductor_is_up"] else ", Conductor cannot be reached"
    lakefs = "" if state["lakefs_is_up"] else ", lakeFS does not respond"
    late = f", no update for {worker.age:.0f} s" if worker.age > _LATE_SECONDS else ""
    return f"{state['state']} for {now - state['started_at']:.0f} s{conductor}{lakefs}{late}"


def _slot(slot: dict[str, Any]) -> str:
    attempt: dict[str, Any] | None = slot.get("attempt")
    restarts = f", {slot['restarts']} restarts" if slot["restarts"] else ""
    if attempt is None:
        return f"  {slot['name']}  {slot['state']}{restarts}"
    progress = f" ({attempt['progress']})" if attempt["progress"] else ""
    what = f"{_task(attempt)} retry {attempt['retry_count']}{_data(attempt)}"
    return f"  {slot['name']}  {attempt['phase']}{progress} for {attempt['seconds']} s: {what}{restarts}"


def _recent(one: dict[str, Any], now: float) -> str:
    reason = f": {one['reason']}{code_suffix(one.get('code'))}" if one.get("reason") else ""
    when = f"{now - one['ended_at']:.0f} s ago"
    return f"  {when}  {_task(one)} {one['status']}, {one['delivery']}, {one['seconds']:.3f} s{_data(one)}{reason}"


def _task(one: dict[str, Any]) -> str:
    """With short ids; `--json` has the whole ones."""
    return f"{one['task_type']} {logs.short(one['task_id'])} of workflow {logs.short(one['workflow_id'])}"


def _data(one: dict[str, Any]) -> str:
    text = logs.data_text(one)
    return f", {text}" if text else ""
