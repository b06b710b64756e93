"""What the scenarios require of the target branch at the end."""

from perago.certify.scene import Run, Scene
from perago.certify.verdict import Broken, require

COMPLETED = "COMPLETED"


def require_only_accepted(scene: Scene, run: Run) -> str:
    """The workflow completed, and its commit is the only one on the input; the evidence."""
    status = run.ended()
    require(status == COMPLETED, f"the workflow ended with {status}, and no attempt was accepted; {run.outcome()}")
    return require_history_of(scene, run)


def require_history_of(scene: Scene, run: Run) -> str:
    """The commit that Conductor accepted from the run is directly on the input, and the only one there."""
    accepted = run.accepted()
    require(len(accepted) == 1, "the output of the completed task names no commit in workspace.ref")
    require(accepted[0] != scene.base, f"the task was to write an object, but its output names the input; {scene.describe()}")
    require(scene.history() == accepted, _what_is_wrong(scene, run))
    written = scene.written()
    require(written >= 0, f"an object of the input is gone; {scene.describe()}")
    require(written == 1, f"the head has the objects of {written} executions; {scene.describe()}")
    return scene.describe()


def require_untouched(scene: Scene) -> None:
    """The target branch is at the input."""
    require(scene.history() == [], f"the branch was moved; {scene.describe()}")


def require_refused(scene: Scene, run: Run) -> None:
    """The workflow ended without an accepted result."""
    if run.ended() == COMPLETED:
        named = ", ".join(commit[:12] for commit in run.accepted()) or "no commit"
        raise Broken(f"the attempt was not refused; it was accepted with {named}; {scene.describe()}")


def _what_is_wrong(scene: Scene, run: Run) -> str:
    accepted, history = set(run.accepted()), scene.history()
    if not accepted & set(history):
        return f"the accepted commit is gone; {scene.describe()}"
    if history[0] not in accepted:
        return f"the accepted commit is not directly on its input; {scene.describe()}"
    return f"a commit that was not accepted is on the accepted one; {scene.describe()}"
