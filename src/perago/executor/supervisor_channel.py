"""The executor's end of its channel to the supervisor: one thread reads, all threads may send, a fence waits for its answer."""

import contextlib
import itertools
import os
import queue
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator

from perago import errors, ipc
from perago.attempt import cancellation
from perago.model import Attempt, ExecutionId, Snapshot, TaskId, WorkflowId

ANSWER_GRACE_SECONDS = 60.0
"""Seconds to wait for an answer beyond the end of the lease. The supervisor normally answers much earlier."""


class SupervisorChannel:
    """Implements `perago.conductor.port.AttemptFence` for the running attempt. In a process that a body forked, `send` exits."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._execution_id: ExecutionId | None = None
        self._owner = os.getpid()
        self._incoming = connection.makefile("rb")
        self._sending = threading.Lock()
        self._delayed = b""
        self._runs: queue.SimpleQueue[ipc.Run] = queue.SimpleQueue()
        self._answers: dict[int, queue.SimpleQueue[ipc.Answer]] = {}
        self._request_numbers = itertools.count(1)
        self._lease_deadline = 0.0
        self._on_close: Callable[[], None] = lambda: None
        self._reader = threading.Thread(target=self._read, name="perago-channel", daemon=True)

    def start(self, on_close: Callable[[], None] = lambda: None) -> None:
        """`on_close` is called when the supervisor has closed the channel, before this process ends."""
        self._on_close = on_close
        self._reader.start()

    def runs(self) -> Iterator[ipc.Run]:
        """Yield attempts to run until the supervisor closes the channel, which ends this process."""
        while True:
            yield self._runs.get()

    def send(self, message: ipc.ToSupervisor) -> None:
        self.require_owner()
        data = ipc.encode_for_supervisor(message)
        with self._sending:
            self._socket.sendall(self._delayed + data)
            self._delayed = b""

    def send_later(self, message: ipc.ToSupervisor) -> None:
        """Send with the next message, for what the supervisor does not need at once."""
        data = ipc.encode_for_supervisor(message)
        with self._sending:
            self._delayed += data

    def require_owner(self) -> None:
        """Exit in a forked copy of the executor: only the original process may send and continue."""
        if os.getpid() != self._owner:
            os._exit(0)

    # the attempt fence
    def snapshot(self, attempt: Attempt) -> Snapshot:
        del attempt  # there is only one at a time
        return self._ask(ipc.FenceRequest)

    def look_up(self, task_id: TaskId, workflow_id: WorkflowId | None = None) -> Snapshot:
        return self._ask(lambda number: ipc.LookUpRequest(number, task_id, workflow_id))

    def _ask(self, make_request: Callable[[int], ipc.ToSupervisor]) -> Snapshot:
        number, reply = next(self._request_numbers), queue.SimpleQueue[ipc.Answer]()
        self._answers[number] = reply
        try:
            self.send(make_request(number))
            answer = reply.get(timeout=max(0.0, self.lease_seconds_left()) + ANSWER_GRACE_SECONDS)
        except queue.Empty:
            raise errors.ConductorUnavailable("the supervisor did not answer the attempt fence") from None
        finally:
            del self._answers[number]
        if answer.snapshot is None:
            raise _error(answer)
        return answer.snapshot

    def lease_seconds_left(self) -> float:
        return self._lease_deadline - time.monotonic()

    # the reading thread
    def _read(self) -> None:
        # After an unreadable message the stream is out of sync, which is handled like a closed channel.
        with contextlib.suppress(OSError, EOFError, ValueError):
            while True:
                self._handle(ipc.decode_in_executor(self._exactly(ipc.frame_length(self._exactly(ipc.FRAME_HEADER.size)))))
        with contextlib.suppress(OSError):
            self._on_close()
        end_with_children()

    def _handle(self, message: ipc.ToExecutor) -> None:
        match message:
            case ipc.Run():
                self._execution_id, self._lease_deadline = message.execution_id, message.lease_deadline
                cancellation.set_reason(None)
                self._runs.put(message)
            case ipc.Answer():
                self._lease_deadline = message.lease_deadline
                if (reply := self._answers.get(message.request)) is not None:
                    reply.put(message)
            case ipc.LeaseDeadline():
                self._lease_deadline = message.deadline
            case ipc.Cancel():
                if message.execution_id == self._execution_id:
                    cancellation.set_reason(message.reason)

    def _exactly(self, count: int) -> bytes:
        data = self._incoming.read(count)
        if len(data) < count:
            raise EOFError
        return data


def end_with_children() -> None:
    """Exit, and kill the processes that the body left running: they are in the executor's own process group."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _error(answer: ipc.Answer) -> errors.ConductorError:
    kinds = (errors.ConductorNotFound, errors.ConductorRejected, errors.ConductorUnavailable, errors.ConductorUnknown)
    kind = {kind.__name__: kind for kind in kinds}.get(answer.error or "", errors.ConductorUnavailable)
    return kind(answer.message)
