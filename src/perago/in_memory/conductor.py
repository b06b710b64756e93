"""An in-memory Conductor as forgetful as the real one.

Updates that are ignored answer like those that are taken, writes are last-write-wins, a retry is a new task id, a rerun the same.
"""

import json
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from perago.conductor.port import Polled, Snapshot
from perago.errors import ConductorNotFound, TaskStatus
from perago.in_memory.conductor_rows import TaskRow, WorkflowRow, WorkflowStep
from perago.model import Attempt, Outcome, TaskId, TaskType, WorkerId, WorkflowId, WorkflowRun
from perago.protocol.statuses import ACTIVE_WORKFLOW, UNFINISHED_TASK, TaskState, WorkflowState

_DEFAULT_RETRIES = 3
_DEFAULT_RESPONSE_TIMEOUT = 3600
REASON_LENGTH = 500
LOG_ENTRIES = 10
LARGEST_OUTPUT = 3072 * 1024
"""Bytes of JSON. A larger output goes to external payload storage."""
NEXT_SECONDS = 0.1
"""How long a report that polls waits for a task."""


def random_id() -> str:
    return str(uuid.uuid4())


def _is_large(output: Mapping[str, Any] | None) -> bool:
    return bool(output) and len(json.dumps(output)) > LARGEST_OUTPUT


def nothing_between() -> None:
    """What happens between two steps of the server, unless a test says otherwise."""


