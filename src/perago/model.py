"""Frozen values that several packages share. Ids are types of their own: a commit id is not a branch name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NewType

from perago.errors import TaskStatus

WorkflowId = NewType("WorkflowId", str)
TaskId = NewType("TaskId", str)
TaskType = NewType("TaskType", str)
WorkerId = NewType("WorkerId", str)
ExecutionId = NewType("ExecutionId", str)
"""Random, one per execution: a task that is handed out again never finds the files or branches of an earlier execution."""

Repository = NewType("Repository", str)
BranchName = NewType("BranchName", str)
CommitId = NewType("CommitId", str)
MetaRangeId = NewType("MetaRangeId", str)
"""lakeFS's hash of a commit's whole content: equal ids mean equal trees."""
ObjectPath = NewType("ObjectPath", str)
"""A full object path in a repository."""
FilePath = NewType("FilePath", str)
"""The path of a file relative to the workspace root, `/` separated."""

MARKER_NAME = ".perago-attempt.json"
"""Perago's own file in an attempt directory. A file of this name, at any depth, is never mapped from or to lakeFS."""
CHECKOUT_NAME = ".perago-checkout.json"
"""Perago's own file in a folder that `perago checkout` made, treated in the same way."""
OWN_NAMES = frozenset({MARKER_NAME, CHECKOUT_NAME})
_OWN_SUFFIXES = tuple(f"/{name}" for name in OWN_NAMES)


def is_marker(path: str) -> bool:
    """Whether a file has one of Perago's own names, in any directory."""
    return path in OWN_NAMES or path.endswith(_OWN_SUFFIXES)


@dataclass(frozen=True, slots=True)
class LogicalTask:
    """The workflow step an attempt belongs to; stable across retries (`seq` is not)."""

    workflow_id: WorkflowId
    reference_name: str
    iteration: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt as it was polled. The last three fields distinguish a rerun from the original."""

    workflow_id: WorkflowId
    task_id: TaskId
    retry_count: int
    reference_name: str
    seq: int
    iteration: int
    task_type: TaskType
    worker_id: WorkerId
    start_time: int
    poll_count: int

    @property
    def logical_task(self) -> LogicalTask:
        return LogicalTask(self.workflow_id, self.reference_name, self.iteration)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a task and of its workflow, as just read: for the attempt fence, and to see whether a report was accepted."""

    workflow_id: WorkflowId
    task_id: TaskId
    retry_count: int
    status: str
    worker_id: WorkerId | None
    start_time: int
    poll_count: int
    workflow_status: str
    """Empty where only the task was read."""
    output: Mapping[str, Any]
    output_is_elsewhere: bool = False
    """It was too large for Conductor, which keeps it in its external payload storage."""
    workflow_created: int = 0
    """When the workflow's present run was created: only a restart renews it. 0 where only the task was read."""
    workflow_ended: int = 0
    """When the workflow ended; 0 where it has not, or only the task was read."""
    workflow_name: str = ""


@dataclass(frozen=True, slots=True)
class WorkflowRun:
    """The present run of a workflow, as just read; times as in `Snapshot`."""

    status: str
    created: int
    ended: int


@dataclass(frozen=True, slots=True)
class WorkspaceRef:
    """`workspace` of Conductor's input and output: `ref` is the immutable commit."""

    repository: Repository
    branch: BranchName
    ref: CommitId

    def as_json(self) -> dict[str, str]:
        return {"repository": self.repository, "branch": self.branch, "ref_type": "commit", "ref": self.ref}


@dataclass(frozen=True, slots=True)
class TaskInput:
    """A validated Conductor input. `workspace` is None for a workspace-free task."""

    workspace: WorkspaceRef | None
    params: object


@dataclass(frozen=True, slots=True)
class LakeAccess:
    """Address of lakeFS (its API and its S3 gateway) and the credentials for both."""

    url: str
    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Commit:
    """A lakeFS commit, with the fields that publication uses."""

    id: CommitId
    parents: tuple[CommitId, ...]
    meta_range_id: MetaRangeId
    message: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    committer: str = ""
    created: int = 0
    """Unix seconds, by lakeFS's clock."""

    @property
    def first_parent(self) -> CommitId | None:
        return self.parents[0] if self.parents else None


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object as lakeFS lists it. `checksum` is what lakeFS reports: hex MD5 for single uploads, anything for others."""

    path: ObjectPath
    size: int
    checksum: str
    content_type: str = "application/octet-stream"
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    mtime: int = 0
    presigned_url: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a workspace, local or remote, as checks see them, without Perago's marker."""

    files: Sequence[FilePath]
    empty_directories: Sequence[FilePath] = ()
    """Directories without a file at any depth; only a local workspace has them."""


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """How much a commit changes: files, and the bytes of those that were added or changed."""

    added: int = 0
    changed: int = 0
    deleted: int = 0
    bytes: int | None = None
    """None where it is not known, as for the jobs of Spark, which write to lakeFS themselves."""


@dataclass(frozen=True, slots=True)
class UncheckedFill:
    """What was brought onto the branch of an attempt that failed its post checks."""

    counts: ChangeCounts
    left_out: Sequence[str] = ()
    """A text about each thing that the body left and that no branch can hold."""


@dataclass(frozen=True, slots=True)
class Handle:
    """A staging branch without a commit of its own: the right to move the target branch to `commit`."""

    repository: Repository
    branch: BranchName
    commit: CommitId
    """The commit that the branch was created at."""


@dataclass(frozen=True, slots=True)
class StagedCommit:
    """An attempt's change, committed on its staging branch."""

    repository: Repository
    branch: BranchName
    commit: CommitId
    content: MetaRangeId
    """The content of the commit."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of an attempt, ready to be reported. `output` is Conductor's JSON and None unless completed."""

    status: TaskStatus
    output: Mapping[str, object] | None = None
    reason: str | None = None
    log: tuple[str, ...] = ()
    """A traceback, or the last lines of a dead process."""
    removals: tuple[str, ...] = ()
    """A line about each commit that the attempt removed from the target branch."""
    error: str | None = None
    """The name of the exception's class, None if the attempt completed."""
    code: str | None = None
    """The code of an error of Perago, as in PG-340."""
    printed: tuple[str, ...] = ()
    """The last lines that the body printed."""

    @property
    def reason_with_code(self) -> str | None:
        """For Conductor: the reason, and the code behind it."""
        return self.reason if self.reason is None else f"{self.reason}{code_suffix(self.code)}"

    @property
    def task_log(self) -> tuple[str, ...]:
        """For Conductor's task log."""
        return (*self.removals, *self.printed, *self.log)


def code_suffix(code: str | None) -> str:
    """` [PG-340]`, as commands print it; empty without a code."""
    return f" [{code}]" if code else ""
