"""Names of lane branches and of the scratch branches on which lanes are joined: made from an execution, and parsed back.

`perago-lane-<workflow>-<digest of the step>-retry-<n>-exec-<id>-lane-<name>`, and `-scratch-<n>` at the end of a scratch branch.
The workflow comes first: one listing by prefix finds everything that a workflow may have left, and one of its steps is found
by a longer prefix.
"""

import hashlib
import re
from dataclasses import dataclass

from perago.model import Attempt, BranchName, ExecutionId, LogicalTask, WorkflowId
from perago.protocol import branch_name_fields, staging_names

PREFIX = "perago-lane-"
_ID_LENGTH = 40
_STEP_LENGTH = 12
_EXECUTION_LENGTH = 30
_LANE_LENGTH = 48
_SHAPE = re.compile(
    r"perago-lane-(?P<workflow>\w+)-(?P<step>[0-9a-f]{12})-retry-(?P<retry>\d+)-exec-(?P<execution>\w+)"
    r"-(?P<kind>lane|scratch)-(?P<name>\w+)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class LaneName:
    """The fields of a name. Ids too long for a name were replaced by a digest and are None here."""

    branch: BranchName
    workflow_id: WorkflowId | None
    step: str
    """The digest of the step that made it."""
    retry_count: int
    execution_id: ExecutionId | None
    lane: str | None
    """The name of the lane, None for a scratch branch."""

    @property
    def step_prefix(self) -> str:
        """The beginning of the names of all branches of the step."""
        return self.branch[: self.branch.index("-retry-")] + "-"

    @property
    def made_at(self) -> int | None:
        """Unix seconds, by the clock of the worker that made it."""
        return staging_names.made_at(self.execution_id)


def workflow_prefix(workflow_id: WorkflowId) -> str:
    return f"{PREFIX}{branch_name_fields.escape(workflow_id, '-', _ID_LENGTH)}-"


def step_prefix(step: LogicalTask) -> str:
    """Of one iteration of the step, for all its attempts."""
    text = f"{step.iteration}:{step.reference_name}"
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_STEP_LENGTH]
    return f"{workflow_prefix(step.workflow_id)}{digest}-"


def lane_branch(attempt: Attempt, execution: ExecutionId, lane: str) -> BranchName:
    return _branch(attempt, execution, "lane", branch_name_fields.escape(lane, "_", _LANE_LENGTH))


def scratch_branch(attempt: Attempt, execution: ExecutionId, number: int) -> BranchName:
    return _branch(attempt, execution, "scratch", str(number))


def parse(branch: BranchName) -> LaneName | None:
    """None for every branch that Perago did not name so."""
    found = _SHAPE.fullmatch(branch)
    if found is None:
        return None
    workflow, execution = (branch_name_fields.unescape(found[field], "-") for field in ("workflow", "execution"))
    lane = branch_name_fields.unescape(found["name"], "_") if found["kind"] == "lane" else None
    return LaneName(
        branch=branch,
        workflow_id=None if workflow is None else WorkflowId(workflow),
        step=found["step"],
        retry_count=int(found["retry"]),
        execution_id=None if execution is None else ExecutionId(execution),
        lane=lane,
    )


def is_of_an_earlier_execution(name: LaneName, attempt: Attempt, execution: ExecutionId) -> bool:
    """Whether this execution of the same step may delete the branch.

    Never one of a higher retry count: an execution that was paused for long must not delete what its successor made.
    """
    if name.retry_count != attempt.retry_count:
        return name.retry_count < attempt.retry_count
    return name.execution_id != execution


def _branch(attempt: Attempt, execution: ExecutionId, kind: str, name: str) -> BranchName:
    execution_field = branch_name_fields.escape(execution, "-", _EXECUTION_LENGTH)
    return BranchName(f"{step_prefix(attempt.logical_task)}retry-{attempt.retry_count}-exec-{execution_field}-{kind}-{name}")
