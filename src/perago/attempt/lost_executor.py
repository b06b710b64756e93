"""The outcome of an attempt whose executor process ended before the attempt."""

from collections.abc import Iterable
from dataclasses import replace

from perago.attempt import outcome as failures
from perago.errors import ExecutorDied
from perago.events import Phase
from perago.model import Outcome
from perago.process.exit_status import ExitStatus


def outcome(
    exit_status: ExitStatus, phase: Phase, seconds: float, last_lines: Iterable[str] = (), cancel_reason: str | None = None
) -> Outcome:
    """FAILED with the signal or exit code, the phase and the seconds since the attempt began; the log has `last_lines`."""
    why = f"; the attempt had been cancelled: {cancel_reason}" if cancel_reason else ""
    reason = f"the executor {exit_status} in phase {phase.value}, {seconds:.1f} s into the attempt{why}"
    return replace(failures.failed(ExecutorDied(reason)), log=(reason, *last_lines))
