"""The publication protocol on any lakeFS: each check works on a target branch of its own, which is deleted afterwards.

Conductor is played in memory. The first seven checks are those of the protocol's first edition; the others show what the second
one rests on.
"""

import contextlib
import functools
import secrets
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

from perago.conductor.port import Polled
from perago.errors import LakeError, LakeNotFound, LakeRejected, PeragoError, TaskStatus
from perago.in_memory.attempt_parts import DictTask, upload
from perago.in_memory.scenario import Scene, ref_of, writes
from perago.lake.port import Lake
from perago.model import BranchName, Outcome, Repository
from perago.operate.servers import LakeSettings
from perago.protocol import commit_labels, staging_names

PREFIX = "perago-smoke-"
_FOLDER = "perago-smoke/"
_SECONDS = 30.0
_HOOK_SECONDS = 1.5
"""How long the hook of the interruption check keeps a merge under way."""
_PATIENCE_SECONDS = 10.0
_SIGNAL = "-signal"


class CheckFailed(Exception):
    """A check that does not hold."""


class Unobservable(Exception):
    """A check that this server gives no means for."""


@dataclass(frozen=True, slots=True)
class Result:
    """`fault` is None if the check holds, `unknown` says why it could not be made."""

    name: str
    fault: str | None = None
    unknown: str | None = None


@dataclass(frozen=True, slots=True)
class Ground:
    """Target branches are made from branch `base`; `settings` deletes tags, which the port does not know."""

    lake: Lake
    settings: LakeSettings
    repository: Repository
    base: BranchName


def run(ground: Ground) -> Iterator[Result]:
    for check in CHECKS:
        yield _run(check, ground)


def _run(check: Callable[[Scene], None], ground: Ground) -> Result:
    name = " ".join((check.__doc__ or "").split())
    try:
        with _target(ground) as branch:
            scene = Scene(ground.lake, ground.repository, branch, prefix=_FOLDER)
            check(scene)
            _require(not _staging(scene), "a staging branch is left")
    except Unobservable as error:
        return Result(name, unknown=str(error))
    except (CheckFailed, PeragoError, AssertionError) as error:
        return Result(name, fault=str(error))
    return Result(name)


@contextlib.contextmanager
def _target(ground: Ground) -> Generator[BranchName]:
    lake, repository = ground.lake, ground.repository
    branch = BranchName(f"{PREFIX}{secrets.token_hex(6)}")
    try:
        lake.create_branch(repository, branch, lake.head(repository, ground.base).id)
        yield branch
    finally:
        _clear(ground, branch)


def _clear(ground: Ground, branch: BranchName) -> None:
    """Whatever ended the check: the target, its staging branches, and branches and tags named after it."""
    for prefix in (staging_names.target_prefix(branch), branch):
        with contextlib.suppress(LakeError):
            for left in list(ground.lake.branches(ground.repository, prefix)):
                with contextlib.suppress(LakeNotFound):
                    ground.lake.delete_branch(ground.repository, left.name)
    with contextlib.suppress(LakeError):
        for tag in ground.settings.tags(ground.repository, branch):
            ground.settings.delete_tag(ground.repository, tag)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise CheckFailed(what)


def _published(scene: Scene, outcome: Outcome) -> None:
    head = scene.head()
    _require(outcome.status is TaskStatus.COMPLETED, f"the attempt ended with {outcome.status}: {outcome.reason}")
    _require(ref_of(outcome) == head.id, "the output does not name the target's head")
    _require(head.parents == (scene.a,), "the publication does not stand directly on its input")


def _refused(scene: Scene, outcome: Outcome, head: str) -> None:
    _require(outcome.status is TaskStatus.FAILED, f"the attempt ended with {outcome.status}")
    _require(outcome.output is None, "a failed attempt has an output")
    _require(scene.head().id == head, "the target moved")


# the first edition


def merge(scene: Scene) -> None:
    """H == A: the change is merged"""
    _published(scene, scene.run(scene.start(), writes("y")))


def replacement(scene: Scene) -> None:
    """parent(H) == A: the abandoned publication is replaced"""
    polled = scene.start()
    _published(scene, scene.run(polled, writes("y")))
    abandoned = scene.head().id
    _published(scene, scene.run(scene.retry(polled), writes("y")))
    _require(scene.head().id != abandoned, "the abandoned publication is still there")


def fail_closed(scene: Scene) -> None:
    """Any other H: refused, the target stays where it is"""
    scene.abandon()
    head = scene.abandon().id
    _refused(scene, scene.run(scene.start(), writes("y")), head)
    _refused(scene, scene.run(scene.start(), DictTask()), head)


