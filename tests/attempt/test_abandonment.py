"""Rule 1 through the whole attempt: what Conductor says of the head's task decides whether it is replaced, moved back or left.

Each row runs with a change and without one, and twice: with the head in place before the attempt begins, when it is refused
before the body runs, and with a head that the early check did not see.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.support.attempts import Bed, writing

from perago import events
from perago.attempt import transaction
from perago.conductor.port import Polled
from perago.errors import TaskStatus
from perago.in_memory.attempt_parts import DictTask, workspace_input
from perago.in_memory.conductor import Step
from perago.in_memory.scenario import TASK, Tap, ref_of, writes
from perago.model import CommitId, Outcome
from perago.protocol.decision import UnlabelledHead

TASKS: dict[str, Callable[[], DictTask]] = {"change": lambda: writing(x=b"2"), "no-op": DictTask}


class Unwarned(Tap):
    """The early check sees the branch at the input."""

    def __init__(self, bed: Bed) -> None:
        super().__init__(bed.lake)
        self._input = bed.a

    def branch(self, *_: Any) -> CommitId:
        return self._input


def published(bed: Bed) -> Polled:
    """An attempt whose publication is on the branch and was not reported."""
    polled = bed.start()
    bed.a = CommitId(polled.input["workspace"]["ref"])
    assert bed.run(polled, writes("earlier")).status is TaskStatus.COMPLETED
    return polled


def accepted(bed: Bed) -> Polled:
    polled = bed.start()
    outcome = bed.run(polled, writes("earlier"))
    assert bed.report(polled, outcome)
    return polled


def two_steps(bed: Bed) -> Polled:
    """Both take the workflow's input; the first is accepted. The second."""
    given = workspace_input(bed.target())
    bed.conductor.start([Step(TASK, "first", given), Step(TASK, "second", given)])
    first = bed.poll()
    assert bed.report(first, bed.run(first, writes("earlier")))
    return bed.poll()


def timed_out(bed: Bed) -> Polled:
    return bed.retry(published(bed))


def failed(bed: Bed) -> Polled:
    first = published(bed)
    assert bed.report(first, Outcome(TaskStatus.FAILED, reason="the report came late"))
    return bed.poll()


def terminated(bed: Bed) -> Polled:
    bed.conductor.terminate(published(bed).attempt.workflow_id)
    return bed.start()


def in_progress_in_an_ended_workflow(bed: Bed) -> Polled:
    first = published(bed)
    bed.conductor.terminate(first.attempt.workflow_id)
    bed.set_task(first, status="IN_PROGRESS")
    polled = bed.start()
    long_after = polled.attempt.start_time + 120_000
    bed.set_task(polled, start_time=long_after)
    return replace(polled, attempt=replace(polled.attempt, start_time=long_after))


def rerun(bed: Bed) -> Polled:
    first = published(bed)
    bed.conductor.rerun(first.attempt.workflow_id, first.attempt.task_id)
    return bed.poll()


def rerun_after_acceptance(bed: Bed) -> Polled:
    first = accepted(bed)
    bed.conductor.rerun(first.attempt.workflow_id, first.attempt.task_id)
    return bed.poll()


def restarted(bed: Bed) -> Polled:
    bed.conductor.restart(published(bed).attempt.workflow_id)
    return bed.poll()


def restarted_after_acceptance(bed: Bed) -> Polled:
    bed.conductor.restart(accepted(bed).attempt.workflow_id)
    return bed.poll()


def completed_with_its_input(bed: Bed) -> Polled:
    bed.set_task(published(bed), status="COMPLETED", output=bed.output_naming(bed.a))
    return bed.start()


def completed_without_workspace(bed: Bed) -> Polled:
    bed.set_task(published(bed), status="COMPLETED", output={"result": {}})
    return bed.start()


def made_by_hand(bed: Bed) -> Polled:
    bed.publish({"in/x": b"by hand"})
    return bed.start()


REPLACED = {
    "timed out, retried": (timed_out, "its task is TIMED_OUT"),
    "failed, retried": (failed, "its task is FAILED"),
    "terminated, another workflow": (terminated, "its task is CANCELED"),
    "in progress in a workflow that is over": (in_progress_in_an_ended_workflow, "its workflow is TERMINATED"),
    "rerun of the same task": (rerun, "an earlier execution of this task made it"),
    "rerun of the same task after acceptance": (rerun_after_acceptance, "an earlier execution of this task made it"),
    "restart": (restarted, "its workflow was restarted"),
    "restart after acceptance": (restarted_after_acceptance, "its workflow was restarted"),
    "completed with its input": (completed_with_its_input, "which Conductor completed with"),
    "completed without a workspace": (completed_without_workspace, "which Conductor completed with no workspace instead"),
    "made by hand": (made_by_hand, "a commit that Perago did not make ('made by hand' by"),
}