class FakeConductor:
    """The whole port and, beyond it, what a test needs to arrange: `start`, `terminate`, `rerun`, `expire`."""

    def __init__(self, clock: Callable[[], float] = time.time, new_id: Callable[[], str] = random_id) -> None:
        self.tasks: dict[TaskId, TaskRow] = {}
        self.logs: dict[TaskId, list[str]] = {}
        self.between: Callable[[], None] = nothing_between
        self.between_reads: Callable[[], None] = nothing_between
        self._clock = clock
        self._new_id = new_id
        self._last_tick = 0
        self._workflows: dict[WorkflowId, WorkflowRow] = {}
        self._definitions: dict[TaskType, Mapping[str, Any]] = {}
        self._queues: dict[TaskType, list[TaskId]] = {}
        self._changed = threading.Condition(threading.RLock())

    # the port
    def poll(self, task_type: TaskType, worker_id: WorkerId, *, wait_seconds: float) -> Polled | None:
        with self._changed:
            self._changed.wait_for(lambda: bool(self._queues.get(task_type)), timeout=wait_seconds)
            queue = self._queues.get(task_type)
            return self._hand_out(queue.pop(0), worker_id) if queue else None

    def snapshot(self, workflow_id: WorkflowId, task_id: TaskId) -> Snapshot:
        """Two reads, as on the server: what happens between them is seen in the workflow and not in the task."""
        task = self.task(task_id)
        self.between_reads()
        run = self.workflow_run(workflow_id)
        return replace(task, workflow_status=run.status, workflow_created=run.created, workflow_ended=run.ended)

    def workflow_run(self, workflow_id: WorkflowId) -> WorkflowRun:
        row = self._workflow(workflow_id)
        return WorkflowRun(row.status, row.created, row.ended)

    def task(self, task_id: TaskId) -> Snapshot:
        row = self._task(task_id)
        return Snapshot(
            row.workflow_id,
            row.task_id,
            row.retry_count,
            row.status,
            row.worker_id,
            row.start_time,
            row.poll_count,
            "",
            {} if row.output_is_elsewhere else row.output,
            row.output_is_elsewhere,
            workflow_name="fake",
        )

    def extend_lease(self, attempt: Attempt) -> None:
        self._update(attempt, lambda row: row)

    def report(self, attempt: Attempt, outcome: Outcome, *, timeout: float) -> None:
        del timeout
        output = outcome.output if outcome.status is TaskStatus.COMPLETED else None
        reason = None if outcome.reason_with_code is None else outcome.reason_with_code[:REASON_LENGTH]
        self._update(
            attempt,
            lambda row: replace(
                row,
                status=outcome.status.value,
                output=output or {},
                reason=reason,
                worker_id=attempt.worker_id,
                output_is_elsewhere=_is_large(output),
            ),
        )
        self.log(attempt.task_id, outcome.task_log)

    def report_and_poll(self, attempt: Attempt, outcome: Outcome, worker_id: WorkerId, *, timeout: float) -> Polled | None:
        self.report(replace(attempt, worker_id=worker_id), outcome, timeout=timeout)
        return self.poll(attempt.task_type, worker_id, wait_seconds=NEXT_SECONDS)

    def hand_back(self, attempt: Attempt) -> None:
        if self._update(attempt, lambda row: replace(row, status=TaskState.SCHEDULED)):
            with self._changed:
                self._enqueue(self.tasks[attempt.task_id])

    def handed_out(self, task_type: TaskType, worker_ids: Collection[WorkerId]) -> Sequence[Attempt]:
        rows = [row for row in self.tasks.values() if row.task_type == task_type and row.worker_id in worker_ids]
        return [self._polled(row).attempt for row in rows if row.status == TaskState.IN_PROGRESS]

    def log(self, task_id: TaskId, lines: Sequence[str]) -> None:
        kept = self.logs.setdefault(task_id, [])
        if lines and len(kept) < LOG_ENTRIES:
            kept.append("\n".join(lines))

    def task_definition(self, task_type: TaskType) -> Mapping[str, Any] | None:
        return self._definitions.get(task_type)

    def put_task_definition(self, definition: Mapping[str, Any]) -> None:
        self._definitions[TaskType(definition["name"])] = dict(definition)

    # what tests arrange
    def start(self, steps: Sequence[WorkflowStep], *, lanes: int = 1) -> WorkflowId:
        with self._changed:
            workflow_id = WorkflowId(self._new_id())
            self._workflows[workflow_id] = WorkflowRow(steps, self._tick(), lanes)
            for lane in range(lanes):
                self._schedule(workflow_id, lane)
            return workflow_id

    def restart(self, workflow_id: WorkflowId) -> None:
        """The same workflow id from the beginning: its tasks are gone, its creation time is new."""
        with self._changed:
            workflow = self._workflow(workflow_id)
            for row in self.tasks_of(workflow_id):
                del self.tasks[row.task_id]
                self._dequeue(row)
            self._workflows[workflow_id] = WorkflowRow(workflow.steps, self._tick(), workflow.lanes)
            for lane in range(workflow.lanes):
                self._schedule(workflow_id, lane)

    def pause(self, workflow_id: WorkflowId) -> None:
        """Tasks that run, or wait in a queue, go on; what would come after them is scheduled when the pause ends."""
        with self._changed:
            self._workflow(workflow_id).status = WorkflowState.PAUSED

    def resume(self, workflow_id: WorkflowId) -> None:
        with self._changed:
            workflow = self._workflow(workflow_id)
            workflow.status, waiting, workflow.waiting = WorkflowState.RUNNING, workflow.waiting, []
            for step, retry_count in waiting:
                self._schedule(workflow_id, step, retry_count)

    def terminate(self, workflow_id: WorkflowId) -> None:
        with self._changed:
            self._end_workflow(self._workflow(workflow_id), WorkflowState.TERMINATED)
            self._cancel_unfinished(workflow_id)

    def rerun(self, workflow_id: WorkflowId, task_id: TaskId) -> None:
        """The same task id and retry count again; the old worker id stays until the next poll."""
        with self._changed:
            row = self._task(task_id)
            self._workflow(workflow_id).status = WorkflowState.RUNNING
            for later in self.tasks_of(workflow_id):
                if later.seq > row.seq:
                    del self.tasks[later.task_id]
                    self._dequeue(later)
            self.tasks[task_id] = replace(
                row,
                status=TaskState.SCHEDULED,
                start_time=0,
                poll_count=0,
                output={},
                reason=None,
                output_is_elsewhere=False,
            )
            self._enqueue(self.tasks[task_id])

    def expire(self, task_id: TaskId) -> None:
        """The response timeout acts: this attempt is TIMED_OUT and the next one is scheduled."""
        with self._changed:
            self._end(replace(self._task(task_id), status=TaskState.TIMED_OUT))

    def decide(self, workflow_id: WorkflowId) -> None:
        """Every update here has looked at the workflow already."""
        self._workflow(workflow_id)

    def workflow_status(self, workflow_id: WorkflowId) -> str:
        return self._workflow(workflow_id).status

    def tasks_of(self, workflow_id: WorkflowId) -> list[TaskRow]:
        return sorted((row for row in self.tasks.values() if row.workflow_id == workflow_id), key=lambda row: row.seq)

    # how the server does it
    def _workflow(self, workflow_id: WorkflowId) -> WorkflowRow:
        if workflow_id not in self._workflows:
            raise ConductorNotFound(f"No such workflow found by id: {workflow_id}")
        return self._workflows[workflow_id]

    def _task(self, task_id: TaskId) -> TaskRow:
        if task_id not in self.tasks:
            raise ConductorNotFound(f"Task not found for taskId: {task_id}")
        return self.tasks[task_id]

    def _update(self, attempt: Attempt, change: Callable[[TaskRow], TaskRow]) -> bool:
        """Read, then write the whole row: what was written between the two is lost, and the port does not tell which."""
        row = self._task(attempt.task_id)
        workflow = self._workflow(attempt.workflow_id)
        if row.status not in UNFINISHED_TASK or workflow.status not in ACTIVE_WORKFLOW:
            return False
        self.between()
        with self._changed:
            changed = change(row)
            if changed.status in UNFINISHED_TASK:
                self.tasks[row.task_id] = changed
            else:
                self._end(changed)
            return True

    def _end_workflow(self, workflow: WorkflowRow, status: str) -> None:
        workflow.status, workflow.ended = status, self._tick()

    def _cancel_unfinished(self, workflow_id: WorkflowId) -> None:
        for row in self.tasks_of(workflow_id):
            if row.status in UNFINISHED_TASK:
                self.tasks[row.task_id] = replace(row, status=TaskState.CANCELED)
                self._dequeue(row)

    def _end(self, row: TaskRow) -> None:
        self.tasks[row.task_id] = row
        self._dequeue(row)
        workflow = self._workflow(row.workflow_id)
        retries = int(self._definitions.get(row.task_type, {}).get("retryCount", _DEFAULT_RETRIES))
        if row.status == TaskState.COMPLETED:
            self._go_on(row, workflow)
        elif row.status in {TaskState.FAILED, TaskState.TIMED_OUT} and row.retry_count < retries:
            self._schedule(row.workflow_id, row.step, retry_count=row.retry_count + 1)
        else:
            self._end_workflow(workflow, WorkflowState.FAILED)
            self._cancel_unfinished(row.workflow_id)

    def _go_on(self, row: TaskRow, workflow: WorkflowRow) -> None:
        """After a completed task: the next step, once every lane of a fork has joined."""
        done = {
            task.step
            for task in self.tasks_of(row.workflow_id)
            if task.status in {TaskState.COMPLETED, TaskState.COMPLETED_WITH_ERRORS}
        }
        if row.step < workflow.lanes and not done >= set(range(workflow.lanes)):
            return
        following = max(row.step + 1, workflow.lanes)
        if following < len(workflow.steps):
            self._schedule(row.workflow_id, following)
        else:
            self._end_workflow(workflow, WorkflowState.COMPLETED)

    def _schedule(self, workflow_id: WorkflowId, step: int, retry_count: int = 0) -> None:
        workflow = self._workflow(workflow_id)
        if workflow.status == WorkflowState.PAUSED:
            workflow.waiting.append((step, retry_count))
            return
        what = workflow.steps[step]
        workflow.seq += 1
        task_id = TaskId(self._new_id())
        outputs = {row.reference_name: row.output for row in self.tasks_of(workflow_id)}
        given = what.input(outputs) if callable(what.input) else what.input
        row = TaskRow(
            workflow_id, task_id, what.task_type, what.reference_name, step, workflow.seq, given, retry_count=retry_count
        )
        row = replace(row, input_is_elsewhere=what.input_is_elsewhere)
        self.tasks[task_id] = row
        self._enqueue(row)

    def _enqueue(self, row: TaskRow) -> None:
        self._dequeue(row)
        self._queues.setdefault(row.task_type, []).append(row.task_id)
        self._changed.notify_all()

    def _dequeue(self, row: TaskRow) -> None:
        queue = self._queues.get(row.task_type, [])
        if row.task_id in queue:
            queue.remove(row.task_id)

    def _hand_out(self, task_id: TaskId, worker_id: WorkerId) -> Polled:
        row = self.tasks[task_id]
        taken = replace(
            row,
            status=TaskState.IN_PROGRESS,
            worker_id=worker_id,
            start_time=row.start_time or self._tick(),
            poll_count=row.poll_count + 1,
        )
        self.tasks[task_id] = taken
        return self._polled(taken)

    def _tick(self) -> int:
        """Milliseconds. No two are the same, as with a server whose clock moves on between them."""
        self._last_tick = max(self._last_tick + 1, int(self._clock() * 1000))
        return self._last_tick

    def _polled(self, row: TaskRow) -> Polled:
        definition = self._definitions.get(row.task_type, {})
        attempt = Attempt(
            workflow_id=row.workflow_id,
            task_id=row.task_id,
            retry_count=row.retry_count,
            reference_name=row.reference_name,
            seq=row.seq,
            iteration=0,
            task_type=row.task_type,
            worker_id=row.worker_id or WorkerId(""),
            start_time=row.start_time,
            poll_count=row.poll_count,
        )
        response = float(definition.get("responseTimeoutSeconds", _DEFAULT_RESPONSE_TIMEOUT))
        given: Mapping[str, Any] = {} if row.input_is_elsewhere else row.input
        return Polled(attempt, given, response, float(definition.get("timeoutSeconds", 0)), row.input_is_elsewhere, "fake")
