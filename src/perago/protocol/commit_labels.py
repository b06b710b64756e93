"""The labels of a publication: lakeFS commit metadata that names the task that made the commit.

Labels never decide anything. They name the task to ask Conductor about, and inform readers of the history.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from perago.model import Attempt, ChangeCounts, CommitId, ExecutionId, TaskId, WorkflowId

_PHASE = "perago.phase"
_WORKFLOW = "perago.workflow"
_WORKFLOW_CREATED = "perago.workflow_created"
_TASK = "perago.task"
_TASK_ID = "perago.task_id"
_ATTEMPT = "perago.attempt"
_EXECUTION = "perago.execution"
STAGED = "perago.staged"
"""Only on the commit of a staging branch, not on the merge commit that publishes it: a visible one took the place of another."""
PROTECT = "perago.protect"
"""On commits of `perago protect`, which no task made and no attempt may remove."""
UNDO = "perago.undo"
"""On commits of `perago undo`, which no attempt may remove either: the commit that was undone."""
UNDO_BY = "perago.undo_by"
"""User and host that ran `perago undo`."""
IMPORT = "perago.import"
"""On commits of `perago import`, which no attempt may remove either: the folder."""
IMPORT_BY = "perago.import_by"
"""User and host that ran `perago import`."""
EXPECTED_HEAD = "perago.expected_head"
"""The input commit. The hook of `perago protect` compares it with the head that a merge finds."""

_COMMANDS = {PROTECT: "protect", UNDO: "undo", IMPORT: "import"}
_FILES = {name: f"perago.files_{name}" for name in ("added", "changed", "deleted")}
_BYTES = "perago.bytes"


@dataclass(frozen=True, slots=True)
class Labels:
    """The task that made a commit, according to the commit's metadata."""

    workflow_id: WorkflowId
    task_id: TaskId
    reference_name: str
    workflow_created: int | None
    """Conductor's creation time of the workflow's run, which a restart renews; None on commits of the first edition."""
    attempt: str = ""
    """Conductor's `retryCount`."""
    execution: str = ""

    @property
    def attempt_number(self) -> str:
        """Counted from 1, as people count: the first attempt has the `retryCount` 0."""
        count = _number(self.attempt)
        return self.attempt if count is None else str(count + 1)


def write(attempt: Attempt, execution: ExecutionId, input_ref: CommitId, workflow_created: int) -> dict[str, str]:
    """The labels of a staged commit. The phase is that of a visible commit, which a relocation makes of it."""
    return {
        _PHASE: "confirm",
        _WORKFLOW: attempt.workflow_id,
        _WORKFLOW_CREATED: str(workflow_created),
        _TASK: attempt.reference_name,
        _TASK_ID: attempt.task_id,
        _ATTEMPT: str(attempt.retry_count),
        _EXECUTION: execution,
        EXPECTED_HEAD: input_ref,
    }


def write_command(label: str, value: str, execution: ExecutionId, expected_head: CommitId) -> dict[str, str]:
    """The labels of a commit that an operator makes with a command. No task made it, so it stays unlabelled for `read`."""
    return {label: value, _EXECUTION: execution, EXPECTED_HEAD: expected_head}


def write_counts(counts: ChangeCounts) -> dict[str, str]:
    """How much a commit changes, for readers of the history."""
    files = {label: str(getattr(counts, name)) for name, label in _FILES.items()}
    return files if counts.bytes is None else files | {_BYTES: str(counts.bytes)}


def read_counts(metadata: Mapping[str, str]) -> ChangeCounts | None:
    """None for a commit that does not tell."""
    files = {name: _number(metadata.get(label, "")) for name, label in _FILES.items()}
    known = {name: count for name, count in files.items() if count is not None}
    return ChangeCounts(**known, bytes=_number(metadata.get(_BYTES, ""))) if len(known) == len(files) else None


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


def command(metadata: Mapping[str, str]) -> str:
    """The command of Perago with which an operator made the commit; empty for any other."""
    return next((name for label, name in _COMMANDS.items() if label in metadata), "")


def read(metadata: Mapping[str, str]) -> Labels | None:
    """None for a commit that Perago did not make."""
    workflow, task = metadata.get(_WORKFLOW), metadata.get(_TASK_ID)
    if not workflow or not task:
        return None
    created = metadata.get(_WORKFLOW_CREATED, "")
    return Labels(
        WorkflowId(workflow),
        TaskId(task),
        metadata.get(_TASK, ""),
        _number(created),
        metadata.get(_ATTEMPT, ""),
        metadata.get(_EXECUTION, ""),
    )
