"""A pause stops only scheduling: bodies continue, results are accepted, and after the resume everything completes."""

from tests.support.publication import INPUT, VIEW, Json, PublicationHarness, TargetBranch
from tests.support.waiting import eventually
from tests.support.worker_harness import PLAIN, Gate

from perago.model import WorkflowId

LOOKS = 2
"""At a workflow's status while it is paused: a worker that minded the pause would have called its attempt off by then."""


def test_nothing_that_runs_or_waits_is_lost(harness: PublicationHarness) -> None:
    """One body of each kind runs, one task is queued, and each workflow has a step to come."""
    gates = {kind: harness.gate() for kind in ("writing", "reading", "free")}
    branches = {kind: harness.branch() for kind in (*gates, "queued")}
    workflows = {kind: branches[kind].start(*steps(harness, branches[kind], kind, gate)) for kind, gate in gates.items()}
    for gate in gates.values():
        gate.reached()
    workflows["queued"] = branches["queued"].start(*steps(harness, branches["queued"], "queued", None))
    eventually(lambda: harness.tasks(workflows["queued"])[0]["status"] == "SCHEDULED", what="a task in the queue")
    for workflow in workflows.values():
        harness.worker_harness.real.call("PUT", f"/workflow/{workflow}/pause")
    looked = {kind: looks(harness, workflows[kind]) for kind in gates}
    for kind in gates:
        eventually(lambda kind=kind: looks(harness, workflows[kind]) >= looked[kind] + LOOKS, what=f"looks at {kind}")
    for gate in gates.values():
        gate.open()
    for kind, workflow in workflows.items():
        eventually(lambda workflow=workflow: harness.tasks(workflow)[0]["status"] == "COMPLETED", what=f"the end of {kind}")
        assert [task["referenceTaskName"] for task in harness.tasks(workflow)] == ["it"], (
            "a step was scheduled in spite of the pause"
        )
        assert harness.worker_harness.real.workflow_status(workflow) == "PAUSED"
        harness.worker_harness.real.call("PUT", f"/workflow/{workflow}/resume")
    for kind, workflow in workflows.items():
        last = harness.completed(workflow, "then")
        assert [task["retryCount"] for task in harness.tasks(workflow)] == [0, 0], f"{kind} was tried again"
        if kind in {"writing", "queued"}:
            branches[kind].shows(last, harness.accepted(workflow), files={"it", "then"})
        else:
            branches[kind].shows(last, files={"then"})
    ours = set(workflows.values())
    assert not [line for line in harness.worker.said("attempt cancelled") if line["workflow_id"] in ours]


def steps(harness: PublicationHarness, branch: TargetBranch, kind: str, gate: Gate | None) -> list[Json]:
    match kind:
        case "reading":
            first = branch.step("it", workspace=INPUT, gate=gate, module=VIEW)
        case "free":
            first = harness.worker_harness.step(PLAIN, "it", {"gate": str(gate)})
        case _:
            first = branch.step("it", workspace=INPUT, gate=gate)
    return [first, branch.step("then", workspace=INPUT if kind == "free" else "${it.output.workspace}")]


def looks(harness: PublicationHarness, workflow: WorkflowId) -> int:
    """The number of requests of the worker for the status of the workflow."""
    return len(harness.conductor.requests(rf"GET /api/workflow/{workflow}\?"))


def test_a_step_whose_body_ends_during_the_pause_publishes(harness: PublicationHarness, branch: TargetBranch) -> None:
    gate = harness.gate()
    workflow = branch.start(branch.step("it", gate=gate))
    gate.reached()
    harness.worker_harness.real.call("PUT", f"/workflow/{workflow}/pause")
    gate.open()
    branch.shows(harness.until_completed(workflow, "it"), files={"it"})
    harness.worker_harness.real.call("PUT", f"/workflow/{workflow}/resume")
    branch.shows(harness.completed(workflow), files={"it"})
