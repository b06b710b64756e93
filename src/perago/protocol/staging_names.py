"""Staging branch names: made from an execution and its target branch, and parsed back.

`perago-staging-z<target>-<workflow>-<reference task>-seq-<n>-iteration-<n>-task-id-<id>-retry-<n>-exec-<id>`. The target branch
comes first, as a digest: one listing by prefix finds exactly the branches that could still be published there. Fields contain
no `-`, so two logical tasks never share a name. Names of the first edition have the digest at the end; they are still read.
"""

import hashlib
import re
from dataclasses import dataclass

from perago.model import Attempt, BranchName, ExecutionId, TaskId, WorkflowId
from perago.protocol import branch_name_fields

PREFIX = "perago-staging-"
MAX_LENGTH = 255
_ID_LENGTH = 40
_NAME_LENGTH = 48
_EXECUTION_LENGTH = 30
_TARGET_LENGTH = 12
_FIELDS = (
    r"(?P<workflow>\w+)-(?P<reference>\w+)-seq-(?P<seq>\d+)-iteration-(?P<iteration>\d+)"
    r"-task-id-(?P<task>\w+)-retry-(?P<retry>\d+)-exec-(?P<execution>\w+)"
)
_SHAPE = re.compile(rf"perago-staging-z(?P<target>[0-9a-f]{{12}})-{_FIELDS}", re.ASCII)
_FIRST_EDITION = re.compile(rf"perago-staging-{_FIELDS}_(?P<target>[0-9a-f]{{12}})", re.ASCII)
UNDO, RESTORE = "u", "r"
"""Suffixes of the execution id in the name of an execution's second staging branch, by its purpose."""
PERSON = "h"
"""Suffix of the execution id of a person, before that of a purpose."""
_EXECUTION_ID = re.compile(rf"(?P<seconds>[0-9a-f]{{8}})[0-9a-f]{{16}}(?P<person>{PERSON}?)(?P<mark>[a-z]?)")


@dataclass(frozen=True, slots=True)
class StagingName:
    """The fields of a staging branch's name. Ids too long for a name were replaced by a digest and are None here."""

    branch: BranchName
    retry_count: int
    workflow_id: WorkflowId | None
    reference_name: str | None
    task_id: TaskId | None
    execution_id: ExecutionId | None
    target: str

    @property
    def made_at(self) -> int | None:
        """Unix seconds, by the clock of the worker that made it."""
        return made_at(self.execution_id)

    @property
    def is_of_person(self) -> bool:
        """Whether it belongs to an execution of a human step."""
        found = _EXECUTION_ID.fullmatch(self.execution_id or "")
        return found is not None and bool(found["person"])

    @property
    def restores(self) -> bool:
        """Whether the branch restores what Conductor accepted from the task."""
        found = _EXECUTION_ID.fullmatch(self.execution_id or "")
        return found is not None and found["mark"] == RESTORE


def execution_id(now: float, entropy: bytes) -> ExecutionId:
    """`entropy` (at least 8 random bytes, new each time) makes it unique; the leading time shows its age to `perago gc`."""
    return ExecutionId(f"{int(now) & 0xFFFFFFFF:08x}{entropy[:8].hex():0>16}")


def made_at(execution: ExecutionId | None) -> int | None:
    """Unix seconds at which the execution began, by the clock of its worker; None for an id of another form."""
    found = _EXECUTION_ID.fullmatch(execution or "")
    return int(found["seconds"], 16) if found else None


def staging_branch(attempt: Attempt, execution: ExecutionId, target: BranchName) -> BranchName:
    workflow, reference = (
        branch_name_fields.escape(attempt.workflow_id, "-", _ID_LENGTH),
        branch_name_fields.escape(attempt.reference_name, "_", _NAME_LENGTH),
    )
    return BranchName(
        f"{target_prefix(target)}{workflow}-{reference}-seq-{attempt.seq}-iteration-{attempt.iteration}"
        f"-task-id-{branch_name_fields.escape(attempt.task_id, '-', _ID_LENGTH)}-retry-{attempt.retry_count}"
        f"-exec-{branch_name_fields.escape(execution, '-', _EXECUTION_LENGTH)}"
    )


def target_prefix(target: BranchName) -> str:
    """The prefix of the names of all staging branches of a target. Sorts after the names of the first edition."""
    return f"{PREFIX}z{target_digest(target)}-"


def is_second_edition(branch: BranchName) -> bool:
    """Whether the name is of the second edition. Workers of the first may still run; their names sort before all of these."""
    return _SHAPE.fullmatch(branch) is not None


def target_digest(target: BranchName) -> str:
    return hashlib.sha256(target.encode()).hexdigest()[:_TARGET_LENGTH]


def parse(branch: BranchName) -> StagingName | None:
    """None for every branch that Perago did not name."""
    found = _SHAPE.fullmatch(branch) or _FIRST_EDITION.fullmatch(branch)
    if found is None:
        return None
    workflow, task, execution = (branch_name_fields.unescape(found[field], "-") for field in ("workflow", "task", "execution"))
    return StagingName(
        branch=branch,
        retry_count=int(found["retry"]),
        workflow_id=None if workflow is None else WorkflowId(workflow),
        reference_name=branch_name_fields.unescape(found["reference"], "_"),
        task_id=None if task is None else TaskId(task),
        execution_id=None if execution is None else ExecutionId(execution),
        target=found["target"],
    )
