"""Scenarios without faults: new, outdated and wrong inputs. They need one worker."""

from perago.certify import contract
from perago.certify.scenarios import outcomes
from perago.certify.scene import TARGET, Scene
from perago.certify.verdict import require
from perago.errors import LakeNotFound
from perago.model import BranchName
from perago.protocol import commit_labels

TAG = BranchName("a-tag")


def plain_publication(scene: Scene) -> str:
    """One task writes an object: its commit is directly on the input, and is what Conductor accepted."""
    return outcomes.require_only_accepted(scene, scene.start())


def labels(scene: Scene) -> str:
    """The published commit carries the labels that let other workers ask Conductor about it."""
    run = scene.start()
    outcomes.require_only_accepted(scene, run)
    task = run.attempts()[-1]
    found = scene.head().metadata
    require(
        commit_labels.read(found) is not None, f"commit {scene.head().id[:12]} has no labels perago.workflow and perago.task_id"
    )
    expected = {
        "perago.workflow": run.id,
        "perago.workflow_created": str(run.read().get("createTime")),
        "perago.task": contract.STEP,
        "perago.task_id": str(task["taskId"]),
        "perago.attempt": str(task["retryCount"]),
        commit_labels.EXPECTED_HEAD: scene.base,
    }
    wrong = [f"{name} is {found.get(name)!r}, not {value!r}" for name, value in expected.items() if found.get(name) != value]
    require(not wrong, "; ".join(wrong))
    require(bool(found.get("perago.execution")), "perago.execution is missing")
    return f"commit {scene.head().id[:12]} names task {task['taskId']} and its input"


def no_change(scene: Scene) -> str:
    """A task that writes nothing makes no commit, and reports its input."""
    run = scene.start("")
    status = run.ended()
    require(status == outcomes.COMPLETED, f"the workflow ended with {status}; {run.outcome()}")
    require(run.accepted() == [scene.base], f"the output does not name the input; {scene.describe()}")
    outcomes.require_untouched(scene)
    return f"no commit; the output names {scene.base[:12]}"


def stale_publish(scene: Scene) -> str:
    """The same input again, after a publication on it was accepted: it is refused, and the accepted commit stays."""
    return _again(scene, "another line\n")


def stale_no_change(scene: Scene) -> str:
    """The same input again, with a task that writes nothing: it is refused too, and the accepted commit stays."""
    return _again(scene, "")


def _again(scene: Scene, text: str) -> str:
    first = scene.start()
    outcomes.require_only_accepted(scene, first)
    second = scene.start(text)
    outcomes.require_refused(scene, second)
    return f"{outcomes.require_history_of(scene, first)}; the second run: {second.outcome()}"


def tag_as_branch(scene: Scene) -> str:
    """A workspace whose branch is a tag: it is refused, and neither the tag nor a branch is moved."""
    scene.servers.settings.create_tag(scene.repository, TAG, scene.base)
    outcomes.require_refused(scene, scene.start(branch=TAG))
    require(scene.servers.lake.commit(scene.repository, TAG).id == scene.base, "the tag was moved")
    try:
        scene.servers.lake.branch(scene.repository, TAG)
    except LakeNotFound:
        outcomes.require_untouched(scene)
        return f"refused; the tag and the branch {TARGET} are at the input"
    require(holds=False, evidence="a branch with the name of the tag was made")
    return ""
