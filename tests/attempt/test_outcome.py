"""Status, reason and log that are reported to Conductor for each kind of outcome."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from perago import errors
from perago.attempt import declared_task, outcome
from perago.errors import TaskStatus
from perago.model import BranchName, CommitId, Repository, WorkspaceRef


def raised(error: BaseException) -> BaseException:
    """The error with a traceback that ends in this file."""
    try:
        raise error  # noqa: TRY301
    except BaseException as caught:  # noqa: BLE001
        return caught


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


HERE = f"(test_outcome.py:{raised.__code__.co_firstlineno + 3} in raised)"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("bad"), f"ValueError: bad {HERE}"),
        (ValueError(), f"ValueError without a message {HERE}"),
        (ValueError("two\n  lines"), f"ValueError: two lines {HERE}"),
        (KeyError("column"), f"KeyError: 'column' {HERE}"),
        (Unspeakable(), f"Unspeakable: its message cannot be shown, str() raised RuntimeError {HERE}"),
        (SystemExit(2), f"SystemExit: 2 {HERE}"),
        (errors.TaskFailed("try later"), "try later"),
        (errors.TaskFailed(), f"TaskFailed without a message {HERE}"),
        (errors.TaskTerminalError("   "), f"TaskTerminalError without a message {HERE}"),
        (errors.PublishFenceError("moved"), "moved"),
        (
            ExceptionGroup("parts failed", [ValueError("a"), ExceptionGroup("inner", [KeyError("b")])]),
            f"ExceptionGroup: parts failed: ValueError: a; ExceptionGroup: inner: KeyError: 'b' {HERE}",
        ),
    ],
)
def test_reasons(error: BaseException, reason: str) -> None:
    assert outcome.reason(raised(error)) == reason


def test_an_error_that_was_never_raised_has_no_place() -> None:
    assert outcome.reason(ValueError("bad")) == "ValueError: bad"


def test_the_place_is_the_authors_own_not_the_librarys() -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads("{")
    assert "(test_outcome.py:" in outcome.reason(caught.value)


@pytest.mark.parametrize("length", [1, 10, 30, 50, 500])
def test_reasons_are_bounded_and_the_place_survives_the_message(length: int) -> None:
    reason = outcome.reason(raised(ValueError("x" * 10_000)), length)
    assert len(reason) == length
    if length >= 50:
        assert reason.endswith(f"…{' ' + HERE}")
    assert outcome.reason(raised(errors.TaskFailed("y" * 10_000)), length) == "y" * (length - 1) + "…"


LEAVES = [leaf for leaf in vars(errors).values() if isinstance(leaf, type) and issubclass(leaf, errors.PeragoError)]


@pytest.mark.parametrize("leaf", LEAVES)
def test_every_failure_of_the_tree_has_its_status_and_no_output(leaf: type[errors.PeragoError]) -> None:
    made = outcome.failed(raised(leaf("why")))
    terminal = issubclass(leaf, errors.TerminalError)
    assert made.status is (TaskStatus.FAILED_WITH_TERMINAL_ERROR if terminal else TaskStatus.FAILED)
    assert made.output is None
    assert made.reason == "why"
    assert (made.error, made.code) == (leaf.__name__, leaf.code or None)
    assert made.reason_with_code == (f"why [{leaf.code}]" if leaf.code else "why")


def test_an_exception_of_a_body_has_its_class_and_no_code() -> None:
    made = outcome.failed(raised(KeyError("rows")))
    assert (made.error, made.code, made.reason_with_code) == ("KeyError", None, made.reason)


def test_the_code_is_within_the_length_of_the_reason() -> None:
    made = outcome.failed(raised(errors.WorkspaceError("x" * 1000)), 100)
    assert made.reason_with_code == "x" * 90 + "… [PG-340]"


def fail_in_the_body(_workspace: object, _params: object) -> None:
    raise OSError("disk full")


def test_a_traceback_begins_in_the_authors_module() -> None:
    declaration = SimpleNamespace(workspace=True, body=fail_in_the_body)
    with pytest.raises(OSError, match="disk full") as caught:
        declared_task.DeclaredTask(cast("Any", declaration)).body(None, None)
    error = errors.TaskFailed("later")
    error.__cause__ = caught.value.with_traceback(caught.tb.tb_next)
    log = outcome.failed(error).log
    assert log[0] == "Traceback (most recent call last):"
    assert log[1].endswith(", in fail_in_the_body")
    assert log[-1] == "perago.errors.TaskFailed: later"


def test_the_traceback_goes_to_the_log() -> None:
    made = outcome.failed(raised(ValueError("bad")))
    assert made.log[0] == "Traceback (most recent call last):"
    assert made.log[-1] == "ValueError: bad"
    assert any("raise error" in line for line in made.log)
    assert not any("\n" in line for line in made.log)


def test_the_cause_goes_with_it() -> None:
    error = errors.TaskFailed("later")
    error.__cause__ = raised(OSError("disk full"))
    assert "OSError: disk full" in outcome.failed(raised(error)).log


def test_what_needs_no_traceback_has_none() -> None:
    assert outcome.failed(raised(errors.PreGuardrailViolation("pre guardrail"))).log == ()


def test_an_error_without_text_and_a_huge_one_are_logged_within_bounds() -> None:
    assert outcome.failed(raised(Unspeakable())).log
    log = outcome.failed(raised(ValueError("\n".join("z" * 9_000 for _ in range(1000))))).log
    assert len(log) == outcome.LOG_MAX_LINES + 1
    assert max(map(len, log)) == outcome.LOG_MAX_LINE_LENGTH


def test_staging_branch_names_never_leave() -> None:
    error = raised(errors.LakeRejected("write 'x' to repo/perago-staging-w-r-seq-1-iteration-0-task-id-t-retry-0-exec-e_0a: no"))
    made = outcome.failed(error)
    assert made.reason == "write 'x' to repo/the staging branch: no"
    assert "perago-staging" not in str(made.log)


def test_completed() -> None:
    workspace = WorkspaceRef(Repository("r"), BranchName("main"), CommitId("c"))
    shown = {"repository": "r", "branch": "main", "ref_type": "commit", "ref": "c"}
    assert outcome.completed(workspace, {"n": 1}).output == {"workspace": shown, "result": {"n": 1}}
    assert outcome.completed(None, {"n": 1}).output == {"result": {"n": 1}}
