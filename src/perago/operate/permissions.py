"""Whether the credentials suffice: everything that a publication does is done, on hidden branches that are deleted again."""

import secrets
from collections.abc import Callable

from perago.errors import LakeError, LakeNotFound, LakeRejected
from perago.lake.port import Lake, SmallFile
from perago.model import BranchName, CommitId, ObjectPath, Repository
from perago.operate.findings import Finding, Level

PREFIX = "perago-doctor-"
_FILE = ObjectPath("perago-doctor/probe")
_CHECK = "permissions"
_SECONDS = 30.0


def examine(lake: Lake, repository: Repository, base: CommitId) -> list[Finding]:
    target = BranchName(f"{PREFIX}{secrets.token_hex(6)}")
    source = BranchName(f"{target}-staging")
    steps: list[tuple[str, str, Callable[[], object]]] = [
        ("create a hidden branch", "fs:CreateBranch", lambda: _create(lake, repository, (target, source), base)),
        ("list branches", "fs:ListBranches", lambda: _list(lake, repository, target)),
        ("write an object", "fs:WriteObject", lambda: _write(lake, repository, source)),
        ("commit", "fs:CreateCommit", lambda: lake.commit_branch(repository, source, "perago doctor", {})),
        ("merge", "fs:CreateCommit", lambda: _merge(lake, repository, source, target)),
        ("interrupt updates", "fs:CreateCommit", lambda: lake.interrupt_updates(repository, target)),
        ("relocate a branch", "fs:RevertBranch", lambda: lake.relocate(repository, target, source, timeout=_SECONDS)),
        ("read a commit", "fs:ReadCommit", lambda: lake.head(repository, target)),
        ("list objects", "fs:ListObjects", lambda: lake.objects(repository, target, _FILE)),
        ("delete an object", "fs:DeleteObject", lambda: lake.delete_objects(repository, source, [_FILE])),
    ]
    try:
        tried = _tried(repository, steps)
    finally:
        left = _deleted(lake, repository, (source, target))
    return [tried] if left is None else [tried, left]


def _tried(repository: Repository, steps: list[tuple[str, str, Callable[[], object]]]) -> Finding:
    for number, (what, permission, act) in enumerate(steps):
        try:
            act()
        except LakeError as error:
            untried = [step[0] for step in steps[number + 1 :]]
            after = f"; not tried after it: {', '.join(untried)}" if untried else ""
            fix = f"allow these credentials {permission} in {repository} and take perago-* out of its protection rules and hooks"
            return Finding(Level.ACTION, _CHECK, repository, f"cannot {what}: {error}{after}", fix)
    done = ", ".join(what for what, _, _ in steps)
    return Finding(Level.OK, _CHECK, repository, f"tried on branches of its own: {done}, delete a branch")


def _create(lake: Lake, repository: Repository, branches: tuple[BranchName, ...], base: CommitId) -> None:
    for branch in branches:
        lake.create_branch(repository, branch, base)


def _list(lake: Lake, repository: Repository, prefix: str) -> None:
    if len(list(lake.branches(repository, prefix))) != 2:  # noqa: PLR2004  the two that were made
        raise LakeRejected("hidden branches are not listed by their prefix")


def _write(lake: Lake, repository: Repository, branch: BranchName) -> None:
    list(lake.write_small(repository, branch, [SmallFile(_FILE, secrets.token_bytes(8), "application/octet-stream", {})]))


def _merge(lake: Lake, repository: Repository, source: BranchName, target: BranchName) -> None:
    lake.merge(repository, source, target, message="perago doctor", metadata={}, timeout=_SECONDS)


def _deleted(lake: Lake, repository: Repository, branches: tuple[BranchName, ...]) -> Finding | None:
    failures: list[str] = []
    for branch in branches:
        try:
            lake.delete_branch(repository, branch)
        except LakeNotFound:
            continue
        except LakeError as error:
            failures.append(f"{branch}: {error}")
    if not failures:
        return None
    fix = f"allow these credentials fs:DeleteBranch in {repository} and delete the branches that begin with {PREFIX}"
    return Finding(Level.ACTION, _CHECK, repository, f"cannot delete branches: {'; '.join(failures)}", fix)
