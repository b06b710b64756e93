"""Names of the branches that hold attempts which failed their post checks: made from an execution and a time, and parsed back.

`perago-failed-<until>-<workflow>-<reference task>-task-id-<id>-retry-<n>-exec-<id>`. The time comes first, as Unix seconds in
eight hexadecimal digits: a listing shows those whose time is over before all others. The prefix is not that of staging branches,
so no attempt lists such a branch among its rivals, and none publishes from it.
"""

import re
from dataclasses import dataclass

from perago.model import Attempt, BranchName, ExecutionId, TaskId, WorkflowId
from perago.protocol import branch_name_fields, staging_names

PREFIX = "perago-failed-"
_ID_LENGTH = 40
_NAME_LENGTH = 48
_EXECUTION_LENGTH = 30
_LATEST = 0xFFFFFFFF
_SHAPE = re.compile(
    r"perago-failed-(?P<until>[0-9a-f]{8})-(?P<workflow>\w+)-(?P<reference>\w+)"
    r"-task-id-(?P<task>\w+)-retry-(?P<retry>\d+)-exec-(?P<execution>\w+)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class KeptName:
    """The fields of a name. Ids too long for a name were replaced by a digest and are None here."""

    branch: BranchName
    until: int
    """Unix seconds at which its time is over, by the clock of the worker that made it."""
    workflow_id: WorkflowId | None
    reference_name: str | None
    task_id: TaskId | None
    retry_count: int
    execution_id: ExecutionId | None
    task_field: str
    """The task id as it is written in the name."""

    @property
    def made_at(self) -> int | None:
        """Unix seconds at which the execution began, by the clock of its worker."""
        return staging_names.made_at(self.execution_id)

    def is_of(self, task_id: TaskId) -> bool:
        """Whether an attempt with this task id made it, also where the name contains a digest of the id."""
        return self.task_field == _task_field(task_id)


def kept_branch(attempt: Attempt, execution: ExecutionId, until: float) -> BranchName:
    workflow = branch_name_fields.escape(attempt.workflow_id, "-", _ID_LENGTH)
    reference = branch_name_fields.escape(attempt.reference_name, "_", _NAME_LENGTH)
    return BranchName(
        f"{PREFIX}{min(max(0, int(until)), _LATEST):08x}-{workflow}-{reference}-task-id-{_task_field(attempt.task_id)}"
        f"-retry-{attempt.retry_count}-exec-{branch_name_fields.escape(execution, '-', _EXECUTION_LENGTH)}"
    )


def parse(branch: BranchName) -> KeptName | None:
    """None for every branch that Perago did not name so."""
    found = _SHAPE.fullmatch(branch)
    if found is None:
        return None
    workflow, task, execution = (branch_name_fields.unescape(found[field], "-") for field in ("workflow", "task", "execution"))
    return KeptName(
        branch=branch,
        until=int(found["until"], 16),
        workflow_id=None if workflow is None else WorkflowId(workflow),
        reference_name=branch_name_fields.unescape(found["reference"], "_"),
        task_id=None if task is None else TaskId(task),
        retry_count=int(found["retry"]),
        execution_id=None if execution is None else ExecutionId(execution),
        task_field=found["task"],
    )


def _task_field(task_id: TaskId) -> str:
    return branch_name_fields.escape(task_id, "-", _ID_LENGTH)
