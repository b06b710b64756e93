"""Runs the checks, each on a target branch of its own, which is deleted afterwards."""

import contextlib
import secrets
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

from perago.errors import LakeError, LakeNotFound, PeragoError
from perago.lake.port import Lake
from perago.model import BranchName, Repository
from perago.operate.protocol_check import checks
from perago.operate.protocol_check.assertions import CheckFailed, Unobservable, require
from perago.operate.protocol_check.scene import Scene
from perago.operate.servers import LakeSettings
from perago.protocol import staging_names

PREFIX = "perago-smoke-"
_FOLDER = "perago-smoke/"


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
    for check in checks.CHECKS:
        yield _run(check, ground)


def _run(check: Callable[[Scene], None], ground: Ground) -> Result:
    name = " ".join((check.__doc__ or "").split())
    try:
        with _target(ground) as branch:
            scene = Scene(ground.lake, ground.repository, branch, prefix=_FOLDER)
            check(scene)
            require(not scene.own_staging_branches(), "a staging branch is left")
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