def accepted_elsewhere(bed: Bed) -> Polled:
    accepted(bed)
    return bed.start()


def accepted_in_a_workflow_that_is_over(bed: Bed) -> Polled:
    first = accepted(bed)
    assert bed.conductor.workflow_status(first.attempt.workflow_id) == "COMPLETED"
    return bed.start()


def live(bed: Bed) -> Polled:
    published(bed)
    return bed.start()


def live_in_a_paused_workflow(bed: Bed) -> Polled:
    bed.conductor.pause(published(bed).attempt.workflow_id)
    return bed.start()


def handed_back(bed: Bed) -> Polled:
    first = published(bed)
    second = bed.start()
    bed.set_task(first, status="SCHEDULED")
    return second


def unreadable(bed: Bed) -> Polled:
    first = accepted(bed)
    bed.set_task(first, output_is_elsewhere=True)
    return bed.start()


def displaced(bed: Bed) -> Polled:
    first = published(bed)
    bed.set_task(first, status="COMPLETED", output=bed.output_naming("c" * 64))
    return bed.start()


def forgotten(bed: Bed) -> Polled:
    del bed.conductor.tasks[accepted(bed).attempt.task_id]
    return bed.start()


def deleted_in_the_same_run(bed: Bed) -> Polled:
    second = two_steps(bed)
    first = next(row for row in bed.conductor.tasks_of(second.attempt.workflow_id) if row.reference_name == "first")
    del bed.conductor.tasks[first.task_id]
    return second


REFUSED = {
    "accepted in another workflow": (accepted_elsewhere, "Start a new workflow with that commit as workspace.ref"),
    "accepted, workflow over": (accepted_in_a_workflow_that_is_over, "Conductor accepted"),
    "accepted step of this workflow": (two_steps, "Run it after first and wire its workspace to ${first.output.workspace}"),
    "live": (live, "has not reported yet; a retry finds out whether Conductor accepted it"),
    "live, paused": (live_in_a_paused_workflow, "has not reported yet"),
    "scheduled again": (handed_back, "has not reported yet"),
    "output in external storage": (unreadable, "its output is in external storage, so it counts as accepted"),
    "completed with a third commit": (displaced, f"Conductor accepted {'c' * 64}"),
    "unknown, another workflow": (forgotten, "Conductor no longer knows the task that made it"),
    "unknown, same run": (deleted_in_the_same_run, "Conductor has deleted the task that made it"),
}


@dataclass(frozen=True)
class Run:
    outcome: Outcome
    task: DictTask
    verbs: list[str]


def run(bed: Bed, polled: Polled, kind: str, *, warned: bool) -> Run:
    bed.heard.clear()
    task, tap = TASKS[kind](), bed.tap if warned else Unwarned(bed)
    outcome = bed.run(polled, task, tap)
    assert bed.staging_branches() == []
    return Run(outcome, task, tap.verbs)


@pytest.mark.parametrize("warned", [True, False], ids=["seen early", "seen late"])
@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("row", REPLACED)
def test_what_was_not_accepted_is_replaced_or_moved_back_and_recorded(memory: Bed, row: str, kind: str, warned: bool) -> None:
    replaces(memory, row, kind, warned=warned)


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("row", ["timed out, retried", "made by hand"])
def test_the_same_on_a_real_lake(real_bed: Bed, row: str, kind: str) -> None:
    replaces(real_bed, row, kind, warned=False)


def replaces(bed: Bed, row: str, kind: str, *, warned: bool) -> None:
    prepare, why = REPLACED[row]
    polled = prepare(bed)
    gone = bed.head()
    assert gone.parents == (bed.a,)
    ran = run(bed, polled, kind, warned=warned)
    assert ran.outcome.status is TaskStatus.COMPLETED, ran.outcome.reason
    assert ref_of(ran.outcome) == bed.head().id
    if kind == "change":
        assert bed.head().parents == (bed.a,)
        assert bed.content(bed.head().id) == {"in/x": b"2", "other": b"outside"}
    else:
        assert bed.head().id == bed.a
    [removed] = bed.removed()
    removal = events.Removal.REPLACE if kind == "change" else events.Removal.MOVE_BACK
    assert (removed.removal, removed.branch, removed.commit, removed.head) == (removal, "main", gone.id, bed.head().id)
    assert why in removed.why
    assert ran.outcome.removals == (str(removed),)
    assert ran.outcome.task_log == (str(removed),)
    assert bed.report(polled, ran.outcome)
    assert bed.conductor.logs[polled.attempt.task_id] == [str(removed)]


@pytest.mark.parametrize("warned", [True, False], ids=["seen early", "seen late"])
@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("row", REFUSED)
def test_what_may_have_been_accepted_is_refused_and_left_alone(memory: Bed, row: str, kind: str, warned: bool) -> None:
    refuses(memory, row, kind, warned=warned)


