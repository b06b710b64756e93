"""Messages between `perago run` and the process that runs the task or pipeline, written as in `perago.ipc`: length, then JSON."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, TypeAdapter

from perago import ipc
from perago.local_run.changes import FileChange
from perago.local_run.folder_lake import Stored
from perago.local_run.table_changes import TableChange
from perago.model import ObjectPath, Outcome


@dataclass(frozen=True, slots=True)
class TimeLimit:
    seconds: float
    """`timeout.seconds`; 0 if there is none, or if Conductor only alerts."""
    is_retried: bool
    """What Conductor does afterwards: a new attempt, or the workflow has timed out."""


@dataclass(frozen=True, slots=True)
class Declared:
    """The module is imported and declares this task."""

    name: str
    has_workspace: bool
    publishes: bool
    prefix: str
    """As in object names: ends in `/` or is empty."""
    limit: TimeLimit
    warnings: tuple[str, ...] = ()
    kind: Literal["declared"] = "declared"

    def __str__(self) -> str:
        return f"task {self.name!r}"


@dataclass(frozen=True, slots=True)
class DeclaredPipeline:
    """The module is imported and declares this pipeline."""

    name: str
    has_workspace: bool
    publishes: bool
    prefixes: tuple[str, ...]
    """Of its tasks, as in object names. None lies inside another."""
    warnings: tuple[str, ...] = ()
    kind: Literal["declared-pipeline"] = "declared-pipeline"

    def __str__(self) -> str:
        return f"pipeline {self.name!r}"


@dataclass(frozen=True, slots=True)
class Run:
    """Run it on a copy of the files in `workspace`; None for one without a workspace."""

    workspace: Path | None
    params: Any
    """The params of a task, the inputs of a pipeline."""
    keep: bool = False
    """Keep what a task leaves that fails its post checks."""
    answers: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The results of a pipeline's human steps, by reference name."""
    kind: Literal["run"] = "run"


@dataclass(frozen=True, slots=True)
class Proceed:
    """What was sent has been shown: begin the step."""

    kind: Literal["proceed"] = "proceed"


@dataclass(frozen=True, slots=True)
class Ended:
    """The attempt has ended with this outcome; the store has these objects before and after it."""

    outcome: Outcome
    given: Mapping[ObjectPath, Stored]
    published: Mapping[ObjectPath, Stored]
    warnings: tuple[str, ...]
    traceback: tuple[str, ...] = ()
    """Of an error of the author's code."""
    code: str = ""
    """Of Perago's error."""
    kept: Mapping[ObjectPath, Stored] | None = None
    """What the task left, if its post checks failed and that was kept."""
    kind: Literal["ended"] = "ended"


@dataclass(frozen=True, slots=True)
class StepBegins:
    """A step of a pipeline begins as soon as the answer `Proceed` is there."""

    ref: str
    task: str
    limit: TimeLimit
    is_builtin: bool
    kind: Literal["step-begins"] = "step-begins"


@dataclass(frozen=True, slots=True)
class StepEnded:
    """The step that has begun has ended."""

    outcome: Outcome
    optional: bool
    changes: tuple[FileChange, ...]
    warnings: tuple[str, ...]
    traceback: tuple[str, ...] = ()
    code: str = ""
    tables: tuple[TableChange, ...] = ()
    kind: Literal["step-ended"] = "step-ended"


@dataclass(frozen=True, slots=True)
class PipelineEnded:
    """No further step runs."""

    outputs: Mapping[str, Any] | None
    failed: str
    """The reference name of the step that failed; empty if the pipeline completed."""
    given: Mapping[ObjectPath, Stored]
    published: Mapping[ObjectPath, Stored]
    notes: tuple[str, ...]
    kept: Mapping[ObjectPath, Stored] | None = None
    """What the step that failed left, if its post checks failed and that was kept."""
    kind: Literal["pipeline-ended"] = "pipeline-ended"


FromTask = (
    Declared
    | DeclaredPipeline
    | Ended
    | StepBegins
    | StepEnded
    | PipelineEnded
    | ipc.ModulesRejected
    | ipc.Ready
    | ipc.EventEmitted
)
ToTask = Run | Proceed

FROM_TASK: TypeAdapter[FromTask] = TypeAdapter(Annotated[FromTask, Field(discriminator="kind")])
TO_TASK: TypeAdapter[ToTask] = TypeAdapter(Annotated[ToTask, Field(discriminator="kind")])
MessageT = TypeVar("MessageT")


def send(connection: socket.socket, kind: TypeAdapter[MessageT], message: MessageT) -> None:
    body = kind.dump_json(message)
    connection.sendall(ipc.FRAME_HEADER.pack(len(body)) + body)


def receive(connection: socket.socket, kind: TypeAdapter[MessageT]) -> MessageT | None:
    """The next message; None if the other process has ended or closed the connection."""
    header = _exactly(connection, ipc.FRAME_HEADER.size)
    body = None if header is None else _exactly(connection, ipc.frame_length(header))
    return None if body is None else kind.validate_json(body)


def _exactly(connection: socket.socket, count: int) -> bytes | None:
    data = b""
    while len(data) < count:
        try:
            part = connection.recv(min(count - len(data), 1 << 20))
        except ConnectionError:
            return None
        if not part:
            return None
        data += part
    return data
