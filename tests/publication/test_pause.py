"""A pause stops scheduling and nothing else: bodies go on, results are taken, and after the resume everything completes."""

from tests.support.publication import INPUT, VIEW, Branch, Json, World
from tests.support.worker import PLAIN, Gate, eventually

from perago.model import WorkflowId

LOOKS = 2
"""At a workflow's status while it is paused: a worker that minded the pause would have called its attempt off by then."""


def test_nothing_that_runs_or_waits_is_lost(world: World) -> None:
    """One body of each kind runs, one task is queued, and each workflow has a step to come."""
    gates = {kind: world.gate() for kind in ("writing", "reading", "free")}
    branches = {kind: world.branch() for kind in (*gates, "queued")}
    workflows = {kind: branches[kind].start(*steps(world, branches[kind], kind, gate)) for kind, gate in gates.items()}
    for gate in gates.values():
        gate.reached()
    workflows["queued"] = branches["queued"].start(*steps(world, branches["queued"], "queued", None))
    eventually(lambda: world.tasks(workflows["queued"])[0]["status"] == "SCHEDULED", what="a task in the queue")
    for workflow in workflows.values():
        world.rig.real.call("PUT", f"/workflow/{workflow}/pause")
    looked = {kind: looks(world, workflows[kind]) for kind in gates}
    for kind in gates:
        eventually(lambda kind=kind: looks(world, workflows[kind]) >= looked[kind] + LOOKS, what=f"looks at {kind}")
    for gate in gates.values():
        gate.open()
    for kind, workflow in workflows.items():
        eventually(lambda workflow=workflow: world.tasks(workflow)[0]["status"] == "COMPLETED", what=f"the end of {kind}")
        assert [task["referenceTaskName"] for task in world.tasks(workflow)] == ["it"], (
            "a step was scheduled in spite of the pause"
        )
        assert world.rig.real.workflow_status(workflow) == "PAUSED"
        world.rig.real.call("PUT", f"/workflow/{workflow}/resume")
    for kind, workflow in workflows.items():
        last = world.completed(workflow, "then")
        assert [task["retryCount"] for task in world.tasks(workflow)] == [0, 0], f"{kind} was tried again"
        if kind in {"writing", "queued"}:
            branches[kind].shows(last, world.accepted(workflow), files={"it", "then"})
        else:
            branches[kind].shows(last, files={"then"})
    ours = set(workflows.values())
    assert not [line for line in world.worker.said("attempt called off") if line["workflow_id"] in ours]


def steps(world: World, branch: Branch, kind: str, gate: Gate | None) -> list[Json]:
    match kind:
        case "reading":
            first = branch.step("it", workspace=INPUT, gate=gate, module=VIEW)
        case "free":
            first = world.rig.step(PLAIN, "it", {"gate": str(gate)})
        case _:
            first = branch.step("it", workspace=INPUT, gate=gate)
    return [first, branch.step("then", workspace=INPUT if kind == "free" else "${it.output.workspace}")]


def looks(world: World, workflow: WorkflowId) -> int:
    """How often the worker has asked for the workflow's status."""
    return len(world.conductor.requests(rf"GET /api/workflow/{workflow}\?"))


def test_a_step_whose_body_ends_during_the_pause_publishes(world: World, branch: Branch) -> None:
    gate = world.gate()
    workflow = branch.start(branch.step("it", gate=gate))
    gate.reached()
    world.rig.real.call("PUT", f"/workflow/{workflow}/pause")
    gate.open()
    branch.shows(world.until_completed(workflow, "it"), files={"it"})
    world.rig.real.call("PUT", f"/workflow/{workflow}/resume")
    branch.shows(world.completed(workflow), files={"it"})
