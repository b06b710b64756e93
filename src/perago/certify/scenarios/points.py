"""The points of an attempt at which a fault is to happen, as requests that every worker has to send."""

from perago.certify import contract
from perago.certify.scene import Run, Scene
from perago.certify.team import writing
from perago.fault_proxy.faults import HeldRequest
from perago.fault_proxy.proxy import Fault

MOVES_THE_BRANCH = "a request to lakeFS that moves the branch (merge, hard reset or commit)"
FIRST_WRITE = "a write to lakeFS"
REPORT = "a report of the completed task (POST /tasks)"


def start_with_fault_at_report(scene: Scene, fault: Fault, response: int = contract.LONG_RESPONSE_SECONDS) -> Run:
    """A run whose report meets the fault. The worker is held at its first write until the fault is installed."""
    held = HeldRequest()
    scene.team.on_lakefs(writing(scene.repository), held)
    run = scene.start(response=response)
    scene.team.until_held(held, FIRST_WRITE)
    scene.team.on_report(run.id, fault)
    held.release()
    return run
