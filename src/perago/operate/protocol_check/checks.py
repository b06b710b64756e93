"""The checks, each a function of a scene; its docstring is the name that is shown.

The first seven are those of the protocol's first edition; the others show what the second one rests on.
"""

import contextlib
import functools
import secrets
from collections.abc import Callable

from perago.conductor.port import Polled
from perago.errors import LakeNotFound, TaskStatus
from perago.model import BranchName, Outcome
from perago.operate.protocol_check.assertions import CheckFailed, require, require_published, require_refused
from perago.operate.protocol_check.dict_task import DictTask, upload
from perago.operate.protocol_check.merge_interruption import interruption
from perago.operate.protocol_check.scene import Scene, ref_of, writes
from perago.protocol import commit_labels

# the first edition


def merge(scene: Scene) -> None:
    """H == A: the change is merged"""
    require_published(scene, scene.run(scene.start(), writes("y")))


def replacement(scene: Scene) -> None:
    """parent(H) == A: the abandoned publication is replaced"""
    polled = scene.start()
    require_published(scene, scene.run(polled, writes("y")))
    abandoned = scene.head().id
    require_published(scene, scene.run(scene.retry(polled), writes("y")))
    require(scene.head().id != abandoned, "the abandoned publication is still there")


def fail_closed(scene: Scene) -> None:
    """Any other H: refused, the target stays where it is"""
    scene.abandon()
    head = scene.abandon().id
    require_refused(scene, scene.run(scene.start(), writes("y")), head)
    require_refused(scene, scene.run(scene.start(), DictTask()), head)


def no_op(scene: Scene) -> None:
    """No change: no empty commit, an abandoned publication is moved back"""
    require(ref_of(scene.run(scene.start(), DictTask())) == scene.a, "the output is not the input")
    require(scene.head().id == scene.a, "an attempt without a change left a commit")
    polled = scene.start()
    require_published(scene, scene.run(polled, writes("y")))
    require(ref_of(scene.run(scene.retry(polled), DictTask())) == scene.a, "the output is not the input")
    require(scene.head().id == scene.a, "the target was not moved back to the input")


def preconditions(scene: Scene) -> None:
    """Merge and relocation fail: no success, the target stays where it is"""
    upload(scene.lake, scene.repository, scene.branch, "dirt", b"uncommitted")
    require_refused(scene, scene.run(scene.start(), writes("y")), scene.a)
    scene.a = scene.lake.commit_branch(scene.repository, scene.branch, "clean again", {}).id
    head = scene.abandon().id
    tap = scene.tap
    tap.before["relocate"] = lambda: _delete_staging(scene)
    require_refused(scene, scene.run(scene.start(), writes("y"), tap), head)


def cleanup(scene: Scene) -> None:
    """Whatever happened, no staging branch is left"""
    for verb in ("create_branch", "write", "commit_branch", "branches", "head", "merge"):
        tap = scene.tap
        tap.after[verb] = _cut
        scene.run(scene.start(), writes("y"), tap)
        require(not scene.own_staging_branches(), f"a staging branch is left after a failure in {verb}")
        scene.renew()


def revocation(scene: Scene) -> None:
    """A paused attempt that goes on after its successor was accepted publishes nothing"""
    for verb in ("merge", "relocate"):
        scene.renew()
        older, tap = scene.start(), scene.tap
        if verb == "relocate":
            scene.abandon()
        accepted: list[Outcome] = []
        tap.before[verb] = functools.partial(_overtake, scene, older, accepted)
        late = scene.run(older, writes("y"), tap)
        require(late.status is TaskStatus.FAILED, "the paused attempt published")
        require_published(scene, accepted[0])


def _overtake(scene: Scene, older: Polled, accepted: list[Outcome]) -> None:
    newer = scene.retry(older)
    accepted.append(scene.run(newer, writes("z")))
    require(scene.report(newer, accepted[0]), "Conductor did not accept the successor")


def _cut() -> None:
    raise LakeNotFound("made to fail")


# the second edition


def accepted_stays(scene: Scene) -> None:
    """An accepted publication is never removed by an attempt with an older input"""
    polled = scene.start()
    outcome = scene.run(polled, writes("y"))
    require(scene.report(polled, outcome), "Conductor did not accept the publication")
    head = scene.head().id
    require_refused(scene, scene.run(scene.start(), writes("z")), head)
    require_refused(scene, scene.run(scene.start(), DictTask()), head)


def live_rivals(scene: Scene) -> None:
    """Of two attempts that both run, the one whose workflow started first publishes"""
    first, tap = scene.start(), scene.tap
    others: list[Outcome] = []
    tap.before["merge"] = lambda: others.append(scene.run(scene.start(), writes("z")))
    require_published(scene, scene.run(first, writes("y"), tap))
    require([other.status for other in others] == [TaskStatus.FAILED], "the later attempt did not give way")


def by_name(scene: Scene) -> None:
    """A deleted branch cannot be merged or relocated to, although its commit exists"""
    source = _filled(scene, "gone")
    scene.lake.delete_branch(scene.repository, source)
    for verb, act in (("merge", scene.merge), ("relocate", scene.relocate)):
        with contextlib.suppress(LakeNotFound):
            act(source)
            raise CheckFailed(f"{verb} by the name of a deleted branch was accepted")
    require(scene.head().id == scene.a, "the target moved")


def relocation(scene: Scene) -> None:
    """A relocation shows exactly the commit of the named branch, backwards too"""
    forth, back = _filled(scene, "forth"), _filled(scene, "back")
    wanted = scene.lake.head(scene.repository, forth)
    for source in (forth, back, forth):
        scene.relocate(source)
    require(scene.head() == wanted, "the target does not show the commit of the branch")
    for source in (forth, back):
        scene.lake.delete_branch(scene.repository, source)
    require(scene.head() == wanted, "the target lost its commit with the branch")


def listing(scene: Scene) -> None:
    """Hidden branches are listed by prefix, in byte order, and only those"""
    made = [BranchName(f"{scene.branch}-{name}") for name in ("list-B", "list-a", "list-z", "other")]
    for branch in made:
        scene.lake.create_branch(scene.repository, branch, scene.a)
    found = [branch.name for branch in scene.lake.branches(scene.repository, f"{scene.branch}-list-", page=2)]
    require(found == made[:3], f"listed {found}")


def labels_survive(scene: Scene) -> None:
    """The labels of a publication are on the visible commit, after a merge and after a relocation"""
    polled = scene.start()
    for attempt in (polled, None):
        at = attempt or scene.retry(polled)
        require_published(scene, scene.run(at, writes("y")))
        found = scene.head().metadata
        by = commit_labels.read(found)
        require(by is not None and by.task_id == at.attempt.task_id, "the head does not name its task")
        require(found.get(commit_labels.EXPECTED_HEAD) == scene.a, "the head does not name its input")


def _filled(scene: Scene, name: str) -> BranchName:
    source = BranchName(f"{scene.branch}-{name}")
    scene.lake.create_branch(scene.repository, source, scene.a)
    upload(scene.lake, scene.repository, source, f"{scene.prefix}{name}", secrets.token_bytes(4))
    scene.lake.commit_branch(scene.repository, source, name, {})
    return source


def _delete_staging(scene: Scene) -> None:
    for name in scene.own_staging_branches():
        scene.lake.delete_branch(scene.repository, name)


CHECKS: tuple[Callable[[Scene], None], ...] = (
    merge,
    replacement,
    fail_closed,
    no_op,
    preconditions,
    cleanup,
    revocation,
    accepted_stays,
    live_rivals,
    by_name,
    relocation,
    listing,
    labels_survive,
    interruption,
)
