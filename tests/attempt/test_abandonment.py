"""Rule 1 in whole attempts: the state of the head's task in Conductor decides whether the head is replaced or left.

Each row runs with a change and without one, and twice: with the head in place before the attempt begins, when it is refused
before the body runs, and with a head that the early check did not see.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.support.attempts import AttemptScene, writing
from tests.support.recording import RecordingTap, RecordingTask

from perago import events
from perago.attempt import transaction
from perago.conductor.port import Polled
from perago.errors import TaskStatus
from perago.in_memory.conductor_rows import WorkflowStep
from perago.model import CommitId, Outcome
from perago.operate.protocol_check.dict_task import workspace_input
from perago.operate.protocol_check.scene import TASK, ref_of, writes
from perago.protocol.decision import UnlabelledHead

TASKS: dict[str, Callable[[], RecordingTask]] = {"change": lambda: writing(x=b"2"), "no-op": RecordingTask}


class EarlyCheckSeesInput(RecordingTap):
    """A lake whose early check finds the branch at the input, so that the attempt is refused only after the body."""

    def __init__(self, scene: AttemptScene) -> None:
        super().__init__(scene.lake)
        self._input = scene.a

    def branch(self, *_: Any) -> CommitId:
        return self._input


def published(scene: AttemptScene) -> Polled:
    """An attempt whose publication is on the branch and was not reported."""
    polled = scene.start()
    scene.a = CommitId(polled.input["workspace"]["ref"])
    assert scene.run(polled, writes("earlier")).status is TaskStatus.COMPLETED
    return polled


def accepted(scene: AttemptScene) -> Polled:
    polled = scene.start()
    outcome = scene.run(polled, writes("earlier"))
    assert scene.report(polled, outcome)
    return polled


def two_steps(scene: AttemptScene) -> Polled:
    """Two steps that read the workflow's input, of which the first is accepted; returns the second."""
    given = workspace_input(scene.target())
    scene.conductor.start([WorkflowStep(TASK, "first", given), WorkflowStep(TASK, "second", given)])
    first = scene.poll()
    assert scene.report(first, scene.run(first, writes("earlier")))
    return scene.poll()


def timed_out(scene: AttemptScene) -> Polled:
    return scene.retry(published(scene))


def failed(scene: AttemptScene) -> Polled:
    first = published(scene)
    assert scene.report(first, Outcome(TaskStatus.FAILED, reason="the report came late"))
    return scene.poll()


def terminated(scene: AttemptScene) -> Polled:
    scene.conductor.terminate(published(scene).attempt.workflow_id)
    return scene.start()


def in_progress_in_an_ended_workflow(scene: AttemptScene) -> Polled:
    first = published(scene)
    scene.conductor.terminate(first.attempt.workflow_id)
    scene.set_task(first, status="IN_PROGRESS")
    polled = scene.start()
    long_after = polled.attempt.start_time + 120_000
    scene.set_task(polled, start_time=long_after)
    return replace(polled, attempt=replace(polled.attempt, start_time=long_after))


def rerun(scene: AttemptScene) -> Polled:
    first = published(scene)
    scene.conductor.rerun(first.attempt.workflow_id, first.attempt.task_id)
    return scene.poll()


def rerun_after_acceptance(scene: AttemptScene) -> Polled:
    first = accepted(scene)
    scene.conductor.rerun(first.attempt.workflow_id, first.attempt.task_id)
    return scene.poll()


def restarted(scene: AttemptScene) -> Polled:
    scene.conductor.restart(published(scene).attempt.workflow_id)
    return scene.poll()


def restarted_after_acceptance(scene: AttemptScene) -> Polled:
    scene.conductor.restart(accepted(scene).attempt.workflow_id)
    return scene.poll()


def completed_with_its_input(scene: AttemptScene) -> Polled:
    scene.set_task(published(scene), status="COMPLETED", output=scene.output_naming(scene.a))
    return scene.start()


def completed_without_workspace(scene: AttemptScene) -> Polled:
    scene.set_task(published(scene), status="COMPLETED", output={"result": {}})
    return scene.start()


def made_by_hand(scene: AttemptScene) -> Polled:
    scene.publish({"in/x": b"by hand"})
    return scene.start()


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


def accepted_elsewhere(scene: AttemptScene) -> Polled:
    accepted(scene)
    return scene.start()


