"""What supervisor and executor say to each other over their private channel, and how it is written: a length, then JSON."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from perago.conductor.port import Polled
from perago.events import Done, Progress, Removed, Revoked
from perago.model import ExecutionId, Outcome, Snapshot, TaskId, WorkflowId

LENGTH = struct.Struct("!I")
LARGEST = 256 << 20


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """What the supervisor needs to know of a task; it never imports an author's module itself."""

    module: str
    task_type: str
    needs_lake: bool
    definition: Mapping[str, Any]
    publish_seconds: float
    completion_seconds: float
    heartbeat_seconds: float
    warnings: tuple[str, ...] = ()


# from the supervisor


@dataclass(frozen=True, slots=True)
class Run:
    """Run this attempt now."""

    polled: Polled
    execution_id: ExecutionId
    lease_deadline: float
    """By the machine's monotonic clock, which all its processes share."""
    kind: Literal["run"] = "run"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a fence or a look-up found: a snapshot, or the name of the error and its line."""

    request: int
    snapshot: Snapshot | None = None
    error: str | None = None
    message: str = ""
    kind: Literal["answer"] = "answer"


@dataclass(frozen=True, slots=True)
class LeaseMoved:
    deadline: float
    kind: Literal["lease"] = "lease"


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop the attempt: nobody wants its result any more."""

    execution_id: ExecutionId
    reason: str
    kind: Literal["cancel"] = "cancel"


# from the executor


@dataclass(frozen=True, slots=True)
class Declared:
    """The modules are imported."""

    tasks: tuple[TaskFacts, ...]
    kind: Literal["declared"] = "declared"


@dataclass(frozen=True, slots=True)
class Refused:
    """The modules cannot be used; no restart will help."""

    message: str
    error: str = "RuntimeConfigError"
    """The name of its class."""
    kind: Literal["refused"] = "refused"


@dataclass(frozen=True, slots=True)
class Ready:
    """Imported and connected."""

    pid: int
    kind: Literal["ready"] = "ready"


@dataclass(frozen=True, slots=True)
class Fence:
    request: int
    kind: Literal["fence"] = "fence"


@dataclass(frozen=True, slots=True)
class LookUp:
    """A question about another task, with its workflow if that is named."""

    request: int
    task_id: TaskId
    workflow_id: WorkflowId | None = None
    kind: Literal["look-up"] = "look-up"


@dataclass(frozen=True, slots=True)
class Happened:
    event: Done | Progress | Removed | Revoked
    kind: Literal["happened"] = "happened"


@dataclass(frozen=True, slots=True)
class Remark:
    """A line for the log."""

    level: Literal["debug", "info", "warning", "error"]
    text: str
    kind: Literal["remark"] = "remark"


@dataclass(frozen=True, slots=True)
class Finished:
    execution_id: ExecutionId
    outcome: Outcome
    kind: Literal["finished"] = "finished"


ToExecutor = Run | Answer | LeaseMoved | Cancel
ToSupervisor = Declared | Refused | Ready | Fence | LookUp | Happened | Remark | Finished

_TO_EXECUTOR: TypeAdapter[ToExecutor] = TypeAdapter(Annotated[ToExecutor, Field(discriminator="kind")])
_TO_SUPERVISOR: TypeAdapter[ToSupervisor] = TypeAdapter(Annotated[ToSupervisor, Field(discriminator="kind")])


def for_executor(message: ToExecutor) -> bytes:
    return _framed(_TO_EXECUTOR.dump_json(message))


def for_supervisor(message: ToSupervisor) -> bytes:
    return _framed(_TO_SUPERVISOR.dump_json(message))


def read_by_executor(body: bytes) -> ToExecutor:
    return _TO_EXECUTOR.validate_json(body)


def read_by_supervisor(body: bytes) -> ToSupervisor:
    return _TO_SUPERVISOR.validate_json(body)


def length(head: bytes) -> int:
    (size,) = LENGTH.unpack(head)
    if size > LARGEST:
        raise ValueError(f"a message of {size} bytes: the channel is out of step")
    return int(size)


def _framed(body: bytes) -> bytes:
    return LENGTH.pack(len(body)) + body
