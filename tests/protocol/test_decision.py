"""The decision for every combination of its inputs, and the messages of its refusals."""

import itertools
from dataclasses import replace

import pytest

from perago.model import (
    Attempt,
    BranchName,
    CommitId,
    MetaRangeId,
    Repository,
    StagedCommit,
    TaskId,
    TaskType,
    WorkerId,
    WorkflowId,
)
from perago.protocol import commit_labels
from perago.protocol.decision import Keep, Merge, MoveBack, Plan, Refuse, Replace, UnlabelledHead, decide, refusal
from perago.protocol.head import (
    Abandoned,
    Acceptance,
    AcceptedCommit,
    CompletedOtherwise,
    Head,
    InProgress,
    Place,
    Undecidable,
    Unlabelled,
)

A, H, OTHER = CommitId("input"), CommitId("head"), CommitId("other")
OWN = Attempt(WorkflowId("w-own"), TaskId("t-own"), 1, "here", 3, 0, TaskType("x"), WorkerId("n"), 1234, 1)
STAGED = StagedCommit(Repository("r"), BranchName("staging"), CommitId("staged"), MetaRangeId("content"))
BY = commit_labels.Labels(WorkflowId("w-by"), TaskId("t-by"), "before", 4000)

ABANDONED = Abandoned(BY, "its task is TIMED_OUT")
UNLABELLED = Unlabelled("fix a typo", "a person")
MOVED_BACK = CompletedOtherwise(BY, A)
WITHOUT_WORKSPACE = CompletedOtherwise(BY, None)
MUST_STAY: list[Acceptance] = [
    AcceptedCommit(BY, "flow"),
    AcceptedCommit(BY, "flow", is_readable=False),
    InProgress(BY, "flow"),
    CompletedOtherwise(BY, OTHER),
    Undecidable(BY, "Conductor no longer knows the task that made it"),
]
BOTH = [True, False]
WHY_ABANDONED = "the publication of step before of workflow w-by, which Conductor did not accept: its task is TIMED_OUT"
WHY_MOVED_BACK = "the publication of step before of workflow w-by, which Conductor completed with input instead"
WHY_WITHOUT = "the publication of step before of workflow w-by, which Conductor completed with no workspace instead"
WHY_UNLABELLED = "a commit that Perago did not make ('fix a typo' by a person)"


def plan(
    place: Place,
    acceptance: Acceptance | None = None,
    *,
    empty: bool = False,
    unlabelled: UnlabelledHead = UnlabelledHead.REPLACE,
    own: Attempt = OWN,
) -> Plan:
    target = Head(A if place is Place.AT_INPUT else H, place, acceptance)
    return decide(own, A, target, None if empty else STAGED, unlabelled)


def reason(
    place: Place, acceptance: Acceptance | None, own: Attempt = OWN, unlabelled: UnlabelledHead = UnlabelledHead.REPLACE
) -> str:
    made = plan(place, acceptance, own=own, unlabelled=unlabelled)
    assert isinstance(made, Refuse)
    return made.reason


HEADS: list[tuple[Place, Acceptance | None]] = [
    (Place.AT_INPUT, None),
    *itertools.product([Place.ON_INPUT, Place.BESIDE_INPUT], [ABANDONED, MOVED_BACK, WITHOUT_WORKSPACE, *MUST_STAY, UNLABELLED]),
    (Place.ELSEWHERE, None),
]
MAY_GO: dict[tuple[Place, Acceptance | None, UnlabelledHead], str] = {
    **{(Place.ON_INPUT, ABANDONED, setting): WHY_ABANDONED for setting in UnlabelledHead},
    **{(Place.ON_INPUT, MOVED_BACK, setting): WHY_MOVED_BACK for setting in UnlabelledHead},
    **{(Place.ON_INPUT, WITHOUT_WORKSPACE, setting): WHY_WITHOUT for setting in UnlabelledHead},
    (Place.ON_INPUT, UNLABELLED, UnlabelledHead.REPLACE): WHY_UNLABELLED,
    **{(Place.BESIDE_INPUT, MOVED_BACK, setting): WHY_MOVED_BACK for setting in UnlabelledHead},
}
"""All else is refused. Beside the input a commit may go only if Conductor accepted the input in its place."""


def expected(place: Place, acceptance: Acceptance | None, setting: UnlabelledHead, *, empty: bool) -> Plan | type[Refuse]:
    if place is Place.AT_INPUT:
        return Keep(A) if empty else Merge(STAGED)
    why = MAY_GO.get((place, acceptance, setting))
    if why is None:
        return Refuse
    return MoveBack(A, H, why) if empty else Replace(STAGED, H, why)


@pytest.mark.parametrize("setting", UnlabelledHead)
@pytest.mark.parametrize("empty", BOTH)
@pytest.mark.parametrize(("place", "acceptance"), HEADS)
def test_every_head(place: Place, acceptance: Acceptance | None, empty: bool, setting: UnlabelledHead) -> None:
    made, wanted = plan(place, acceptance, empty=empty, unlabelled=setting), expected(place, acceptance, setting, empty=empty)
    if wanted is Refuse:
        assert isinstance(made, Refuse)
        assert H in made.reason
    else:
        assert made == wanted


@pytest.mark.parametrize("setting", UnlabelledHead)
@pytest.mark.parametrize(("place", "acceptance"), HEADS)
def test_early_refusal_is_the_refusal_of_the_decision(
    place: Place, acceptance: Acceptance | None, setting: UnlabelledHead
) -> None:
    target = Head(A if place is Place.AT_INPUT else H, place, acceptance)
    decided = decide(OWN, A, target, STAGED, setting)
    assert refusal(OWN, A, target, setting) == (decided if isinstance(decided, Refuse) else None)


