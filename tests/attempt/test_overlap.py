"""Requests of one attempt at the same time: what may be sent before or after what, and what happens if one of them fails."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn, TypeVar

import pytest
from tests.support.attempts import AttemptScene, raising, writing
from tests.support.recording import RecordingTap

from perago.attempt import overlap, transaction
from perago.attempt.execution import FRESH_SECONDS
from perago.conductor.direct_fence import DirectFence
from perago.conductor.port import Polled
from perago.errors import ConductorUnavailable, LakeUnavailable, TaskStatus
from perago.model import Attempt, Outcome, Snapshot
from perago.operate.protocol_check.scene import ref_of

T = TypeVar("T")


def at_once(work: Callable[[], T], /) -> overlap.Begun[T]:
    """As early as a thread could do it."""
    done = work()
    return overlap.Begun(lambda: done, lambda: None)


def run(scene: AttemptScene, polled: Polled, tap: RecordingTap, begin: overlap.Begin = overlap.in_thread) -> Outcome:
    execution = scene.execution(polled.attempt, writing(x=b"2"), tap)
    return transaction.run(replace(execution, begin=begin), polled.input)


# work in a thread


def test_work_runs_in_another_thread_and_returns_its_result() -> None:
    assert overlap.in_thread(threading.get_ident).result() != threading.get_ident()


def test_an_error_is_raised_where_the_result_is_needed() -> None:
    begun = overlap.in_thread(raising(ValueError("in the thread")))
    with pytest.raises(ValueError, match="in the thread"):
        begun.result()


def test_discarded_work_is_waited_for_and_its_error_ignored() -> None:
    ended = threading.Event()

    def work() -> None:
        ended.set()
        raise ValueError

    overlap.in_thread(work).discard()
    assert ended.is_set()


def test_work_that_begins_when_it_is_needed_never_begins_otherwise() -> None:
    overlap.when_needed(raising(AssertionError("begun"))).discard()


# the claim, while lakeFS commits


def test_rivals_may_be_listed_before_the_commit_but_are_revoked_after_it(scene: AttemptScene) -> None:
    older = scene.start()
    stopped = RecordingTap(scene.lake)
    stopped.before["merge"] = raising(LakeUnavailable("away"))
    stopped.before["delete_branch"] = raising(LakeUnavailable("away"))
    assert scene.run(older, writing(x=b"older"), stopped).status is TaskStatus.FAILED
    assert len(scene.own_staging_branches()) == 1
    tap = RecordingTap(scene.lake)
    done = run(scene, scene.retry(older), tap, at_once)
    assert scene.head().id == ref_of(done)
    wanted = ("create_branch", "branches", "commit_branch", "delete_branch", "head", "merge")
    # The last deletion is that of the own branch.
    assert [verb for verb in tap.verbs if verb in wanted] == [
        *("create_branch", "branches", "branches", "commit_branch", "delete_branch", "head", "merge", "delete_branch")
    ]


@pytest.mark.parametrize(("seconds", "listings"), [(0.5, 2), (1.5, 4)])
def test_rivals_are_listed_again_after_a_commit_that_took_long(memory: AttemptScene, seconds: float, listings: int) -> None:
    now = [5.0]
    polled, tap = memory.start(), RecordingTap(memory.lake)
    tap.after["commit_branch"] = lambda: now.append(now[-1] + seconds)
    execution = memory.execution(polled.attempt, writing(x=b"2"), tap)
    done = transaction.run(replace(execution, begin=at_once, clock=lambda: now[-1]), polled.input)
    assert done.status is TaskStatus.COMPLETED
    assert tap.verbs.count("branches") == listings
    assert tap.verbs.index("merge") > max(number for number, verb in enumerate(tap.verbs) if verb == "branches")


def test_an_attempt_with_requests_in_threads_publishes(scene: AttemptScene) -> None:
    published = ref_of(run(scene, scene.start(), RecordingTap(scene.lake)))
    assert scene.head().id == published != scene.a
    assert not scene.own_staging_branches()


@pytest.mark.parametrize("verb", ["branches", "commit_branch"])
def test_an_error_of_either_ends_the_attempt(memory: AttemptScene, verb: str) -> None:
    tap = RecordingTap(memory.lake)
    tap.before[verb] = raising(LakeUnavailable(f"{verb} is away"))
    done = run(memory, memory.start(), tap)
    assert (done.status, done.error, done.reason) == (TaskStatus.FAILED, "LakeUnavailable", f"{verb} is away")
    assert "merge" not in tap.verbs
    assert not memory.own_staging_branches()


# the first fence, right after the poll


class CountingFence(DirectFence):
    snapshots = 0

    def snapshot(self, attempt: Attempt) -> Snapshot:
        CountingFence.snapshots += 1
        return super().snapshot(attempt)


@pytest.mark.parametrize(
    ("since_poll", "snapshots"), [(FRESH_SECONDS / 2, 1), (2 * FRESH_SECONDS, 2)], ids=["just now", "before"]
)
@pytest.mark.parametrize("begin", [overlap.when_needed, overlap.in_thread])
def test_a_reply_to_the_poll_stands_in_for_the_first_fence_only_right_after_it(
    memory: AttemptScene, since_poll: float, snapshots: int, begin: overlap.Begin
) -> None:
    CountingFence.snapshots = 0
    polled = memory.start()
    execution = replace(
        memory.execution(polled.attempt, writing(x=b"2")),
        conductor=CountingFence(memory.conductor),
        clock=lambda: 5.0 + since_poll,
        received_at=5.0,
        begin=begin,
    )
    assert transaction.run(execution, polled.input).status is TaskStatus.COMPLETED
    assert CountingFence.snapshots == snapshots
    created = memory.conductor.workflow_run(polled.attempt.workflow_id).created
    assert memory.head().metadata["perago.workflow_created"] == str(created)


def test_an_attempt_that_is_not_current_right_after_its_poll_publishes_nothing(memory: AttemptScene) -> None:
    polled, tap = memory.start(), RecordingTap(memory.lake)
    memory.conductor.terminate(polled.attempt.workflow_id)
    execution = replace(memory.execution(polled.attempt, writing(x=b"2"), tap), clock=lambda: 5.0, received_at=5.0)
    assert transaction.run(execution, polled.input).error == "StaleAttemptError"
    assert "commit_branch" not in tap.verbs
    assert not memory.own_staging_branches()


# the outcome, before the clean-up


def test_the_outcome_of_a_publication_is_known_before_the_clean_up(memory: AttemptScene) -> None:
    memory.abandon()
    polled, tap = memory.start(), RecordingTap(memory.lake)
    known: list[Outcome] = []

    def conclude(is_announced: Callable[[], bool], completed: Outcome) -> Outcome:
        assert is_announced()
        assert len(memory.own_staging_branches()) == 1
        known.append(completed)
        return completed

    execution = replace(memory.execution(polled.attempt, writing(x=b"2"), tap), conclude=conclude)
    assert known == [transaction.run(execution, polled.input)]
    assert len(known[0].removals) == 1
    assert not memory.own_staging_branches()


def test_a_failure_is_known_when_everything_is_cleaned_up(memory: AttemptScene) -> None:
    polled, tap = memory.start(), RecordingTap(memory.lake)
    tap.before["merge"] = raising(ConductorUnavailable("away"))
    execution = memory.execution(polled.attempt, writing(x=b"2"), tap)
    done = transaction.run(replace(execution, conclude=raising_with_outcome), polled.input)
    assert done.status is TaskStatus.FAILED
    assert done.error == "ConductorUnavailable"


def raising_with_outcome(_: object, completed: Outcome) -> NoReturn:
    raise AssertionError(completed)