def no_op(scene: Scene) -> None:
    """No change: no empty commit, an abandoned publication is moved back"""
    _require(ref_of(scene.run(scene.start(), DictTask())) == scene.a, "the output is not the input")
    _require(scene.head().id == scene.a, "an attempt without a change left a commit")
    polled = scene.start()
    _published(scene, scene.run(polled, writes("y")))
    _require(ref_of(scene.run(scene.retry(polled), DictTask())) == scene.a, "the output is not the input")
    _require(scene.head().id == scene.a, "the target was not moved back to the input")


def preconditions(scene: Scene) -> None:
    """Merge and relocation fail: no success, the target stays where it is"""
    upload(scene.lake, scene.repository, scene.branch, "dirt", b"uncommitted")
    _refused(scene, scene.run(scene.start(), writes("y")), scene.a)
    scene.a = scene.lake.commit_branch(scene.repository, scene.branch, "clean again", {}).id
    head = scene.abandon().id
    tap = scene.tap
    tap.before["relocate"] = lambda: _delete_staging(scene)
    _refused(scene, scene.run(scene.start(), writes("y"), tap), head)


def cleanup(scene: Scene) -> None:
    """Whatever happened, no staging branch is left"""
    for verb in ("create_branch", "write", "commit_branch", "branches", "head", "merge"):
        tap = scene.tap
        tap.after[verb] = _cut
        scene.run(scene.start(), writes("y"), tap)
        _require(not _staging(scene), f"a staging branch is left after a failure in {verb}")
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
        _require(late.status is TaskStatus.FAILED, "the paused attempt published")
        _published(scene, accepted[0])


def _overtake(scene: Scene, older: Polled, accepted: list[Outcome]) -> None:
    newer = scene.retry(older)
    accepted.append(scene.run(newer, writes("z")))
    _require(scene.report(newer, accepted[0]), "Conductor did not accept the successor")


def _cut() -> None:
    raise LakeNotFound("made to fail")


# the second edition


def accepted_stays(scene: Scene) -> None:
    """An accepted publication is never removed by an attempt with an older input"""
    polled = scene.start()
    outcome = scene.run(polled, writes("y"))
    _require(scene.report(polled, outcome), "Conductor did not accept the publication")
    head = scene.head().id
    _refused(scene, scene.run(scene.start(), writes("z")), head)
    _refused(scene, scene.run(scene.start(), DictTask()), head)


def live_rivals(scene: Scene) -> None:
    """Of two attempts that both run, the one whose workflow started first publishes"""
    first, tap = scene.start(), scene.tap
    others: list[Outcome] = []
    tap.before["merge"] = lambda: others.append(scene.run(scene.start(), writes("z")))
    _published(scene, scene.run(first, writes("y"), tap))
    _require([other.status for other in others] == [TaskStatus.FAILED], "the later attempt did not give way")


def by_name(scene: Scene) -> None:
    """A deleted branch cannot be merged or relocated to, although its commit exists"""
    source = _filled(scene, "gone")
    scene.lake.delete_branch(scene.repository, source)
    for verb, act in (("merge", _merge), ("relocate", _relocate)):
        with contextlib.suppress(LakeNotFound):
            act(scene, source)
            raise CheckFailed(f"{verb} by the name of a deleted branch was accepted")
    _require(scene.head().id == scene.a, "the target moved")


def relocation(scene: Scene) -> None:
    """A relocation shows exactly the commit of the named branch, backwards too"""
    forth, back = _filled(scene, "forth"), _filled(scene, "back")
    wanted = scene.lake.head(scene.repository, forth)
    for source in (forth, back, forth):
        _relocate(scene, source)
    _require(scene.head() == wanted, "the target does not show the commit of the branch")
    for source in (forth, back):
        scene.lake.delete_branch(scene.repository, source)
    _require(scene.head() == wanted, "the target lost its commit with the branch")


def listing(scene: Scene) -> None:
    """Hidden branches are listed by prefix, in byte order, and only those"""
    made = [BranchName(f"{scene.branch}-{name}") for name in ("list-B", "list-a", "list-z", "other")]
    for branch in made:
        scene.lake.create_branch(scene.repository, branch, scene.a)
    found = [branch.name for branch in scene.lake.branches(scene.repository, f"{scene.branch}-list-", page=2)]
    _require(found == made[:3], f"listed {found}")