def accepted_in_a_workflow_that_is_over(scene: AttemptScene) -> Polled:
    first = accepted(scene)
    assert scene.conductor.workflow_status(first.attempt.workflow_id) == "COMPLETED"
    return scene.start()


def live(scene: AttemptScene) -> Polled:
    published(scene)
    return scene.start()


def live_in_a_paused_workflow(scene: AttemptScene) -> Polled:
    scene.conductor.pause(published(scene).attempt.workflow_id)
    return scene.start()


def handed_back(scene: AttemptScene) -> Polled:
    first = published(scene)
    second = scene.start()
    scene.set_task(first, status="SCHEDULED")
    return second


def unreadable(scene: AttemptScene) -> Polled:
    first = accepted(scene)
    scene.set_task(first, output_is_elsewhere=True)
    return scene.start()


def displaced(scene: AttemptScene) -> Polled:
    first = published(scene)
    scene.set_task(first, status="COMPLETED", output=scene.output_naming("c" * 64))
    return scene.start()


def forgotten(scene: AttemptScene) -> Polled:
    del scene.conductor.tasks[accepted(scene).attempt.task_id]
    return scene.start()


def deleted_in_the_same_run(scene: AttemptScene) -> Polled:
    second = two_steps(scene)
    first = next(row for row in scene.conductor.tasks_of(second.attempt.workflow_id) if row.reference_name == "first")
    del scene.conductor.tasks[first.task_id]
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
    task: RecordingTask
    verbs: list[str]


def run(scene: AttemptScene, polled: Polled, kind: str, *, warned: bool) -> Run:
    scene.heard.clear()
    task, tap = TASKS[kind](), scene.tap if warned else EarlyCheckSeesInput(scene)
    outcome = scene.run(polled, task, tap)
    assert scene.staging_branches() == []
    return Run(outcome, task, tap.verbs)


@pytest.mark.parametrize("warned", [True, False], ids=["seen early", "seen late"])
@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("row", REPLACED)
def test_what_was_not_accepted_is_replaced_or_moved_back_and_recorded(
    memory: AttemptScene, row: str, kind: str, warned: bool
) -> None:
    replaces(memory, row, kind, warned=warned)


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("row", ["timed out, retried", "made by hand"])
def test_the_same_on_a_real_lake(real_scene: AttemptScene, row: str, kind: str) -> None:
    replaces(real_scene, row, kind, warned=False)


def replaces(scene: AttemptScene, row: str, kind: str, *, warned: bool) -> None:
    prepare, why = REPLACED[row]
    polled = prepare(scene)
    gone = scene.head()
    assert gone.parents == (scene.a,)
    ran = run(scene, polled, kind, warned=warned)
    assert ran.outcome.status is TaskStatus.COMPLETED, ran.outcome.reason
    assert ref_of(ran.outcome) == scene.head().id
    if kind == "change":
        assert scene.head().parents == (scene.a,)
        assert scene.content(scene.head().id) == {"in/x": b"2", "other": b"outside"}
    else:
        assert scene.head().id == scene.a
    [removed] = scene.removed()
    removal = events.Removal.REPLACE if kind == "change" else events.Removal.MOVE_BACK
    assert (removed.removal, removed.branch, removed.commit, removed.head) == (removal, "main", gone.id, scene.head().id)
    assert why in removed.why
    assert ran.outcome.removals == (str(removed),)
    assert ran.outcome.task_log == (str(removed),)
    assert scene.report(polled, ran.outcome)
    assert scene.conductor.logs[polled.attempt.task_id] == [str(removed)]


@pytest.mark.parametrize("warned", [True, False], ids=["seen early", "seen late"])
@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("row", REFUSED)
def test_what_may_have_been_accepted_is_refused_and_left_alone(memory: AttemptScene, row: str, kind: str, warned: bool) -> None:
    refuses(memory, row, kind, warned=warned)


@pytest.mark.parametrize("warned", [True, False], ids=["seen early", "seen late"])
@pytest.mark.parametrize("kind", TASKS)
def test_an_accepted_commit_on_a_real_lake_is_left_alone(real_scene: AttemptScene, kind: str, warned: bool) -> None:
    refuses(real_scene, "accepted step of this workflow", kind, warned=warned)


