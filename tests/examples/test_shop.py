"""The shop as a pipeline: it compiles to the workflow that was written by hand before."""

from typing import Any

from examples.shop.approved import approved
from examples.shop.pipeline import shop

from perago.pipelines import compiler
from perago.pipelines.flow import pipeline_of

STEPS = ("ingest", "clean", "features", "summarise", "gate", "report")


def compiled() -> dict[str, Any]:
    declared = pipeline_of(shop)
    assert declared is not None
    return compiler.workflow(declared)


def test_each_step_gets_the_workspace_of_the_previous_writer() -> None:
    tasks = compiled()["tasks"]
    assert [task["name"] for task in tasks] == [f"shop.{step}" for step in STEPS]
    given = [task["inputParameters"]["workspace"] for task in tasks]
    # The gate only reads, so the report takes the workspace that summarise left.
    writers = ("ingest", "clean", "features", "summarise", "summarise")
    assert given == ["${workflow.input.workspace}", *(f"${{{step}.output.workspace}}" for step in writers)]


def test_inputs_and_results_are_wired_to_parameters() -> None:
    workflow = compiled()
    params = {task["taskReferenceName"]: task["inputParameters"]["params"] for task in workflow["tasks"]}
    assert params["ingest"] == {"scale": "${workflow.input.scale}"}
    assert params["gate"]["quarantined"] == "${clean.output.result.quarantined}"
    assert workflow["inputTemplate"] == {"scale": 1.0, "first_day": "2026-01-01"}
    assert workflow["outputParameters"] == {
        "workspace": "${report.output.workspace}",
        "page": "${report.output.result.page}",
    }


def test_the_approved_report_is_made_in_a_lane_and_joined_after_a_person_answered() -> None:
    declared = pipeline_of(approved)
    assert declared is not None
    begin, fork, join, end = compiler.workflow(declared)["tasks"][5:]
    assert [begin["name"], join["type"], end["name"]] == ["perago.fork", "JOIN", "perago.join"]
    (lane,) = fork["forkTasks"]
    assert [task["type"] for task in lane] == ["SIMPLE", "HUMAN", "JSON_JQ_TRANSFORM"]
    assert lane[1]["inputParameters"]["workspace"] == "${report.output.workspace}"
    assert end["inputParameters"]["params"] == {"lanes": {"draft": "${approve.output.workspace}"}}
