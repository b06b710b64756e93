"""The metadata of the commit on the branch of a kept attempt: what failed, where it was to be published, and from which input.

The keys differ from the labels of a publication, so that no reader of a history takes such a commit for one.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from perago.model import Attempt, BranchName, CommitId, ExecutionId, TaskId, WorkflowId
from perago.protocol import commit_labels

_REASON = "perago.failed"
_WORKFLOW = "perago.failed_workflow"
_TASK = "perago.failed_task"
_TASK_ID = "perago.failed_task_id"
_ATTEMPT = "perago.failed_attempt"
_BRANCH = "perago.failed_branch"
_PREFIX = "perago.failed_prefix"
_LEFT_OUT = "perago.failed_left_out"
_EXECUTION = "perago.execution"
_REASON_LENGTH = 4000


@dataclass(frozen=True, slots=True)
class KeptLabels:
    """An attempt whose post checks failed."""

    reason: str
    workflow_id: WorkflowId
    reference_name: str
    task_id: TaskId
    retry_count: int
    branch: BranchName
    """The target branch of the attempt."""
    input_ref: CommitId
    prefix: str
    """As the declaration of the task has it, such as `/shop`."""
    execution: ExecutionId
    left_out: str = ""
    """What the body left and a branch cannot hold; empty if nothing."""


def of_attempt(
    attempt: Attempt, execution: ExecutionId, branch: BranchName, input_ref: CommitId, prefix: str, reason: str, left_out: str
) -> KeptLabels:
    return KeptLabels(
        reason=reason[:_REASON_LENGTH],
        workflow_id=attempt.workflow_id,
        reference_name=attempt.reference_name,
        task_id=attempt.task_id,
        retry_count=attempt.retry_count,
        branch=branch,
        input_ref=input_ref,
        prefix=prefix,
        execution=execution,
        left_out=left_out,
    )


def write(labels: KeptLabels) -> dict[str, str]:
    return {
        _REASON: labels.reason,
        _WORKFLOW: labels.workflow_id,
        _TASK: labels.reference_name,
        _TASK_ID: labels.task_id,
        _ATTEMPT: str(labels.retry_count),
        _BRANCH: labels.branch,
        _PREFIX: labels.prefix,
        _EXECUTION: labels.execution,
        commit_labels.EXPECTED_HEAD: labels.input_ref,
        **({_LEFT_OUT: labels.left_out} if labels.left_out else {}),
    }


def read(metadata: Mapping[str, str]) -> KeptLabels | None:
    """None for a commit that is not a kept attempt."""
    if not is_kept(metadata):
        return None
    attempt = metadata.get(_ATTEMPT, "")
    return KeptLabels(
        reason=metadata[_REASON],
        workflow_id=WorkflowId(metadata.get(_WORKFLOW, "")),
        reference_name=metadata.get(_TASK, ""),
        task_id=TaskId(metadata.get(_TASK_ID, "")),
        retry_count=int(attempt) if attempt.isascii() and attempt.isdigit() else 0,
        branch=BranchName(metadata.get(_BRANCH, "")),
        input_ref=CommitId(metadata.get(commit_labels.EXPECTED_HEAD, "")),
        prefix=metadata.get(_PREFIX, ""),
        execution=ExecutionId(metadata.get(_EXECUTION, "")),
        left_out=metadata.get(_LEFT_OUT, ""),
    )


def is_kept(metadata: Mapping[str, str]) -> bool:
    return _REASON in metadata
