"""Scenarios with two workers: one competes with the other, or goes on after the other has taken its place."""

import contextlib
from collections.abc import Generator

from perago.certify import contract
from perago.certify.scenarios import outcomes, points
from perago.certify.scenarios.points import FIRST_WRITE, MOVES_THE_BRANCH
from perago.certify.scene import TARGET, Run, Scene
from perago.certify.team import publishing, writing
from perago.certify.verdict import NotReached, require
from perago.certify.worker_process import WorkerProcess
from perago.fault_proxy.faults import HeldRequest
from perago.model import CommitId

_SECOND_REQUEST_SECONDS = 3.0
"""How long the publish request of one workflow waits for that of the other. A worker may keep its own back meanwhile."""
_RESTORE_SECONDS = 20.0


def double_publish(scene: Scene) -> str:
    """Two workflows publish on the same input at the same moment: one of them is accepted, and only its commit is there."""
    held = HeldRequest(), HeldRequest()
    pattern = publishing(scene.repository, TARGET)
    scene.team.on_lakefs(pattern, held[0])
    runs = scene.start(), scene.start()
    scene.team.until_held(held[0], MOVES_THE_BRANCH)
    scene.team.on_lakefs(pattern, held[1])
    scene.team.patience.has_come(held[1].reached.is_set, _SECOND_REQUEST_SECONDS)
    for request in held:
        request.release()
    accepted = [run for run in runs if run.ended() == outcomes.COMPLETED]
    require(len(accepted) < len(runs), f"both workflows were accepted, although both have the same input; {scene.describe()}")
    require(bool(accepted), f"neither workflow was accepted; {runs[0].outcome()}; {runs[1].outcome()}")
    scene.team.until_quiet(scene.repository)
    return outcomes.require_history_of(scene, accepted[0])


def late_request(scene: Scene) -> str:
    """A worker is paused with its publish request on the way; the request arrives after the retry was accepted."""
    return _overtaken(scene, publishing(scene.repository, TARGET), MOVES_THE_BRANCH)


def paused_worker(scene: Scene) -> str:
    """A worker is paused before it has written anything, and goes on after the retry was accepted."""
    return _overtaken(scene, writing(scene.repository), FIRST_WRITE)


def _overtaken(scene: Scene, pattern: str, what: str) -> str:
    held = HeldRequest()
    scene.team.on_lakefs(pattern, held)
    run = scene.start(response=contract.SHORT_RESPONSE_SECONDS)
    with _paused(scene.team.until_held(held, what)):
        _require_retried(run)
        held.release()
        scene.team.patience.until(held.passed.is_set, "the reply of lakeFS to the late request")
    scene.team.until_quiet(scene.repository)
    return outcomes.require_only_accepted(scene, run)


def _require_retried(run: Run) -> None:
    status = run.ended()
    if status != outcomes.COMPLETED or len(run.attempts()) == 1:
        raise NotReached(f"no retry of the paused attempt was accepted; {run.outcome()}")


@contextlib.contextmanager
def _paused(worker: WorkerProcess) -> Generator[None]:
    worker.pause()
    try:
        yield
    finally:
        worker.go_on()


def rerun_while_running(scene: Scene) -> str:
    """The workflow is rerun while the first execution is about to publish; it goes on after the rerun was accepted."""
    held = HeldRequest()
    scene.team.on_lakefs(publishing(scene.repository, TARGET), held)
    run = scene.start()
    scene.team.until_held(held, MOVES_THE_BRANCH)
    _rerun(run)
    status = run.ended()
    if status != outcomes.COMPLETED:
        raise NotReached(f"the rerun was not accepted; {run.outcome()}")
    held.release()
    scene.team.until_quiet(scene.repository)
    return outcomes.require_only_accepted(scene, run)


def late_report_after_rerun(scene: Scene) -> str:
    """After a rerun, Conductor accepts the late report of the first execution: its commit is what the branch shows."""
    first, second = HeldRequest(), HeldRequest()
    run = points.start_with_fault_at_report(scene, first)
    scene.team.until_held(first, "the report of the first execution")
    published = scene.head().id
    scene.team.on_report(run.id, second)
    _rerun(run)
    scene.team.until_held(second, "the report of the second execution")
    first.release()
    scene.team.patience.until(run.accepted, "an accepted report")
    second.release()
    if run.accepted() != [published]:
        raise NotReached(f"Conductor did not accept the late report; {scene.describe()}")
    scene.team.patience.has_come(lambda: _is_only(scene, published), _RESTORE_SECONDS)
    scene.team.until_quiet(scene.repository)
    return outcomes.require_only_accepted(scene, run)


def _is_only(scene: Scene, commit: CommitId) -> bool:
    return scene.history() == [commit]


def _rerun(run: Run) -> None:
    run.terminate()
    run.scene.team.patience.until(lambda: run.read().get("status") == "TERMINATED", "the end of the workflow")
    run.rerun()