def test_a_head_on_the_input_that_was_not_judged_is_never_decided_about() -> None:
    with pytest.raises(AssertionError):
        plan(Place.ON_INPUT, None)


def test_the_default_replaces_a_commit_without_labels() -> None:
    target = Head(H, Place.ON_INPUT, UNLABELLED)
    assert isinstance(decide(OWN, A, target, STAGED), Replace)


@pytest.mark.parametrize("acceptance", [ABANDONED, WITHOUT_WORKSPACE, UNLABELLED, *MUST_STAY])
def test_beside_the_input_a_refusal_is_that_of_any_other_head(acceptance: Acceptance) -> None:
    assert reason(Place.BESIDE_INPUT, acceptance) == reason(Place.ELSEWHERE, None)


# words


def test_any_other_head_is_named_with_the_input_and_what_to_do() -> None:
    assert reason(Place.ELSEWHERE, None) == (
        "the target branch is at head, which is neither the input commit input nor directly after it; "
        "start a new workflow from the branch's present head"
    )


def test_accepted_from_another_workflow_says_which_commit_to_start_from() -> None:
    assert reason(Place.ON_INPUT, AcceptedCommit(BY, "flow")) == (
        "Conductor accepted head from step before of workflow flow w-by, and this step would remove it: "
        "it starts from an older commit. Start a new workflow with that commit as workspace.ref; "
        "wire a sub-workflow to the workspace that the one before it left"
    )


def test_accepted_from_a_step_of_this_workflow_says_what_to_wire() -> None:
    same = replace(BY, workflow_id=OWN.workflow_id)
    said = reason(Place.ON_INPUT, AcceptedCommit(same, "flow"))
    assert said.startswith("Conductor accepted head from step before of workflow flow w-own, and this step would remove it")
    assert said.endswith("Run it after before and wire its workspace to ${before.output.workspace}")


def test_accepted_from_a_step_in_a_loop_is_wired_by_its_plain_name() -> None:
    same = replace(BY, workflow_id=OWN.workflow_id, reference_name="before__12")
    assert reason(Place.ON_INPUT, AcceptedCommit(same, "flow")).endswith("wire its workspace to ${before.output.workspace}")


@pytest.mark.parametrize(("before", "here"), [("body__1", "body__2"), ("body", "body"), ("body", "body__2")])
def test_accepted_from_an_earlier_iteration_of_the_same_step_says_so(before: str, here: str) -> None:
    same = replace(BY, workflow_id=OWN.workflow_id, reference_name=before)
    said = reason(Place.ON_INPUT, AcceptedCommit(same, "flow"), replace(OWN, reference_name=here))
    assert f"step {before} of workflow flow w-own" in said
    assert "A step in a loop has to take the workspace that the iteration before it left" in said


def test_a_name_with_underscores_is_no_iteration() -> None:
    same = replace(BY, workflow_id=OWN.workflow_id, reference_name="load__raw")
    assert "${load__raw.output.workspace}" in reason(Place.ON_INPUT, AcceptedCommit(same, "flow"))


def test_an_output_that_cannot_be_read_is_said() -> None:
    said = reason(Place.ON_INPUT, AcceptedCommit(BY, "flow", is_readable=False))
    assert "its output is in external storage, so it counts as accepted" in said
    assert "step before of workflow flow w-by" in said


def test_live_work_says_that_a_retry_may_pass() -> None:
    assert reason(Place.ON_INPUT, InProgress(BY, "flow")) == (
        "step before of workflow flow w-by has published head on this attempt's input and has not reported yet; "
        "a retry finds out whether Conductor accepted it"
    )


def test_a_workflow_without_a_name_is_named_by_its_id() -> None:
    assert reason(Place.ON_INPUT, InProgress(BY, "")).startswith("step before of workflow w-by has published")


def test_a_displaced_commit_says_what_was_accepted_and_how_to_put_it_back() -> None:
    assert reason(Place.ON_INPUT, CompletedOtherwise(BY, OTHER)) == (
        "the target branch shows head, but Conductor accepted other from step before of workflow w-by; "
        "run `perago recover` to put that commit back"
    )


def test_what_cannot_be_decided_says_why_and_what_to_do() -> None:
    assert reason(Place.ON_INPUT, Undecidable(BY, "Conductor no longer knows the task that made it")) == (
        "the target branch is at head, made by step before of workflow w-by: Conductor no longer knows the task that made it, "
        "so it may have been accepted; start a new workflow from it, or run `perago recover`"
    )


def test_a_kept_commit_without_labels_is_shown_with_its_author_and_the_setting() -> None:
    said = reason(Place.ON_INPUT, UNLABELLED, unlabelled=UnlabelledHead.REFUSE)
    assert said == (
        f"the target branch is at head, {WHY_UNLABELLED}, and PERAGO_UNLABELLED_HEAD=refuse keeps it; "
        "start a new workflow from it, or move the branch back"
    )
    unknown = reason(Place.ON_INPUT, Unlabelled("", ""), unlabelled=UnlabelledHead.REFUSE)
    assert "by unknown" in unknown


@pytest.mark.parametrize("acceptance", MUST_STAY)
def test_every_refusal_about_a_task_names_step_and_workflow(acceptance: Acceptance) -> None:
    said = reason(Place.ON_INPUT, acceptance)
    assert "before" in said
    assert "w-by" in said


@pytest.mark.parametrize("unlabelled", UnlabelledHead)
@pytest.mark.parametrize("command", ["protect", "undo"])
def test_the_commit_of_a_command_stays_with_either_setting(unlabelled: UnlabelledHead, command: str) -> None:
    kept = reason(Place.ON_INPUT, Unlabelled("a message", "a person", command), unlabelled=unlabelled)
    assert kept == f"the target branch is at head, made by `perago {command}`; start a new workflow from it"
