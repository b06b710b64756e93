"""An attempt waits for a rival that has precedence for a limited time, and its refusal names that rival."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from tests.support.attempts import AttemptScene, once

from perago.attempt import transaction
from perago.attempt.rival_wait import Patience
from perago.conductor.port import Polled
from perago.errors import TaskStatus
from perago.model import Outcome
from perago.operate.protocol_check.scene import Tap, ref_of, writes


@dataclass
class Clock:
    """A clock that advances only while an attempt waits. `during` is called in the pause with that number."""

    during: dict[int, Callable[[], object]] = field(default_factory=dict[int, Callable[[], object]])
    now: float = 0.0
    pauses: int = 0

    def patience(self, seconds: float) -> Patience:
        return Patience(seconds, lambda: self.now, self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        self.pauses += 1
        self.during.get(self.pauses, lambda: None)()


def run(scene: AttemptScene, polled: Polled, clock: Clock, lake: Tap | None = None, seconds: float = 10.0) -> Outcome:
    execution = replace(scene.execution(polled.attempt, writes("two"), lake), patience=clock.patience(seconds))
    return transaction.run(execution, polled.input)


@pytest.fixture
def published(memory: AttemptScene) -> Callable[[Polled], Outcome]:
    return lambda polled: memory.run(polled, writes("one"))


def test_the_later_one_waits_until_the_earlier_one_is_accepted_and_names_its_commit(
    memory: AttemptScene, published: Callable[[Polled], Outcome]
) -> None:
    earlier, later = memory.start(), memory.start()
    memory.announce(earlier)
    clock = Clock({3: lambda: memory.report(earlier, published(earlier))})
    outcome = run(memory, later, clock)
    assert str(outcome.reason).startswith(f"Conductor accepted {memory.head().id} from step s0 of workflow fake ")
    assert clock.pauses == 3


def test_the_later_one_publishes_once_the_earlier_one_has_failed(memory: AttemptScene) -> None:
    earlier, later = memory.start(), memory.start()
    memory.announce(earlier)
    clock = Clock({2: lambda: memory.conductor.terminate(earlier.attempt.workflow_id)})
    outcome = run(memory, later, clock)
    assert ref_of(outcome) == memory.head().id
    assert memory.staging_branches() == []


def test_it_yields_when_the_earlier_one_takes_too_long(memory: AttemptScene) -> None:
    earlier, later = memory.start(), memory.start()
    left = memory.announce(earlier)
    clock = Clock()
    outcome = run(memory, later, clock, seconds=2.0)
    assert "started first; this attempt gives way to it" in str(outcome.reason)
    assert 1.0 <= clock.now <= 2.0
    assert memory.staging_branches() == [left]


def test_a_head_whose_task_is_about_to_report_is_waited_for_before_the_body_runs(
    memory: AttemptScene, published: Callable[[Polled], Outcome]
) -> None:
    first, second = memory.start(), memory.start()
    outcome = published(first)
    clock = Clock({1: lambda: memory.report(first, outcome)})
    refused = run(memory, second, clock)
    assert str(refused.reason).startswith(f"Conductor accepted {ref_of(outcome)} from step s0")
    assert memory.head().id == ref_of(outcome)


def test_a_head_whose_task_fails_meanwhile_is_replaced(memory: AttemptScene, published: Callable[[Polled], Outcome]) -> None:
    first, second = memory.start(), memory.start()
    published(first)
    clock = Clock({2: lambda: memory.conductor.terminate(first.attempt.workflow_id)})
    assert ref_of(run(memory, second, clock)) == memory.head().id
    assert memory.head().parents == (memory.a,)


@pytest.mark.parametrize("verb", ["write", "commit_branch", "merge"])
def test_an_attempt_that_was_revoked_names_the_step_that_published(
    memory: AttemptScene, published: Callable[[Polled], Outcome], verb: str
) -> None:
    earlier, later = memory.start(), memory.start()
    tap, done = memory.tap, list[Outcome]()
    tap.before[verb] = once(lambda: done.append(published(earlier)))
    clock = Clock({1: lambda: memory.report(earlier, done[0])})
    outcome = run(memory, later, clock, tap)
    assert outcome.status is TaskStatus.FAILED
    assert str(outcome.reason).startswith(f"Conductor accepted {ref_of(done[0])} from step s0")


def test_an_attempt_that_was_revoked_names_the_step_that_goes_first(memory: AttemptScene) -> None:
    earlier, later = memory.start(), memory.start()
    tap = memory.tap

    def revoke() -> None:
        for name in memory.staging_branches():
            memory.lake.delete_branch(memory.repository, name)
        memory.announce(earlier)

    tap.before["merge"] = once(revoke)
    outcome = run(memory, later, Clock(), tap)
    assert str(outcome.reason).startswith(f"step s0 of workflow fake {earlier.attempt.workflow_id} publishes to branch main too")


def test_a_report_between_the_reads_of_task_and_workflow_is_not_overlooked(
    memory: AttemptScene, published: Callable[[Polled], Outcome]
) -> None:
    """The task is read as in progress, then its report ends the workflow, then the workflow is read as over."""
    first, second = memory.start(), memory.start()
    outcome = published(first)
    tap = memory.tap
    tap.after["head"] = once(lambda: setattr(memory.conductor, "between_reads", once(lambda: memory.report(first, outcome))))
    refused = memory.run(second, writes("two"), tap)
    assert refused.status is TaskStatus.FAILED
    assert memory.head().id == ref_of(outcome)
