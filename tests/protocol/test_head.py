"""What the answer of Conductor means for the head of the target branch: every row of the table of rule 1."""

from dataclasses import replace
from typing import Any

import pytest

from perago.model import Attempt, Commit, CommitId, MetaRangeId, Snapshot, TaskId, TaskType, WorkerId, WorkflowId
from perago.protocol import commit_labels, head

A, H, OTHER = CommitId("a"), CommitId("h"), CommitId("other")
OWN = Attempt(WorkflowId("w-own"), TaskId("t-own"), 1, "here", 3, 0, TaskType("x"), WorkerId("n"), 1_234_567, 1)
OWN_RUN = 5000
BY = commit_labels.Labels(WorkflowId("w-by"), TaskId("t-by"), "before", 4000, "0", "e1")
OVER = ["FAILED", "FAILED_WITH_TERMINAL_ERROR", "TIMED_OUT", "CANCELED", "SKIPPED", "COMPLETED_WITH_ERRORS"]
UNFINISHED = ["SCHEDULED", "IN_PROGRESS"]


def commit(by: commit_labels.Labels | None = BY) -> Commit:
    metadata: dict[str, str] = {}
    if by is not None:
        metadata = {"perago.workflow": by.workflow_id, "perago.task_id": by.task_id, "perago.task": by.reference_name}
        metadata |= {"perago.attempt": by.attempt, "perago.execution": by.execution}
        metadata |= {} if by.workflow_created is None else {"perago.workflow_created": str(by.workflow_created)}
    return Commit(H, (A,), MetaRangeId("m"), "a message", metadata, "a person")


def seen(status: str, output: Any = None, **more: Any) -> Snapshot:
    found = Snapshot(BY.workflow_id, BY.task_id, 0, status, WorkerId("n"), 1, 1, "RUNNING", output or {}, workflow_name="flow")
    return replace(found, **more)


def judged(found: Snapshot | None, by: commit_labels.Labels | None = BY) -> head.Acceptance:
    return head.judge(commit(by), found, own=OWN, own_run=OWN_RUN)


def names(ref: str) -> dict[str, Any]:
    return {"workspace": {"repository": "r", "branch": "main", "ref_type": "commit", "ref": ref}, "result": {}}


def test_completed_with_this_commit_is_accepted() -> None:
    assert judged(seen("COMPLETED", names(H))) == head.AcceptedCommit(BY, "flow")


def test_an_output_in_external_storage_counts_as_accepted() -> None:
    found = seen("COMPLETED", {}, output_is_elsewhere=True)
    assert judged(found) == head.AcceptedCommit(BY, "flow", is_readable=False)


@pytest.mark.parametrize(
    "output",
    [
        {},
        {"result": {"rows": 1}},
        {"workspace": None},
        {"workspace": "h"},
        {"workspace": {}},
        {"workspace": {"ref": None}},
        {"workspace": {"ref": 7}},
        {"workspace": {"ref": ""}},
    ],
)
def test_completed_without_a_commit_is_completed_otherwise(output: dict[str, Any]) -> None:
    assert judged(seen("COMPLETED", output)) == head.CompletedOtherwise(BY, None)


@pytest.mark.parametrize("ref", [A, OTHER], ids=["the input", "a third commit"])
def test_completed_with_another_commit_is_completed_otherwise(ref: CommitId) -> None:
    assert judged(seen("COMPLETED", names(ref))) == head.CompletedOtherwise(BY, ref)


@pytest.mark.parametrize("workflow_status", ["COMPLETED", "FAILED", "TERMINATED", "TIMED_OUT", "PAUSED", "RUNNING", ""])
def test_a_completed_task_counts_whatever_became_of_its_workflow(workflow_status: str) -> None:
    assert judged(seen("COMPLETED", names(H), workflow_status=workflow_status)) == head.AcceptedCommit(BY, "flow")


@pytest.mark.parametrize("status", OVER)
@pytest.mark.parametrize("output", [{}, names(H)], ids=["no output", "an output that names it"])
def test_a_task_that_is_over_and_was_not_completed_is_abandoned(status: str, output: dict[str, Any]) -> None:
    assert judged(seen(status, output)) == head.Abandoned(BY, f"its task is {status}")
    assert judged(seen(status, output, output_is_elsewhere=True)) == head.Abandoned(BY, f"its task is {status}")


