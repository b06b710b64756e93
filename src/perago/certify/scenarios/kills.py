"""Scenarios in which a worker is killed, with all its processes, and another one takes the retry."""

from perago.certify import contract
from perago.certify.scenarios import outcomes, points
from perago.certify.scenarios.points import MOVES_THE_BRANCH
from perago.certify.scene import TARGET, Run, Scene
from perago.certify.team import publishing
from perago.certify.verdict import NotReached
from perago.fault_proxy.faults import HeldRequest


def killed_before_publish(scene: Scene) -> str:
    """The worker is killed when it is about to publish: the retry publishes."""
    held = HeldRequest()
    scene.team.on_lakefs(publishing(scene.repository, TARGET), held)
    run = scene.start(response=contract.SHORT_RESPONSE_SECONDS)
    return _killed(scene, run, held, MOVES_THE_BRANCH)


def killed_after_publish(scene: Scene) -> str:
    """The worker is killed before it knows that it has published: the retry replaces the abandoned commit."""
    held = HeldRequest(after=True)
    scene.team.on_lakefs(publishing(scene.repository, TARGET), held)
    run = scene.start(response=contract.SHORT_RESPONSE_SECONDS)
    return _killed(scene, run, held, MOVES_THE_BRANCH)


def killed_before_report(scene: Scene) -> str:
    """The worker is killed after it published and before Conductor has its report: the retry replaces the abandoned commit."""
    held = HeldRequest()
    run = points.start_with_fault_at_report(scene, held, contract.SHORT_RESPONSE_SECONDS)
    return _killed(scene, run, held, points.REPORT)


def _killed(scene: Scene, run: Run, held: HeldRequest, what: str) -> str:
    scene.team.until_held(held, what).kill()
    held.drop()
    scene.team.ensure(1)
    run.ended()
    if len(run.attempts()) == 1:
        raise NotReached(f"there was no retry; {run.outcome()}")
    return outcomes.require_only_accepted(scene, run)
