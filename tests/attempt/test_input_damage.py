"""An input that turns out to be damaged while the body ran: nothing is published or completed, the reason names the object."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.attempts import AttemptScene, writing
from tests.support.recording import RecordingTask

from perago.attempt import cancellation, port
from perago.errors import LakeCorrupt, LakeUnavailable, PreGuardrailViolation, TaskStatus, TaskTerminalError
from perago.model import WorkspaceRef
from perago.operate.protocol_check.dict_task import DictTask, DictWorkspace

DAMAGE = "read 'in/x' of repo@a: MD5 1, 2 was announced"


class Damaged(DictWorkspace):
    """A workspace whose input cannot be verified."""

    error: Exception = LakeCorrupt(DAMAGE)

    def verify_input(self) -> None:
        raise self.error


def fails(error: Exception) -> Callable[..., Any]:
    def act(*_: object) -> None:
        raise error

    return act


@pytest.fixture
def workspaces(memory: AttemptScene) -> Callable[[WorkspaceRef], port.AttemptWorkspace]:
    return lambda ref: Damaged(memory.lake, ref, "in/")


@pytest.mark.parametrize("task", [writing(x=b"2"), DictTask(), DictTask(read_only=True)], ids=["change", "no-op", "read-only"])
def test_nothing_is_published_or_completed(memory: AttemptScene, workspaces: Any, task: DictTask) -> None:
    outcome = memory.run(memory.start(), task, workspaces=workspaces)
    assert (outcome.status, outcome.reason, outcome.code) == (TaskStatus.FAILED, DAMAGE, LakeCorrupt.code)
    assert outcome.output is None
    assert memory.head().id == memory.a
    assert memory.staging_branches() == []


@pytest.mark.parametrize(
    "task",
    [
        DictTask(fails(TaskTerminalError("cannot parse it"))),
        RecordingTask(pre=fails(PreGuardrailViolation("cannot parse it"))),
        RecordingTask(post=fails(OSError("cannot parse it"))),
    ],
    ids=["body", "pre check", "post check"],
)
def test_an_earlier_failure_is_explained_by_the_damage_and_retried(memory: AttemptScene, workspaces: Any, task: DictTask) -> None:
    outcome = memory.run(memory.start(), task, workspaces=workspaces)
    assert outcome.status is TaskStatus.FAILED
    assert str(outcome.reason).startswith(f"{DAMAGE}; the task had failed before this was known: ")
    assert "cannot parse it" in str(outcome.reason)
    assert memory.head().id == memory.a


def test_an_input_that_could_not_be_verified_explains_it_too(memory: AttemptScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Damaged, "error", LakeUnavailable("no reply"))
    task = DictTask(fails(TaskTerminalError("cannot parse it")))
    outcome = memory.run(memory.start(), task, workspaces=lambda ref: Damaged(memory.lake, ref, "in/"))
    assert outcome.status is TaskStatus.FAILED
    assert str(outcome.reason).startswith("no reply; the task had failed")


@pytest.fixture
def cancelled() -> Iterator[Callable[[object], None]]:
    def cancel(_: object) -> None:
        cancellation.set_reason("not wanted")

    yield cancel
    cancellation.set_reason(None)


def test_a_cancelled_attempt_does_not_wait_for_the_verification(memory: AttemptScene, cancelled: Any) -> None:
    waited = threading.Event()

    class Waits(DictWorkspace):
        def verify_input(self) -> None:
            waited.set()

    outcome = memory.run(memory.start(), DictTask(cancelled), workspaces=lambda ref: Waits(memory.lake, ref, "in/"))
    assert "not wanted" in str(outcome.reason)
    assert not waited.is_set()
