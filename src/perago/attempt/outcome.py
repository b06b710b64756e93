"""Turns the result or the exception of an attempt into the Outcome that is reported to Conductor."""

import itertools
import os
import re
import sysconfig
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perago.errors import (
    AttemptCancelled,
    CommandFailed,
    CommandTerminalError,
    GuardrailViolation,
    PeragoError,
    PostGuardrailViolation,
    PublishFenceError,
    StaleAttemptError,
    TaskInputError,
    TaskStatus,
)
from perago.model import Outcome, WorkspaceRef, code_suffix

REASON_MAX_LENGTH = 500
"""Conductor cuts longer reasons off."""
LOG_MAX_LINES = 200
LOG_MAX_LINE_LENGTH = 4000
_NEEDS_NO_TRACEBACK = (
    TaskInputError,
    CommandFailed,
    CommandTerminalError,
    StaleAttemptError,
    PublishFenceError,
    AttemptCancelled,
)
_STAGING = re.compile(r"perago-staging-[-\w]+", re.ASCII)
_PERAGO = str(Path(__file__).parents[1])
_NOT_THE_AUTHORS = tuple({_PERAGO, *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))})


def completed(workspace: WorkspaceRef | None, result: Mapping[str, Any]) -> Outcome:
    if workspace is None:
        return Outcome(TaskStatus.COMPLETED, {"result": result})
    return Outcome(TaskStatus.COMPLETED, {"workspace": workspace.as_json(), "result": result})


def failed(error: BaseException, max_length: int = REASON_MAX_LENGTH) -> Outcome:
    """No output ever: in a loop, `${x.output…}` of the next round would read it.

    The reason leaves room for the code, which is reported behind it, and for how to look at a kept attempt.
    """
    code = error.code or None if isinstance(error, PeragoError) else None
    kept = f"; {error.kept}" if isinstance(error, PostGuardrailViolation) and error.kept else ""
    room = max_length - len(code_suffix(code))
    kept = kept if len(kept) < room // 2 else ""
    shown = reason(error, max(1, room - len(kept))) + kept
    return Outcome(status(error), reason=shown, log=_log(error), error=type(error).__name__, code=code)


def status(error: BaseException) -> TaskStatus:
    """The status of the error class; FAILED, which is retried, for exceptions that are not Perago's."""
    return error.status if isinstance(error, PeragoError) else TaskStatus.FAILED


def reason(error: BaseException, max_length: int = REASON_MAX_LENGTH) -> str:
    """One line of at most `max_length` characters. An exception that is not Perago's is given with type and location."""
    message, tail = _message(error), ""
    if not isinstance(error, PeragoError) or not message:
        message = f"{type(error).__name__}: {message}" if message else f"{type(error).__name__} without a message"
        tail = f" ({place})" if (place := _place(error)) else ""
    message, tail = _hide(message), _hide(tail)
    if len(message) + len(tail) > max_length:
        tail = tail[: max(0, max_length - 1)]
        message = message[: max(0, max_length - len(tail) - 1)] + "…"
    return (message + tail)[:max_length]


def _message(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        members: tuple[BaseException, ...] = error.exceptions  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        inner = "; ".join(f"{type(member).__name__}: {_message(member)}" for member in members)
        return f"{_text(error.message)}: {inner}" if error.message else inner
    return _text(error)


def _text(value: object) -> str:
    try:
        return " ".join(str(value).split())
    except Exception as fault:  # noqa: BLE001  an author's __str__ may do anything; its failure must not hide the one at hand
        return f"its message cannot be shown, str() raised {type(fault).__name__}"


def _place(error: BaseException) -> str:
    """Where in the author's own code it came through last, or where it was raised if it never did."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, BaseExceptionGroup) and not frames:
        return ""
    theirs = [frame for frame in frames if not os.path.abspath(frame.filename).startswith(_NOT_THE_AUTHORS)]  # noqa: PTH100  "<string>" is no path
    if not frames:
        return ""
    frame = (theirs or frames)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}"


def _log(error: BaseException) -> tuple[str, ...]:
    if isinstance(error, GuardrailViolation):
        return _bounded(error.log)
    if isinstance(error, _NEEDS_NO_TRACEBACK):
        return ()
    shown = traceback.TracebackException.from_exception(error)
    _begin_at_the_author(shown)
    text = "".join(shown.format())
    return _bounded(text.splitlines())


def _bounded(found: Sequence[str]) -> tuple[str, ...]:
    lines = [_hide(line)[:LOG_MAX_LINE_LENGTH] for line in found]
    if len(lines) <= LOG_MAX_LINES:
        return tuple(lines)
    half = LOG_MAX_LINES // 2
    return tuple(itertools.chain(lines[:half], [f"… {len(lines) - 2 * half} lines left out …"], lines[-half:]))


def _begin_at_the_author(shown: traceback.TracebackException) -> None:
    """Remove Perago's frames above the author's first one, here and in causes; an error within Perago keeps all of them."""
    frames = list(itertools.dropwhile(lambda frame: frame.filename.startswith(_PERAGO + os.sep), shown.stack))
    if frames:
        shown.stack = traceback.StackSummary.from_list(frames)
    for inner in (shown.__cause__, shown.__context__, *(shown.exceptions or ())):
        if inner is not None:
            _begin_at_the_author(inner)


def _hide(text: str) -> str:
    """Without staging branch names, which are internal, and without bytes that are not text (from file names)."""
    return _STAGING.sub("the staging branch", text.encode(errors="backslashreplace").decode())
