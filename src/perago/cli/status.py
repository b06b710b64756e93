"""`perago status`: shows the workers on this machine, their slots, attempts and recent outcomes."""

import time
from typing import Any

import typer

from perago.cli import _inputs
from perago.supervisor import status as worker_status
from perago.terminal import console

_LATE_SECONDS = 5
"""Five missed updates of the status file."""


def status(as_json: _inputs.AsJson = False) -> None:
    """Show the workers on this machine that log under PERAGO_LOG_ROOT.

    Exit codes: 0 at least one runs, 1 none does.
    """
    workers = worker_status.running_workers(_inputs.load_settings().perago_log_root)
    if as_json:
        console.write_json([{**worker.state, "age": round(worker.age, 1)} for worker in workers])
    elif not workers:
        console.stdout().print("no worker is running here")
    for worker in [] if as_json else workers:
        for line in lines(worker.state, worker.age, time.time()):
            console.stdout().print(console.printable(line))
    raise typer.Exit(0 if workers else 1)


def lines(state: dict[str, Any], age: float, now: float) -> list[str]:
    conductor = "" if state["conductor_is_up"] else ", Conductor cannot be reached"
    late = f", no update for {age:.0f} s" if age > _LATE_SECONDS else ""
    head = f"worker {state['pid']} ({', '.join(state['modules'])}): {state['state']} for {now - state['started_at']:.0f} s"
    return [
        f"{head}{conductor}{late}",
        *(_slot(slot) for slot in state["slots"]),
        *(_recent(one, now) for one in state["recent"]),
    ]


def _slot(slot: dict[str, Any]) -> str:
    attempt: dict[str, Any] | None = slot.get("attempt")
    restarts = f", {slot['restarts']} restarts" if slot["restarts"] else ""
    if attempt is None:
        return f"  {slot['name']}  {slot['state']}{restarts}"
    progress = f" ({attempt['progress']})" if attempt["progress"] else ""
    what = f"{attempt['task_type']} {attempt['task_id']} retry {attempt['retry_count']}"
    return f"  {slot['name']}  {attempt['phase']}{progress} for {attempt['seconds']} s: {what}{restarts}"


def _recent(one: dict[str, Any], now: float) -> str:
    reason = f": {one['reason']}" if one.get("reason") else ""
    when = f"{now - one['ended_at']:.0f} s ago"
    return f"  {when}  {one['task_type']} {one['task_id']} {one['status']}, {one['delivery']}, {one['seconds']:.3f} s{reason}"