def refuses(scene: AttemptScene, row: str, kind: str, *, warned: bool) -> None:
    prepare, reason = REFUSED[row]
    polled = prepare(scene)
    before = scene.head()
    ran = run(scene, polled, kind, warned=warned)
    assert ran.outcome.status is TaskStatus.FAILED, "a retry may find the branch as it should be"
    assert ran.outcome.output is None
    assert reason in str(ran.outcome.reason)
    assert before.id in str(ran.outcome.reason)
    assert scene.head() == before
    assert scene.removed() == []
    assert ran.outcome.removals == ()
    assert (ran.task.calls == []) is warned
    assert ("objects" in ran.verbs) is not warned


@pytest.mark.parametrize("kind", TASKS)
def test_what_can_only_be_refused_is_refused_on_every_retry_before_anything_is_downloaded(scene: AttemptScene, kind: str) -> None:
    polled = accepted_elsewhere(scene)
    before = scene.head()
    for _ in range(3):
        ran = run(scene, polled, kind, warned=True)
        assert ran.outcome.status is TaskStatus.FAILED
        assert ran.task.calls == []
        assert ran.verbs == ["branch", "commit", "head"]
        assert scene.report(polled, ran.outcome)
        polled = scene.poll()
    assert scene.head() == before


@pytest.mark.parametrize("warned", [True, False], ids=["seen early", "seen late"])
@pytest.mark.parametrize("kind", TASKS)
def test_a_commit_made_by_hand_is_kept_where_the_setting_says_so(scene: AttemptScene, kind: str, warned: bool) -> None:
    polled = made_by_hand(scene)
    before = scene.head()
    task = TASKS[kind]()
    execution = scene.execution(polled.attempt, task, scene.tap if warned else EarlyCheckSeesInput(scene))
    outcome = transaction.run(replace(execution, unlabelled=UnlabelledHead.REFUSE), polled.input)
    assert outcome.status is TaskStatus.FAILED
    assert "PERAGO_UNLABELLED_HEAD=refuse keeps it" in str(outcome.reason)
    assert (task.calls == []) is warned
    assert scene.head() == before
    assert scene.removed() == []
    assert scene.staging_branches() == []


def test_once_the_live_attempt_is_given_up_a_retry_replaces_it(scene: AttemptScene) -> None:
    first, second = scene.start(), scene.start()
    assert scene.run(first, writes("earlier")).status is TaskStatus.COMPLETED
    refused = scene.run(second, writing(x=b"2"))
    assert scene.report(second, refused)
    scene.conductor.terminate(first.attempt.workflow_id)
    assert ref_of(scene.run(scene.poll(), writing(x=b"2"))) == scene.head().id
    assert scene.head().parents == (scene.a,)


# the accepted commit was displaced by another execution of its task


def displaced_input(scene: AttemptScene) -> tuple[Polled, CommitId]:
    """After a rerun Conductor accepted the first execution, but the branch shows the second's commit; returns the next step."""
    first = scene.start(steps=2)
    early = scene.run(first, writes("first"))
    scene.conductor.rerun(first.attempt.workflow_id, first.attempt.task_id)
    assert scene.run(scene.poll(), writes("second")).status is TaskStatus.COMPLETED
    scene.conductor.report(first.attempt, early, timeout=1)
    following = scene.poll()
    assert following.input["workspace"]["ref"] == ref_of(early) != scene.head().id
    return following, ref_of(early)


@pytest.mark.parametrize("kind", TASKS)
def test_the_next_step_puts_the_accepted_commit_back(scene: AttemptScene, kind: str) -> None:
    following, right = displaced_input(scene)
    wrong = scene.head()
    outcome = run(scene, following, kind, warned=True).outcome
    assert ref_of(outcome) == scene.head().id
    assert scene.head().parents == (right,) if kind == "change" else scene.head().id == right
    [removed] = scene.removed()
    assert removed.commit == wrong.id
    assert f"which Conductor completed with {right} instead" in removed.why


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("status", ["FAILED", "IN_PROGRESS"])
def test_a_commit_beside_the_input_that_another_task_made_is_left_alone(scene: AttemptScene, kind: str, status: str) -> None:
    following, _ = displaced_input(scene)
    first = next(row for row in scene.conductor.tasks.values() if row.reference_name == "s0")
    scene.conductor.tasks[first.task_id] = replace(first, status=status)
    before = scene.head()
    ran = run(scene, following, kind, warned=True)
    assert ran.outcome.status is TaskStatus.FAILED
    assert "neither the input commit" in str(ran.outcome.reason)
    assert scene.head() == before
