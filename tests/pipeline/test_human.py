"""`flow.human`: what it compiles to, how it is drawn, what `perago check` says of it, and its answers in a local run."""

from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel
from tests.support.pipeline_tasks import write
from tests.support.tasks.chain.write import write as write_file
from tests.support.workflow_json import EVERY_TASK, findings

from perago import Flow, WorkspaceSpec, forbid_glob, pipeline, require_glob, require_table
from perago.declare import human_form
from perago.errors import SetupError, TaskDefinitionError
from perago.pipelines import compiler, graph, tree
from perago.pipelines.flow import pipeline_of
from perago.testing import run_pipeline

OWNER = "tests@example.com"
SPEC = WorkspaceSpec(prefix="/prices", pre=[require_glob("*.csv", min_count=2)], post=[forbid_glob("**/*.tmp")])


class Question(BaseModel):
    total: int
    workspace: str = "a ${text}"


class Decision(BaseModel):
    verdict: Literal["yes", "no"]
    note: str = ""


class Inputs(BaseModel):
    total: int = 3


class Result(BaseModel):
    verdict: str


@pipeline(name="tests.review", owner_email=OWNER)
def review(flow: Flow, inputs: Inputs) -> Result:
    decision = flow.human("review", Question, Decision, workspace=SPEC, total=inputs.total, workspace_="${x}")
    with flow.when(decision.verdict == "no"):
        flow.human("explain", Question, Decision, total=1)
    flow.step(write, text=decision.note)
    return Result(verdict=decision.verdict)


@pipeline(name="tests.calling", owner_email=OWNER)
def calling(flow: Flow) -> None:
    with flow.fork() as fork:
        with fork.lane("person"):
            flow.human("look", Question, Decision, workspace=WorkspaceSpec(prefix="/a"), total=1)
        with fork.lane("reader"):
            flow.human("read", Question, Decision, workspace=WorkspaceSpec(read_only=True), total=1)
    with flow.repeat(at_most=2):
        flow.human("again", Question, Decision, workspace=WorkspaceSpec(), total=1)
    flow.call(review)


def declared(function: Any) -> graph.Pipeline:
    found = pipeline_of(function)
    assert found is not None
    return found


def test_a_human_step_becomes_a_human_task_whose_input_has_the_workspace_the_question_and_the_form() -> None:
    first, *_ = compiler.workflow(declared(review))["tasks"]
    assert (first["type"], first["taskReferenceName"]) == ("HUMAN", "review")
    given = first["inputParameters"]
    assert given["workspace"] == "${workflow.input.workspace}"
    assert given["question"] == {"total": "${workflow.input.total}", "workspace": "$${x}"}
    assert given["form"]["version"] == human_form.VERSION
    assert given["form"]["workspace"] == {
        "prefix": "/prices",
        "read_only": False,
        "pre": [{"require_glob": "*.csv", "min_count": 2}],
        "post": [{"forbid_glob": "**/*.tmp"}],
    }
    workspace = {"repository": "r", "branch": "main", "ref_type": "commit", "ref": "c"}
    arrived = {**given, "workspace": workspace, "question": {"total": 1}}
    assert human_form.read(arrived).form == human_form.of(Decision, SPEC)


def test_the_workspace_goes_through_it_unless_it_only_reads() -> None:
    made = compiler.workflow(declared(review))
    switch, step = made["tasks"][1:3]
    assert "workspace" not in switch["decisionCases"]["true"][0]["inputParameters"]
    assert step["inputParameters"]["workspace"] == "${review.output.workspace}"
    assert step["inputParameters"]["params"]["text"] == "${review.output.result.note}"
    assert made["outputParameters"]["verdict"] == "${review.output.result.verdict}"
    assert declared(calling).has_workspace
    joined = compiler.workflow(declared(calling))["tasks"][3]["inputParameters"]
    assert joined["params"]["lanes"] == {"person": "${look.output.workspace}"}


