"""A run of a pipeline as values: the attempts of its steps in order, those of called pipelines below them, lanes counted."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from perago.conductor.workflows import WorkflowClient
from perago.model import TaskId, WorkflowId

Json = Mapping[str, Any]

ACTIVE = frozenset({"RUNNING", "PAUSED"})
"""A run in one of these states goes on, or can be resumed."""
MOST_LANES = 8
"""So many lanes of an `each` are shown one by one; more are counted."""
_NAMED_FAILURES = 5
_FAILED = frozenset({"FAILED", "FAILED_WITH_TERMINAL_ERROR", "TIMED_OUT"})
_STRUCTURE = frozenset(
    {
        *("FORK", "FORK_JOIN", "FORK_JOIN_DYNAMIC", "JOIN", "EXCLUSIVE_JOIN", "SWITCH", "DECISION", "DO_WHILE"),
        *("JSON_JQ_TRANSFORM", "INLINE", "SET_VARIABLE", "NOOP", "TERMINATE"),
    }
)
"""Conductor's own tasks that are no work; shown only where one of them is all that failed."""


@dataclass(frozen=True, slots=True)
class StepAttempt:
    """One attempt of a step, or of a call of another pipeline."""

    step: str
    """The reference name, without the suffix of an iteration."""
    iteration: int
    """0 outside of loops."""
    attempt: int
    depth: int
    """0 for the run's own steps, 1 for those of a pipeline that it calls."""
    status: str
    task_type: str
    task_id: TaskId
    workflow_id: WorkflowId
    seconds: float
    commit: str
    """What it published; empty where nothing."""
    result: Json
    reason: str
    is_call: bool = False

    @property
    def has_failed(self) -> bool:
        return self.status in _FAILED


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes of an `each`, counted by the state of their latest attempt."""

    step: str
    iteration: int
    depth: int
    counts: Mapping[str, int]
    """done, running, waiting and failed."""
    failures: Sequence[StepAttempt] = ()
    """The first of the lanes that failed."""
    attempts: int = 0

    @property
    def total(self) -> int:
        return sum(self.counts.values())


Row = StepAttempt | Lanes


@dataclass(frozen=True, slots=True)
class RunState:
    id: WorkflowId
    name: str
    version: int
    status: str
    reason: str
    started: float
    seconds: float
    output: Json
    rows: Sequence[Row]
    correlation_id: str = ""

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE

    def attempts(self) -> Iterator[StepAttempt]:
        """Those that are shown, lanes that failed included."""
        for row in self.rows:
            yield from [row] if isinstance(row, StepAttempt) else row.failures

    @property
    def failure(self) -> StepAttempt | None:
        """The attempt that ended the run: the last that failed, inside a called pipeline rather than the call itself."""
        failed = [one for one in self.attempts() if one.has_failed]
        return next((one for one in reversed(failed) if not one.is_call), failed[-1] if failed else None)


@dataclass(slots=True)
class RunReader:
    """Reads a run again and again. Called pipelines that have ended are read once."""

    client: WorkflowClient
    _ended: dict[WorkflowId, Json] = field(default_factory=dict[WorkflowId, Json])

    def read(self, workflow_id: WorkflowId, now: float) -> RunState | None:
        """None where Conductor does not know the run."""
        found = self.client.read(workflow_id)
        if found is None:
            return None
        started, ended = _seconds(found.get("startTime")), _seconds(found.get("endTime"))
        return RunState(
            workflow_id,
            str(found.get("workflowName") or ""),
            int(found.get("workflowVersion") or 0),
            str(found.get("status") or ""),
            str(found.get("reasonForIncompletion") or ""),
            started,
            max(0.0, (ended or now) - started) if started else 0.0,
            found.get("output") or {},
            tuple(self._rows(found, 0, now)),
            str(found.get("correlationId") or ""),
        )

    def _rows(self, run: Json, depth: int, now: float) -> Iterator[Row]:
        tasks = sorted(cast("list[Json]", run.get("tasks") or []), key=lambda task: int(task.get("seq") or 0))
        lanes = _lanes(tasks)
        counted = {reference: lane for lane in lanes for reference in lane.references}
        numbers: Counter[str] = Counter()
        for task in tasks:
            reference = str(task.get("referenceTaskName") or "")
            numbers[reference] += 1
            if (lane := next((one for one in lanes if one.opened_by is task), None)) is not None:
                yield _counted(lane, tasks, depth, now)
            elif reference not in counted and (not _is_structure(task) or _is_only_failure(task, tasks)):
                yield from self._step(task, numbers[reference], depth, now)

    def _step(self, task: Json, number: int, depth: int, now: float) -> Iterator[Row]:
        """The attempt; of a call, also the attempts inside it; of a lane of an each, those of its step instead."""
        called = task.get("subWorkflowId") if task.get("taskType") == "SUB_WORKFLOW" else None
        run = self._called_run(WorkflowId(str(called))) if called else None
        if run is not None and _is_lane(task, run):
            yield from (replace(row, iteration=_step(task)[1]) for row in self._rows(run, depth, now))
            return
        yield _attempt(task, number, depth, now)
        if run is not None:
            yield from self._rows(run, depth + 1, now)

    def _called_run(self, called: WorkflowId) -> Json:
        if called in self._ended:
            # A retry of the run revives it under the same id.
            run = self.client.read(called, tasks=False) or {}
            if run.get("status") not in ACTIVE and run.get("endTime") == self._ended[called].get("endTime"):
                return self._ended[called]
        run = self.client.read(called) or {}
        if run and run.get("status") not in ACTIVE:
            self._ended[called] = run
        return run


@dataclass(frozen=True, slots=True)
class _EachLanes:
    opened_by: Json
    references: Sequence[str]


def _is_lane(task: Json, called: Json) -> bool:
    """A lane of an each calls a workflow of one step, which has the lane's reference name and the workflow's name."""
    steps = {(one.get("referenceTaskName"), one.get("taskDefName")) for one in cast("list[Json]", called.get("tasks") or [])}
    return steps == {(_step(task)[0], called.get("workflowName"))}


def _lanes(tasks: Sequence[Json]) -> Sequence[_EachLanes]:
    """The forks whose lanes only the run knows, if there are too many to show each."""
    found: list[_EachLanes] = []
    for task in tasks:
        kind = cast("Json", task.get("workflowTask") or {}).get("type")
        forked = cast("Json", task.get("inputData") or {}).get("forkedTaskDefs")
        if kind == "FORK_JOIN_DYNAMIC" and isinstance(forked, list):
            references = [_looped(str(one["taskReferenceName"]), task) for one in cast("list[Json]", forked)]
            if len(references) > MOST_LANES:
                found.append(_EachLanes(task, references))
    return found


def _looped(reference: str, fork: Json) -> str:
    """Inside a loop, Conductor adds the fork's iteration to the names of its lanes."""
    iteration = int(fork.get("iteration") or 0)
    suffix = f"__{iteration}"
    return reference + suffix if iteration and not reference.endswith(suffix) else reference


