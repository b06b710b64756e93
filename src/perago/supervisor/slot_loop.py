"""The life of one slot, top to bottom: poll for a task, run it in the slot's executor, report its outcome, poll again."""

import asyncio
import secrets
import time

from perago.attempt import outcome as failures
from perago.conductor.port import Polled
from perago.errors import ConductorError, TaskInputError
from perago.model import Outcome
from perago.protocol import staging_names
from perago.supervisor import recorder
from perago.supervisor.context import BlockingCalls, WorkerContext
from perago.supervisor.poller import Poller
from perago.supervisor.reporter import Reporter
from perago.supervisor.slot import Slot
from perago.supervisor.supervised_attempt import SupervisedAttempt


async def serve_slot(slot: Slot, context: WorkerContext, poller: Poller, reporter: Reporter) -> None:
    """Until the worker drains.

    An outcome is reported while the slot goes on. While a queue gives tasks without waiting, the next poll is sent with the
    report (`next_poll`): one request for both, and the slot waits for the reply to that.
    """
    next_poll = None
    while next_poll is not None or await slot.ready():
        if next_poll is None:
            await reporter.wait_for_room()
        received = await poller.next(slot.name, lambda: slot.can_run, next_poll)
        next_poll = None
        if received is None:
            continue
        polled, polled_at = received
        if not slot.can_run and await _handed_back(polled, context.calls):
            continue
        attempt = _begin(slot, polled, polled_at, context)
        outcome = refusal(polled) or await slot.run(attempt)
        if slot.can_run and reporter.has_room:
            next_poll = poller.next_with_report(slot.name, polled.attempt.task_type)
        reporter.start(slot.name, attempt, outcome, next_poll)
    await slot.close()


def _begin(slot: Slot, polled: Polled, polled_at: float, context: WorkerContext) -> SupervisedAttempt:
    execution_id = staging_names.execution_id(time.time(), secrets.token_bytes(8))
    attempt = SupervisedAttempt(polled, polled_at, execution_id, context, slot.send)
    attempt.start_lease()
    started = recorder.AttemptStarted(polled.attempt, execution_id, slot.name)
    # Logged after the executor has the attempt, which need not wait for a log line.
    asyncio.get_running_loop().call_soon(context.observe, started)
    return attempt


async def _handed_back(polled: Polled, calls: BlockingCalls) -> bool:
    """For a slot whose executor ended during the poll: another slot or worker may have the task sooner."""
    try:
        await calls.run(calls.conductor.hand_back, polled.attempt)
    except ConductorError:
        return False
    return True


def refusal(polled: Polled) -> Outcome | None:
    """For an attempt that cannot be passed to an executor; every retry would get the same input."""
    if not polled.input_is_elsewhere:
        return None
    error = TaskInputError(
        "the input is too large: Conductor moved it to its external payload storage, which Perago does not read; "
        "pass large data as files of the workspace, or raise conductor.app.taskInputPayloadSizeThreshold on the server"
    )
    return failures.failed(error)