def test_it_is_drawn() -> None:
    assert tree.lines(declared(review))[1:4] == [
        '├─ review (a person, may edit /prices): total = inputs.total, workspace = "${x}"',
        '├─ when review.verdict == "no"',
        "│  └─ explain (a person, no workspace): total = 1",
    ]
    assert any("read (a person, reads /)" in line for line in tree.lines(declared(calling)))


@pytest.mark.parametrize("function", [review, calling])
def test_what_it_compiles_to_passes_the_check_of_workflow_definitions(function: Any) -> None:
    called = [compiler.workflow(one) for one in declared(function).called()]
    assert findings(compiler.workflow(declared(function)), EVERY_TASK, called) == []


def test_the_check_of_workflow_definitions_follows_the_workspace_through_a_human_task() -> None:
    made = compiler.workflow(declared(review))
    made["tasks"][2]["inputParameters"]["workspace"] = "${workflow.input.workspace}"
    ((_, ref, text),) = findings(made)
    assert ref == "write"
    assert "${review.output.workspace}" in text
    made = compiler.workflow(declared(review))
    made["tasks"][2]["inputParameters"]["params"]["text"] = "${review.output.result.notes}"
    ((_, ref, text),) = findings(made)
    assert "has no field notes" in text
    # A person who may only read leaves the workspace as it was.
    made = compiler.workflow(declared(review))
    made["tasks"][0]["inputParameters"]["form"]["workspace"]["read_only"] = True
    made["tasks"][2]["inputParameters"]["workspace"] = "${workflow.input.workspace}"
    assert findings(made) == []


# local runs


@pipeline(name="tests.edited", owner_email=OWNER)
def edited(flow: Flow) -> Result:
    flow.step(write_file, file="prices/a.csv", text="1")
    with flow.repeat(at_most=2):
        decision = flow.human("review", Question, Decision, workspace=WorkspaceSpec(prefix="/prices"), total=7)
    return Result(verdict=decision.verdict)


def test_an_answer_may_edit_the_files_and_may_differ_by_iteration() -> None:
    def first(workspace: Path, question: Question) -> Decision:
        (workspace / "b.csv").write_text(f"{question.total}")
        (workspace / "a.csv").unlink()
        return Decision(verdict="no")

    run = run_pipeline(edited, files={}, answers={"review__1": first, "review": {"verdict": "yes"}})
    assert run.ok, run.report()
    assert run.result == Result(verdict="yes")
    assert run.files == {"prices/b.csv": b"7"}
    assert list(run.steps)[1:] == ["review__1", "review__2"]


def test_a_local_run_without_an_answer_is_refused_with_what_to_write() -> None:
    with pytest.raises(SetupError) as refused:
        run_pipeline(edited, files={})
    assert str(refused.value) == (
        "pipeline 'tests.edited' has steps for which a person answers (review); give each an answer: --answer review=JSON, or in "
        'a test answers={\'review\': ...}; the result has verdict ("yes" or "no"), note (string, "" if left out)'
    )
    with pytest.raises(SetupError, match=r"the answer 'reviews' is for no human step .* its human steps are review"):
        run_pipeline(edited, files={}, answers={"reviews": {}})
    run = run_pipeline(edited, files={}, answers={"review__2": {"verdict": "yes"}})
    assert run.reason == "review__1: there is no answer for review__1; give one for review"
    run = run_pipeline(edited, files={}, answers={"review": {"verdict": "perhaps"}})
    assert run.reason == "review__1: result does not satisfy the contract: result.verdict: Input should be 'yes' or 'no'"


def test_checks_that_look_into_the_data_are_refused_because_they_cannot_travel_with_the_task() -> None:
    def own(workspace: Path) -> list[str]:
        return [str(workspace)]

    def asks(flow: Flow, inputs: Inputs) -> Result:
        spec = WorkspaceSpec(post=[require_table("prices", rows=(1, None)), own])
        return Result(verdict=flow.human("review", Question, Decision, workspace=spec, total=inputs.total).verdict)

    with pytest.raises(TaskDefinitionError) as refused:
        pipeline(name="refused", owner_email="team@example.com")(asks)
    for name in ("require_table('prices')", "own"):
        assert f"{name} looks into the data and cannot travel with the task" in str(refused.value)
