"""The executor's end of its channel: cancellations and answers reach the execution that they are meant for."""

import socket
from collections.abc import Iterator

import pytest
from tests.support.waiting import eventually

from perago import ipc
from perago.attempt import cancellation
from perago.conductor.port import Polled
from perago.executor.supervisor_channel import SupervisorChannel
from perago.model import Attempt, ExecutionId, Snapshot, TaskId, TaskType, WorkerId, WorkflowId

ATTEMPT = Attempt(WorkflowId("w"), TaskId("t"), 0, "it", 1, 0, TaskType("type"), WorkerId("n"), 1, 1)
SEEN = Snapshot(WorkflowId("w"), TaskId("t"), 0, "IN_PROGRESS", WorkerId("n"), 1, 1, "RUNNING", {})


class Channel:
    """Both ends in one process, which must not end when the channel closes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("perago.executor.supervisor_channel.end_with_children", lambda: None)
        self.supervisor, self._ours = socket.socketpair()
        self.executor = SupervisorChannel(self._ours)
        self.executor.start()
        self.runs = self.executor.runs()

    def send(self, *messages: ipc.ToExecutor) -> None:
        self.supervisor.sendall(b"".join(map(ipc.encode_for_executor, messages)))

    def close(self) -> None:
        self.supervisor.close()
        self._ours.close()
        # Its thread must see the end of the channel while `end_with_children` is still replaced.
        self.executor._reader.join(timeout=10)


def run(execution_id: str, lease_deadline: float = 1.0) -> ipc.Run:
    return ipc.Run(Polled(ATTEMPT, {}, 60.0), ExecutionId(execution_id), lease_deadline)


@pytest.fixture
def channel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Channel]:
    made = Channel(monkeypatch)
    yield made
    made.close()
    cancellation.set_reason(None)


def test_cancellation_reaches_its_execution(channel: Channel) -> None:
    channel.send(run("a"))
    next(channel.runs)
    channel.send(ipc.Cancel(ExecutionId("a"), "why"))
    eventually(cancellation.cancelled)
    assert cancellation.reason() == "why"


def test_late_cancellation_is_dropped_after_the_next_run(channel: Channel) -> None:
    """It was sent while the executor sent the end of the execution before."""
    channel.send(run("a"), run("b"), ipc.Cancel(ExecutionId("a"), "late"), run("c"))
    assert [next(channel.runs).execution_id for _ in range(3)] == ["a", "b", "c"]
    assert not cancellation.cancelled()


def test_cancellation_ends_with_the_next_execution(channel: Channel) -> None:
    channel.send(run("a"), ipc.Cancel(ExecutionId("a"), "why"), run("b"))
    assert [next(channel.runs).execution_id for _ in range(2)] == ["a", "b"]
    assert not cancellation.cancelled()
