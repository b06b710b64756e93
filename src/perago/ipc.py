"""Messages between supervisor and executor over their private socket. Each is written as its length, then JSON."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from perago.conductor.port import Polled
from perago.events import Done, Progress, Removed, Revoked, TableChecked
from perago.model import ExecutionId, Outcome, Snapshot, TaskId, WorkflowId

FRAME_HEADER = struct.Struct("!I")
LARGEST_FRAME = 256 << 20


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """Properties of a task that the supervisor needs; it never imports an author's module itself."""

    module: str
    task_type: str
    needs_lake: bool
    definition: Mapping[str, Any]
    publish_seconds: float
    completion_seconds: float
    heartbeat_seconds: float
    warnings: tuple[str, ...] = ()
    is_built_in: bool = False


# supervisor to executor


@dataclass(frozen=True, slots=True)
class Run:
    """Run this attempt now."""

    polled: Polled
    execution_id: ExecutionId
    lease_deadline: float
    """By the machine's monotonic clock, which all its processes share."""
    received_at: float = 0.0
    """When the reply to its poll was received, by the same clock."""
    kind: Literal["run"] = "run"


@dataclass(frozen=True, slots=True)
class Answer:
    """To a fence or look-up request: the lease deadline, and a snapshot or the name of an error class and its message."""

    request: int
    lease_deadline: float
    snapshot: Snapshot | None = None
    error: str | None = None
    message: str = ""
    kind: Literal["answer"] = "answer"


@dataclass(frozen=True, slots=True)
class LeaseDeadline:
    """The lease was extended."""

    deadline: float
    kind: Literal["lease-deadline"] = "lease-deadline"


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop this execution: its result is no longer needed."""

    execution_id: ExecutionId
    reason: str
    kind: Literal["cancel"] = "cancel"


# executor to supervisor


@dataclass(frozen=True, slots=True)
class ModulesLoaded:
    """The modules are imported and declare these tasks."""

    tasks: tuple[TaskFacts, ...]
    kind: Literal["modules-loaded"] = "modules-loaded"


@dataclass(frozen=True, slots=True)
class ModulesRejected:
    """The modules cannot be used; no restart will help."""

    message: str
    error: str = "RuntimeConfigError"
    """The name of its class."""
    kind: Literal["modules-rejected"] = "modules-rejected"


@dataclass(frozen=True, slots=True)
class SourcesImported:
    """Source files of the project that the modules use; sent before `ModulesLoaded` or `ModulesRejected`."""

    files: tuple[str, ...]
    kind: Literal["sources-imported"] = "sources-imported"


@dataclass(frozen=True, slots=True)
class Ready:
    """Imported and connected; `pid` is the executor's."""

    pid: int
    kind: Literal["ready"] = "ready"


@dataclass(frozen=True, slots=True)
class FenceRequest:
    """Requests a new snapshot of the running attempt."""

    request: int
    kind: Literal["fence"] = "fence"


@dataclass(frozen=True, slots=True)
class LookUpRequest:
    """Requests a snapshot of another task, with its workflow if that is given."""

    request: int
    task_id: TaskId
    workflow_id: WorkflowId | None = None
    kind: Literal["look-up"] = "look-up"


@dataclass(frozen=True, slots=True)
class EventEmitted:
    event: Done | Progress | Removed | Revoked | TableChecked
    kind: Literal["event"] = "event"


@dataclass(frozen=True, slots=True)
class LogLine:
    level: Literal["debug", "info", "warning", "error"]
    text: str
    kind: Literal["log-line"] = "log-line"


@dataclass(frozen=True, slots=True)
class Completed:
    """The publication is verified: the outcome may be reported while the executor cleans up. `Finished` follows."""

    execution_id: ExecutionId
    outcome: Outcome
    kind: Literal["completed"] = "completed"


@dataclass(frozen=True, slots=True)
class Finished:
    """The executor is done with the attempt. The outcome is the one of `Completed`, if that was sent."""

    execution_id: ExecutionId
    outcome: Outcome
    kind: Literal["finished"] = "finished"


ToExecutor = Run | Answer | LeaseDeadline | Cancel
FromAttempt = FenceRequest | LookUpRequest | EventEmitted | Completed | Finished
ToSupervisor = SourcesImported | ModulesLoaded | ModulesRejected | Ready | LogLine | FromAttempt

_TO_EXECUTOR: TypeAdapter[ToExecutor] = TypeAdapter(Annotated[ToExecutor, Field(discriminator="kind")])
_TO_SUPERVISOR: TypeAdapter[ToSupervisor] = TypeAdapter(Annotated[ToSupervisor, Field(discriminator="kind")])


def encode_for_executor(message: ToExecutor) -> bytes:
    return _frame(_TO_EXECUTOR.dump_json(message))


def encode_for_supervisor(message: ToSupervisor) -> bytes:
    return _frame(_TO_SUPERVISOR.dump_json(message))


def decode_in_executor(body: bytes) -> ToExecutor:
    return _TO_EXECUTOR.validate_json(body)


def decode_in_supervisor(body: bytes) -> ToSupervisor:
    return _TO_SUPERVISOR.validate_json(body)


def frame_length(head: bytes) -> int:
    (size,) = FRAME_HEADER.unpack(head)
    if size > LARGEST_FRAME:
        raise ValueError(f"a message of {size} bytes: the channel is out of sync")
    return int(size)


def _frame(body: bytes) -> bytes:
    return FRAME_HEADER.pack(len(body)) + body