def labels_survive(scene: Scene) -> None:
    """The labels of a publication are on the visible commit, after a merge and after a relocation"""
    polled = scene.start()
    for attempt in (polled, None):
        at = attempt or scene.retry(polled)
        _published(scene, scene.run(at, writes("y")))
        found = scene.head().metadata
        by = commit_labels.read(found)
        _require(by is not None and by.task_id == at.attempt.task_id, "the head does not name its task")
        _require(found.get(commit_labels.EXPECTED_HEAD) == scene.a, "the head does not name its input")


def interruption(scene: Scene) -> None:
    """A merge under way is not applied once its branch was deleted and the target's updates were interrupted"""
    _require(not _is_applied(scene, "interrupted", interrupts=True), "it was applied")
    _require(scene.head().id == scene.a, "the target moved")
    if not _is_applied(scene, "deleted", interrupts=False):
        raise Unobservable("here lakeFS refuses a merge under way whose branch is deleted even if updates are not interrupted")


def _is_applied(scene: Scene, name: str, *, interrupts: bool) -> bool:
    source = _waiting_merge(scene, name)
    request = _Request(scene, source)
    thread = threading.Thread(target=request.send, daemon=True)
    thread.start()
    try:
        _wait_for_hook(scene, source, thread)
        scene.lake.delete_branch(scene.repository, source)
        if interrupts:
            scene.lake.interrupt_updates(scene.repository, scene.branch)
        if not thread.is_alive():
            raise Unobservable("the merge ended before it could be interrupted; try again")
    finally:
        thread.join(_SECONDS)
    if request.error is not None:
        raise request.error
    return not request.was_refused


@dataclass(slots=True)
class _Request:
    """A merge in a thread of its own."""

    scene: Scene
    source: BranchName
    was_refused: bool = False
    error: LakeError | None = None

    def send(self) -> None:
        try:
            _merge(self.scene, self.source)
        except LakeNotFound:
            self.was_refused = True
        except LakeError as error:
            self.error = error


def _waiting_merge(scene: Scene, name: str) -> BranchName:
    """A branch whose merge takes a while: its own action file makes lakeFS make a tag, as a signal, and then wait."""
    source = BranchName(f"{scene.branch}-{name}")
    scene.lake.create_branch(scene.repository, source, scene.a)
    upload(scene.lake, scene.repository, source, f"_lakefs_actions/{source}.yaml", _waiting_hook(scene.branch, source).encode())
    try:
        scene.lake.commit_branch(scene.repository, source, "a merge that waits", {})
    except LakeRejected as error:
        raise Unobservable(f"a hook that keeps a merge under way cannot be installed: {error}") from error
    return source


def _waiting_hook(target: BranchName, source: BranchName) -> str:
    return f"""\
name: {source}
on:
  pre-merge:
    branches: ["{target}"]
hooks:
  - id: keep_under_way
    type: lua
    properties:
      script: |
        local time = require("time")
        local lakefs = require("lakefs")
        lakefs.create_tag(action.repository_id, action.commit.parents[1], "{source}{_SIGNAL}")
        time.sleep({int(_HOOK_SECONDS * 1e9)})
"""


def _wait_for_hook(scene: Scene, source: BranchName, thread: threading.Thread) -> None:
    """Until the tag is there that the hook makes."""
    tag = BranchName(f"{source}{_SIGNAL}")
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while thread.is_alive() and time.monotonic() < deadline:
        with contextlib.suppress(LakeNotFound):
            scene.lake.commit(scene.repository, tag)
            return
        time.sleep(0.02)
    raise Unobservable("lakeFS does not run Lua hooks (actions.enabled), so no merge can be kept under way")


def _filled(scene: Scene, name: str) -> BranchName:
    source = BranchName(f"{scene.branch}-{name}")
    scene.lake.create_branch(scene.repository, source, scene.a)
    upload(scene.lake, scene.repository, source, f"{_FOLDER}{name}", secrets.token_bytes(4))
    scene.lake.commit_branch(scene.repository, source, name, {})
    return source


def _merge(scene: Scene, source: BranchName) -> None:
    scene.lake.merge(scene.repository, source, scene.branch, message="smoke", metadata={}, timeout=_SECONDS)


def _relocate(scene: Scene, source: BranchName) -> None:
    scene.lake.relocate(scene.repository, scene.branch, source, timeout=_SECONDS)


def _staging(scene: Scene) -> list[BranchName]:
    return [branch.name for branch in scene.lake.branches(scene.repository, staging_names.target_prefix(scene.branch))]


def _delete_staging(scene: Scene) -> None:
    for name in _staging(scene):
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