@pytest.mark.parametrize("warned", [True, False], ids=["seen early", "seen late"])
@pytest.mark.parametrize("kind", TASKS)
def test_an_accepted_commit_on_a_real_lake_is_left_alone(real_bed: Bed, kind: str, warned: bool) -> None:
    refuses(real_bed, "accepted step of this workflow", kind, warned=warned)


def refuses(bed: Bed, row: str, kind: str, *, warned: bool) -> None:
    prepare, reason = REFUSED[row]
    polled = prepare(bed)
    before = bed.head()
    ran = run(bed, polled, kind, warned=warned)
    assert ran.outcome.status is TaskStatus.FAILED, "a retry may find the branch as it should be"
    assert ran.outcome.output is None
    assert reason in str(ran.outcome.reason)
    assert before.id in str(ran.outcome.reason)
    assert bed.head() == before
    assert bed.removed() == []
    assert ran.outcome.removals == ()
    assert (ran.task.calls == []) is warned
    assert ("objects" in ran.verbs) is not warned


@pytest.mark.parametrize("kind", TASKS)
def test_what_can_only_be_refused_is_refused_on_every_retry_before_anything_is_downloaded(bed: Bed, kind: str) -> None:
    polled = accepted_elsewhere(bed)
    before = bed.head()
    for _ in range(3):
        ran = run(bed, polled, kind, warned=True)
        assert ran.outcome.status is TaskStatus.FAILED
        assert ran.task.calls == []
        assert ran.verbs == ["branch", "commit", "head"]
        assert bed.report(polled, ran.outcome)
        polled = bed.poll()
    assert bed.head() == before


@pytest.mark.parametrize("warned", [True, False], ids=["seen early", "seen late"])
@pytest.mark.parametrize("kind", TASKS)
def test_a_commit_made_by_hand_is_kept_where_the_setting_says_so(bed: Bed, kind: str, warned: bool) -> None:
    polled = made_by_hand(bed)
    before = bed.head()
    task = TASKS[kind]()
    execution = bed.execution(polled.attempt, task, bed.tap if warned else Unwarned(bed))
    outcome = transaction.run(replace(execution, unlabelled=UnlabelledHead.REFUSE), polled.input)
    assert outcome.status is TaskStatus.FAILED
    assert "PERAGO_UNLABELLED_HEAD=refuse keeps it" in str(outcome.reason)
    assert (task.calls == []) is warned
    assert bed.head() == before
    assert bed.removed() == []
    assert bed.staging_branches() == []


def test_once_the_live_attempt_is_given_up_a_retry_replaces_it(bed: Bed) -> None:
    first, second = bed.start(), bed.start()
    assert bed.run(first, writes("earlier")).status is TaskStatus.COMPLETED
    refused = bed.run(second, writing(x=b"2"))
    assert bed.report(second, refused)
    bed.conductor.terminate(first.attempt.workflow_id)
    assert ref_of(bed.run(bed.poll(), writing(x=b"2"))) == bed.head().id
    assert bed.head().parents == (bed.a,)


# the accepted commit was displaced by another execution of its task


def displaced_input(bed: Bed) -> tuple[Polled, CommitId]:
    """After a rerun Conductor took the first execution's report: the branch shows the second's commit. The next step."""
    first = bed.start(steps=2)
    early = bed.run(first, writes("first"))
    bed.conductor.rerun(first.attempt.workflow_id, first.attempt.task_id)
    assert bed.run(bed.poll(), writes("second")).status is TaskStatus.COMPLETED
    bed.conductor.report(first.attempt, early, timeout=1)
    following = bed.poll()
    assert following.input["workspace"]["ref"] == ref_of(early) != bed.head().id
    return following, ref_of(early)


@pytest.mark.parametrize("kind", TASKS)
def test_the_next_step_puts_the_accepted_commit_back(bed: Bed, kind: str) -> None:
    following, right = displaced_input(bed)
    wrong = bed.head()
    outcome = run(bed, following, kind, warned=True).outcome
    assert ref_of(outcome) == bed.head().id
    assert bed.head().parents == (right,) if kind == "change" else bed.head().id == right
    [removed] = bed.removed()
    assert removed.commit == wrong.id
    assert f"which Conductor completed with {right} instead" in removed.why


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("status", ["FAILED", "IN_PROGRESS"])
def test_a_commit_beside_the_input_that_another_task_made_is_left_alone(bed: Bed, kind: str, status: str) -> None:
    following, _ = displaced_input(bed)
    first = next(row for row in bed.conductor.tasks.values() if row.reference_name == "s0")
    bed.conductor.tasks[first.task_id] = replace(first, status=status)
    before = bed.head()
    ran = run(bed, following, kind, warned=True)
    assert ran.outcome.status is TaskStatus.FAILED
    assert "neither the input commit" in str(ran.outcome.reason)
    assert bed.head() == before
