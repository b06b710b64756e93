"""Scenarios with lost messages, and with what people do meanwhile. They need one worker."""

from perago.certify import contract
from perago.certify.scenarios import outcomes, points
from perago.certify.scenarios.points import FIRST_WRITE, MOVES_THE_BRANCH
from perago.certify.scene import TARGET, Scene
from perago.certify.team import publishing, writing
from perago.certify.verdict import NotReached, require
from perago.fault_proxy.faults import HeldRequest, cut, drop_reply
from perago.fault_proxy.proxy import Exchange, Fault


class _Observed:
    """A fault that remembers whether it happened."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self.happened = False

    def __call__(self, exchange: Exchange) -> None:
        self.happened = True
        self._fault(exchange)

    def require_happened(self, what: str) -> None:
        if not self.happened:
            raise NotReached(f"the worker never sent {what}")


def lost_reply(scene: Scene) -> str:
    """The publish request is applied, and its reply is lost: there is one publication, and it is accepted."""
    fault = _Observed(drop_reply())
    scene.team.on_lakefs(publishing(scene.repository, TARGET), fault)
    run = scene.start(response=contract.SHORT_RESPONSE_SECONDS)
    status = run.ended()
    fault.require_happened(MOVES_THE_BRANCH)
    require(status == outcomes.COMPLETED, f"the workflow ended with {status}; {run.outcome()}; {scene.describe()}")
    return outcomes.require_history_of(scene, run)


def lost_report_reply(scene: Scene) -> str:
    """Conductor takes the report, and its reply is lost: the accepted commit stays, and nothing is published again."""
    return _report(scene, drop_reply())


def lost_report(scene: Scene) -> str:
    """The report does not arrive: it is sent again, or the retry replaces the publication; there is one in the end."""
    return _report(scene, cut())


def _report(scene: Scene, lost: Fault) -> str:
    fault = _Observed(lost)
    run = points.start_with_fault_at_report(scene, fault, contract.SHORT_RESPONSE_SECONDS)
    run.ended()
    fault.require_happened(points.REPORT)
    scene.team.until_quiet(scene.repository)
    return outcomes.require_only_accepted(scene, run)


def terminated_workflow(scene: Scene) -> str:
    """The workflow is terminated before the worker has written anything: nothing is published."""
    held = HeldRequest()
    scene.team.on_lakefs(writing(scene.repository), held)
    run = scene.start()
    scene.team.until_held(held, FIRST_WRITE)
    run.terminate()
    held.release()
    scene.team.until_quiet(scene.repository)
    require(not run.accepted(), f"Conductor accepted a result of a terminated workflow; {scene.describe()}")
    outcomes.require_untouched(scene)
    return f"the branch is still at {scene.base[:12]}"


def paused_workflow(scene: Scene) -> str:
    """The workflow is paused while the task runs: the task goes on, publishes, and is accepted."""
    held = HeldRequest()
    scene.team.on_lakefs(writing(scene.repository), held)
    run = scene.start()
    scene.team.until_held(held, FIRST_WRITE)
    scene.servers.workflows.pause(run.id)
    held.release()
    scene.team.patience.until(
        lambda: run.attempts()[-1]["status"] not in ("SCHEDULED", "IN_PROGRESS"), "the end of the task of the paused workflow"
    )
    first = run.attempts()[0]["status"]
    require(first == outcomes.COMPLETED, f"the task ended with {first} because its workflow was paused; {run.outcome()}")
    scene.servers.workflows.resume(run.id)
    return outcomes.require_only_accepted(scene, run)


def commit_by_hand(scene: Scene) -> str:
    """A person commits to the branch while the publish request is on its way: no accepted commit is built on that one."""
    held = HeldRequest()
    scene.team.on_lakefs(publishing(scene.repository, TARGET), held)
    run = scene.start()
    scene.team.until_held(held, MOVES_THE_BRANCH)
    by_hand = scene.commit_by_hand()
    held.release()
    if run.ended() == outcomes.COMPLETED:
        return outcomes.require_history_of(scene, run)
    require(
        scene.history() == [by_hand], f"the attempts failed, and the commit by hand is not all that is left; {scene.describe()}"
    )
    return f"refused; {scene.describe()}"
