"""Runs of pipelines as an operator names and changes them: find, cancel, pause, resume, retry.

A write is sent once. Where its reply is lost, the run is read until it shows the result.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from perago.conductor.workflows import WorkflowClient
from perago.errors import ConductorUnknown, SetupError
from perago.model import WorkflowId
from perago.operate.run_state import ACTIVE

Json = Mapping[str, Any]

LAST = "last"
SHORTEST = 8
"""So many characters of an id are needed to name a run."""
_WHOLE = 36
_SEARCHED = 200
_LOOK_SECONDS = 15.0
_LOOK_PAUSE = 0.5


def find(client: WorkflowClient, text: str) -> WorkflowId:
    """The run with this id, the only one whose id begins so, or the newest one for `last`; `SetupError` otherwise."""
    if text == LAST:
        newest = client.search(1)
        if not newest:
            raise SetupError("Conductor has no run yet; start one with perago submit")
        return newest[0].id
    if len(text) < SHORTEST:
        raise SetupError(f"{text} is too short for the beginning of a run's id: give at least {SHORTEST} characters, or last")
    if len(text) >= _WHOLE:
        return WorkflowId(text)
    candidates = [*client.search(_SEARCHED, text=f"{text}*"), *client.search(_SEARCHED)]
    found = sorted({run.id for run in candidates if run.id.startswith(text)})
    if not found:
        raise SetupError(f"no run begins with {text}; perago runs lists the newest, and a whole id is found always")
    if len(found) > 1:
        raise SetupError(f"{text} is ambiguous: {', '.join(found)}")
    return found[0]


def status_of(client: WorkflowClient, run: WorkflowId) -> str:
    """`SetupError` where Conductor does not know the run."""
    return str(_known(client, run).get("status") or "")


def cancel(client: WorkflowClient, run: WorkflowId, reason: str) -> None:
    """Terminate the run; Conductor terminates the pipelines that it called with it."""
    _require(run, status_of(client, run), ACTIVE, "cancel")
    _settle(client, run, lambda: client.terminate(run, reason), lambda status: status not in ACTIVE, "cancelled")


def pause(client: WorkflowClient, run: WorkflowId) -> None:
    """No further step is scheduled, neither of the run nor of the pipelines that it called; running steps end as usual."""
    _require(run, status_of(client, run), {"RUNNING"}, "pause")
    _settle(client, run, lambda: client.pause(run), lambda status: status == "PAUSED", "paused")
    for called in _called(client, run, "RUNNING"):
        _settle(client, called, lambda called=called: client.pause(called), lambda status: status != "RUNNING", "paused")


def resume(client: WorkflowClient, run: WorkflowId) -> None:
    _require(run, status_of(client, run), {"PAUSED"}, "resume")
    for called in _called(client, run, "PAUSED"):
        _settle(client, called, lambda called=called: client.resume(called), lambda status: status != "PAUSED", "resumed")
    _settle(client, run, lambda: client.resume(run), lambda status: status != "PAUSED", "resumed")


RETRYABLE = frozenset({"FAILED", "TIMED_OUT", "TERMINATED"})


def require_retryable(client: WorkflowClient, run: WorkflowId) -> None:
    _require(run, status_of(client, run), RETRYABLE, "retry")


def retry(client: WorkflowClient, run: WorkflowId) -> None:
    """Schedule the last task that failed again, in called pipelines too."""
    require_retryable(client, run)
    before = _known(client, run).get("lastRetriedTime")

    def retried(status: str) -> bool:
        return status in ACTIVE or _known(client, run).get("lastRetriedTime") != before

    _settle(client, run, lambda: client.retry(run), retried, "retried")


def with_called(client: WorkflowClient, run: WorkflowId) -> Iterator[Json]:
    """The run with its tasks, and those that it called, at any depth; nothing where Conductor does not know it."""
    found = client.read(run)
    if found is None:
        return
    yield found
    for task in tasks_in(found):
        if called := task.get("subWorkflowId"):
            yield from with_called(client, WorkflowId(str(called)))


def tasks_in(run: Json) -> list[Json]:
    return cast("list[Json]", run.get("tasks") or [])


def _known(client: WorkflowClient, run: WorkflowId, *, tasks: bool = False) -> Json:
    found = client.read(run, tasks=tasks)
    if found is None:
        raise SetupError(f"Conductor at {client.url} does not know run {run}; perago runs lists the newest")
    return found


def _require(run: WorkflowId, status: str, wanted: frozenset[str] | set[str], verb: str) -> None:
    if status not in wanted:
        raise SetupError(f"run {run} is {status}; nothing to {verb}")


def _called(client: WorkflowClient, run: WorkflowId, status: str) -> Iterator[WorkflowId]:
    """The pipelines that the run has called and that are in this state, at any depth."""
    for task in tasks_in(_known(client, run, tasks=True)):
        called = task.get("subWorkflowId")
        if not called or task.get("status") != "IN_PROGRESS":
            continue
        found = client.read(WorkflowId(str(called)), tasks=False) or {}
        if found.get("status") == status:
            yield WorkflowId(str(called))
        if found.get("status") in ACTIVE:
            yield from _called(client, WorkflowId(str(called)), status)


def _settle(
    client: WorkflowClient, run: WorkflowId, write: Callable[[], None], is_done: Callable[[str], bool], done: str
) -> None:
    try:
        write()
    except ConductorUnknown as error:
        deadline = time.monotonic() + _LOOK_SECONDS
        while not is_done(status_of(client, run)):
            if time.monotonic() >= deadline:
                raise ConductorUnknown(
                    f"whether run {run} was {done} is unknown: Conductor's reply was lost; look at perago watch {run}"
                ) from error
            time.sleep(_LOOK_PAUSE)
