"""Messages between `perago run` and the process that runs the task. Each is written as in `perago.ipc`: its length, then JSON."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, TypeAdapter

from perago import ipc
from perago.local_run.folder_lake import Stored
from perago.model import ObjectPath, Outcome


@dataclass(frozen=True, slots=True)
class Declared:
    """The module is imported and declares this task."""

    name: str
    has_workspace: bool
    publishes: bool
    prefix: str
    """As in object names: ends in `/` or is empty."""
    time_limit: float
    """`timeout.seconds`; 0 if there is none, or if Conductor only alerts."""
    retried_after_timeout: bool
    warnings: tuple[str, ...] = ()
    kind: Literal["declared"] = "declared"


@dataclass(frozen=True, slots=True)
class Run:
    """Run it on a copy of the files in `workspace`; None for a task without one."""

    workspace: Path | None
    params: Any
    kind: Literal["run"] = "run"


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
    kind: Literal["ended"] = "ended"


FromTask = Declared | Ended | ipc.ModulesRejected | ipc.Ready | ipc.EventEmitted

FROM_TASK: TypeAdapter[FromTask] = TypeAdapter(Annotated[FromTask, Field(discriminator="kind")])
TO_TASK: TypeAdapter[Run] = TypeAdapter(Run)
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
