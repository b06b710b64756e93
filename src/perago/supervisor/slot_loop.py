"""The loop of one slot: poll for a task, run it in the slot's executor, report its outcome, poll again."""

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
    """Serve a slot until the worker drains.

    Outcomes are reported in the background, that of a publication while its executor still cleans up. While a queue supplies
    tasks without waiting, the next poll (`next_poll`) is sent in the same request as the report, and the slot waits for its
    reply.
    """
    next_poll = None
    while next_poll is not None or await slot.ready():
        if next_poll is None:
            await reporter.wait_for_capacity()
        received = await poller.next(slot.name, lambda: slot.can_run, next_poll)
        next_poll = None
        if received is None:
            continue
        polled, polled_at = received
        if not slot.can_run and await _hand_back(polled, context.calls):
            continue
        attempt = _begin(slot, polled, polled_at, context)
        if refused := refusal(polled):
            attempt.finish(refused)
        outcome = refused or await slot.run(attempt)
        if slot.can_run and reporter.has_capacity:
            next_poll = poller.next_with_report(slot.name, polled.attempt.task_type)
        reporter.start(slot.name, attempt, outcome, next_poll)
        await slot.settle(attempt)
    await slot.close()


def _begin(slot: Slot, polled: Polled, polled_at: float, context: WorkerContext) -> SupervisedAttempt:
    execution_id = staging_names.execution_id(time.time(), secrets.token_bytes(8))
    attempt = SupervisedAttempt(polled, polled_at, execution_id, context, slot.send)
    attempt.start_lease()
    context.on_polled(polled)
    started = recorder.AttemptStarted(polled.attempt, execution_id, slot.name)
    # Logged later, so that the executor does not wait for it.
    asyncio.get_running_loop().call_soon(context.observe, started)
    return attempt


async def _hand_back(polled: Polled, calls: BlockingCalls) -> bool:
    """Hand a task back whose slot lost its executor during the poll: another slot may run it sooner. False if that fails."""
    try:
        await calls.run(calls.conductor.hand_back, polled.attempt)
    except ConductorError:
        return False
    return True


def refusal(polled: Polled) -> Outcome | None:
    """The outcome of an attempt that cannot be sent to an executor. Terminal, because every retry would get the same input."""
    if not polled.input_is_elsewhere:
        return None
    error = TaskInputError(
        "the input is too large: Conductor moved it to its external payload storage, which Perago does not read; "
        "pass large data as files of the workspace, or raise conductor.app.taskInputPayloadSizeThreshold on the server"
    )
    return failures.failed(error)