def _counted(lanes: _EachLanes, tasks: Sequence[Json], depth: int, now: float) -> Lanes:
    wanted = set(lanes.references)
    latest: dict[str, tuple[Json, int]] = {}
    attempts = 0
    for task in tasks:
        reference = str(task.get("referenceTaskName") or "")
        if reference in wanted:
            attempts += 1
            latest[reference] = (task, latest[reference][1] + 1 if reference in latest else 1)
    counts = {"done": 0, "running": 0, "waiting": len(wanted) - len(latest), "failed": 0}
    failures: list[StepAttempt] = []
    for task, number in latest.values():
        kind = _lane_state(str(task.get("status") or ""))
        counts[kind] += 1
        if kind == "failed" and len(failures) < _NAMED_FAILURES:
            failures.append(_attempt(task, number, depth, now))
    name, iteration = _step(lanes.opened_by)
    return Lanes(name, iteration, depth, counts, failures, attempts)


def _lane_state(status: str) -> str:
    if status in {"COMPLETED", "COMPLETED_WITH_ERRORS", "SKIPPED"}:
        return "done"
    if status == "SCHEDULED":
        return "waiting"
    return "running" if status == "IN_PROGRESS" else "failed"


def _is_structure(task: Json) -> bool:
    return str(task.get("taskType") or "") in _STRUCTURE


def _is_only_failure(task: Json, tasks: Sequence[Json]) -> bool:
    """A structural task that failed by itself, such as a condition that cannot be evaluated."""
    if str(task.get("status")) not in _FAILED:
        return False
    return not any(str(other.get("status")) in _FAILED for other in tasks if not _is_structure(other))


def _step(task: Json) -> tuple[str, int]:
    """The reference name without `__2`, and the iteration."""
    reference, iteration = str(task.get("referenceTaskName") or ""), int(task.get("iteration") or 0)
    if task.get("taskType") == "DO_WHILE":
        return reference, 0
    return (reference.removesuffix(f"__{iteration}"), iteration) if iteration else (reference, 0)


def _attempt(task: Json, number: int, depth: int, now: float) -> StepAttempt:
    output: Json = task.get("outputData") or {}
    started, ended = _seconds(task.get("startTime")), _seconds(task.get("endTime"))
    name, iteration = _step(task)
    result = output.get("result")
    return StepAttempt(
        name,
        iteration,
        number,
        depth,
        str(task.get("status") or ""),
        str(task.get("taskDefName") or task.get("taskType") or ""),
        TaskId(str(task.get("taskId") or "")),
        WorkflowId(str(task.get("workflowInstanceId") or "")),
        max(0.0, (ended or now) - started) if started else 0.0,
        _published(task),
        cast("Json", result) if isinstance(result, Mapping) else {},
        str(task.get("reasonForIncompletion") or ""),
        is_call=task.get("taskType") == "SUB_WORKFLOW",
    )


def _published(task: Json) -> str:
    """The commit of a completed step that left another one than it took; a call's commits are those of its steps."""
    before, after = (_ref(task.get(side)) for side in ("inputData", "outputData"))
    is_step = task.get("status") == "COMPLETED" and task.get("taskType") != "SUB_WORKFLOW" and not _is_structure(task)
    return after if is_step and after != before else ""


def _ref(data: object) -> str:
    workspace = cast("Json", data).get("workspace") if isinstance(data, Mapping) else None
    return str(cast("Json", workspace).get("ref") or "") if isinstance(workspace, Mapping) else ""


def _seconds(milliseconds: object) -> float:
    return int(milliseconds) / 1000 if isinstance(milliseconds, int | float) else 0.0
