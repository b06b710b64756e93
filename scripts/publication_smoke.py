"""The publication protocol against a real lakeFS: `python scripts/publication_smoke.py REPOSITORY`.

The lakeFS is that of the environment or `.env`. Every check works on a target branch of its own, made from the repository's
branch `--base` and deleted afterwards. Conductor is played in memory. Prints a table; exit code 0 if all checks hold, 1 if not.
"""

import argparse
import contextlib
import functools
import secrets
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass

from perago.conductor.port import Polled
from perago.errors import LakeNotFound, PeragoError, TaskStatus
from perago.lake.client import LakeFS
from perago.lake.http import Timeouts
from perago.lake.port import Lake
from perago.model import BranchName, Outcome, Repository
from perago.testing.attempts import DictTask, upload
from perago.testing.scene import Scene, ref_of, writes
from perago.worker import settings


class Broken(Exception):
    """A check that does not hold."""


@dataclass(frozen=True, slots=True)
class Result:
    name: str
    fault: str | None


def require(holds: bool, what: str) -> None:
    if not holds:
        raise Broken(what)


def published(scene: Scene, outcome: Outcome) -> None:
    head = scene.head()
    require(outcome.status is TaskStatus.COMPLETED, f"the attempt ended with {outcome.status}: {outcome.reason}")
    require(ref_of(outcome) == head.id, "the output does not name the target's head")
    require(head.parents == (scene.a,), "the publication does not sit directly on its input")


def refused(scene: Scene, outcome: Outcome, head: str) -> None:
    require(outcome.status is TaskStatus.FAILED, f"the attempt ended with {outcome.status}")
    require(outcome.output is None, "a failed attempt has an output")
    require(scene.head().id == head, "the target moved")


def merge(scene: Scene) -> None:
    """H == A: the change is merged"""
    published(scene, scene.run(scene.start(), writes("y")))


def replacement(scene: Scene) -> None:
    """parent(H) == A: the abandoned publication is replaced"""
    scene.abandon()
    published(scene, scene.run(scene.start(), writes("y")))
    require(scene.head().metadata.get("perago.phase") == "try", "the target does not show the staging commit itself")


def fail_closed(scene: Scene) -> None:
    """Any other H: refused, the target stays where it is"""
    scene.abandon()
    head = scene.abandon().id
    refused(scene, scene.run(scene.start(), writes("y")), head)
    refused(scene, scene.run(scene.start(), DictTask()), head)


def no_op(scene: Scene) -> None:
    """No change: no empty commit, an abandoned publication is moved back"""
    require(ref_of(scene.run(scene.start(), DictTask())) == scene.a, "the output is not the input")
    require(scene.head().id == scene.a, "a no-op left a commit")
    scene.abandon()
    require(ref_of(scene.run(scene.start(), DictTask())) == scene.a, "the output is not the input")
    require(scene.head().id == scene.a, "the target was not moved back to the input")


def preconditions(scene: Scene) -> None:
    """Merge and relocation fail: no success, the target stays where it is"""
    upload(scene.lake, scene.repository, scene.branch, "dirt", b"uncommitted")
    refused(scene, scene.run(scene.start(), writes("y")), scene.a)
    scene.a = scene.lake.commit_branch(scene.repository, scene.branch, "clean again", {}).id
    head = scene.abandon().id
    tap = scene.tap
    tap.before["relocate"] = lambda: _delete_staging(scene)
    refused(scene, scene.run(scene.start(), writes("y"), tap), head)


def cleanup(scene: Scene) -> None:
    """Whatever happened, no staging branch is left"""
    for verb in ("create_branch", "write", "commit_branch", "branches", "head", "merge"):
        tap = scene.tap
        tap.after[verb] = _cut
        scene.run(scene.start(), writes("y"), tap)
        require(not _own_staging(scene), f"a staging branch survived a failure after {verb}")
        scene.renew()


def revocation(scene: Scene) -> None:
    """A paused attempt that wakes up after its successor was accepted publishes nothing"""
    for verb in ("merge", "relocate"):
        scene.renew()
        older, tap = scene.start(), scene.tap
        if verb == "relocate":
            scene.abandon()
        accepted: list[Outcome] = []
        tap.before[verb] = functools.partial(_overtake, scene, older, accepted)
        late = scene.run(older, writes("y"), tap)
        require(late.status is TaskStatus.FAILED, "the paused attempt published")
        published(scene, accepted[0])


def _overtake(scene: Scene, older: Polled, accepted: list[Outcome]) -> None:
    newer = scene.retry(older)
    accepted.append(scene.run(newer, writes("z")))
    require(scene.report(newer, accepted[0]), "Conductor did not accept the successor")


CHECKS: tuple[Callable[[Scene], None], ...] = (merge, replacement, fail_closed, no_op, preconditions, cleanup, revocation)


def _cut() -> None:
    raise LakeNotFound("made to fail")


def _own_staging(scene: Scene) -> list[BranchName]:
    """Of this run's workflows alone: others may be at work in the same repository."""
    ours = {row.workflow_id.replace("-", "_") for row in scene.conductor.tasks.values()}
    return [name for name in scene.staging_branches() if any(workflow in name for workflow in ours)]


def _delete_staging(scene: Scene) -> None:
    for name in _own_staging(scene):
        scene.lake.delete_branch(scene.repository, name)


@contextlib.contextmanager
def target(lake: Lake, repository: Repository, base: BranchName) -> Generator[BranchName]:
    branch = BranchName(f"perago-smoke-{secrets.token_hex(6)}")
    lake.create_branch(repository, branch, lake.head(repository, base).id)
    try:
        yield branch
    finally:
        lake.delete_branch(repository, branch)


def run(check: Callable[[Scene], None], lake: Lake, repository: Repository, base: BranchName) -> Result:
    name = " ".join((check.__doc__ or "").split())
    try:
        with target(lake, repository, base) as branch:
            scene = Scene(lake, repository, branch, prefix="perago-smoke/")
            check(scene)
            require(not _own_staging(scene), "a staging branch is left")
    except (Broken, PeragoError, AssertionError) as error:
        return Result(name, str(error))
    return Result(name, None)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", help="a repository to work in; only its own branches are touched")
    parser.add_argument("--base", default="main", help="the branch that target branches are made from (default: main)")
    chosen = parser.parse_args(arguments)
    try:
        access = settings.load().require_lakefs()
    except PeragoError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    timeouts = Timeouts(connect=10, request=60)
    with contextlib.closing(LakeFS(access.url, access.access_key_id, access.secret_access_key, timeouts=timeouts)) as lake:
        results = [run(check, lake, Repository(chosen.repository), BranchName(chosen.base)) for check in CHECKS]
    width = max(len(result.name) for result in results)
    for result in results:
        print(f"{result.name:<{width}}  {'ok' if result.fault is None else f'FAILED: {result.fault}'}")
    return 0 if all(result.fault is None for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