@pytest.mark.parametrize("status", UNFINISHED)
def test_an_unfinished_task_is_live_unless_it_is_this_one(status: str) -> None:
    assert judged(seen(status)) == head.InProgress(BY, "flow")
    own = replace(BY, workflow_id=OWN.workflow_id, task_id=OWN.task_id)
    assert judged(seen(status), own) == head.Abandoned(own, "an earlier execution of this task made it")


@pytest.mark.parametrize("status", UNFINISHED)
def test_an_unfinished_task_of_the_same_workflow_is_live_too(status: str) -> None:
    lane = replace(BY, workflow_id=OWN.workflow_id)
    assert judged(seen(status), lane) == head.InProgress(lane, "flow")


@pytest.mark.parametrize("status", UNFINISHED)
def test_an_unfinished_task_of_a_paused_workflow_is_live(status: str) -> None:
    assert judged(seen(status, workflow_status="PAUSED")) == head.InProgress(BY, "flow")


@pytest.mark.parametrize("status", UNFINISHED)
@pytest.mark.parametrize("workflow_status", ["TERMINATED", "FAILED", "TIMED_OUT", "COMPLETED"])
def test_an_unfinished_task_of_a_workflow_that_ended_long_ago_is_abandoned(status: str, workflow_status: str) -> None:
    answer = replace(seen(status, workflow_status=workflow_status), workflow_ended=OWN.start_time - 60_001)
    assert judged(answer) == head.Abandoned(BY, f"its workflow is {workflow_status}")


@pytest.mark.parametrize("ended", [OWN.start_time - 60_000, OWN.start_time + 1, 0])
@pytest.mark.parametrize("status", UNFINISHED)
def test_an_unfinished_task_of_a_workflow_that_ended_just_now_may_have_been_reported_between_the_reads(
    status: str, ended: int
) -> None:
    answer = replace(seen(status, workflow_status="COMPLETED"), workflow_ended=ended)
    assert judged(answer) == head.InProgress(BY, "flow")


@pytest.mark.parametrize("created", [OWN_RUN, OWN_RUN - 1, None])
def test_an_unknown_task_of_another_workflow_is_undecidable(created: int | None) -> None:
    by = replace(BY, workflow_created=created)
    assert judged(None, by) == head.Undecidable(by, "Conductor no longer knows the task that made it")


def test_an_unknown_task_of_this_workflow_before_its_restart_is_abandoned() -> None:
    by = replace(BY, workflow_id=OWN.workflow_id, workflow_created=OWN_RUN - 1)
    assert judged(None, by) == head.Abandoned(by, "its workflow was restarted")


@pytest.mark.parametrize("created", [OWN_RUN, None], ids=["same run", "label of the first edition"])
def test_an_unknown_task_of_this_workflow_in_the_same_run_is_undecidable(created: int | None) -> None:
    by = replace(BY, workflow_id=OWN.workflow_id, workflow_created=created)
    acceptance = judged(None, by)
    assert isinstance(acceptance, head.Undecidable)
    assert "Conductor has deleted the task that made it" in acceptance.why


@pytest.mark.parametrize("found", [None, seen("COMPLETED", names(H)), seen("FAILED")])
def test_a_commit_without_labels_is_unlabelled_whatever_conductor_says(found: Snapshot | None) -> None:
    assert judged(found, None) == head.Unlabelled("a message", "a person")


@pytest.mark.parametrize(
    ("commit_id", "parents", "place"),
    [
        (A, (), head.Place.AT_INPUT),
        (A, (OTHER,), head.Place.AT_INPUT),
        (H, (A,), head.Place.ON_INPUT),
        (H, (A, OTHER), head.Place.ON_INPUT),
        (H, (OTHER, A), head.Place.ELSEWHERE),
        (H, (OTHER,), head.Place.ELSEWHERE),
        (H, (), head.Place.ELSEWHERE),
    ],
)
def test_the_place_is_that_of_the_first_parent(commit_id: CommitId, parents: tuple[CommitId, ...], place: head.Place) -> None:
    assert head.place(Commit(commit_id, parents, MetaRangeId("m")), A) is place


@pytest.mark.parametrize("status", [*OVER, *UNFINISHED])
def test_only_a_completed_task_has_an_accepted_commit(status: str) -> None:
    assert head.accepted_ref(seen("COMPLETED", names(H))) == H
    assert head.accepted_ref(seen(status, names(H))) is None
