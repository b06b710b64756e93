"""Revert one commit of a branch by a new publication: the servers are asked, a plan leaves; a plan comes in, a commit is made."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from perago.errors import ConductorError, LakeConflict, LakeNotFound, PublishFenceError, SetupError
from perago.lake.port import ObjectDifference
from perago.model import BranchName, Commit, CommitId, Handle, ObjectPath, Repository, WorkspaceRef
from perago.operate import branch_move, evidence, recovery
from perago.operate.evidence import Evidence
from perago.operate.servers import Servers
from perago.protocol import commit_labels, head

_NAMED = 20
"""So many objects are named in a refusal."""


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """`changes` is what `commit` did and the undo takes back."""

    repository: Repository
    branch: BranchName
    head: Commit
    commit: Commit
    changes: Sequence[ObjectDifference]


def plan(servers: Servers, repository: Repository, branch: BranchName, wanted: str) -> UndoPlan:
    """`SetupError` for a commit that cannot be undone at all, `PublishFenceError` for one that cannot be undone now."""
    found = servers.lake.head(repository, branch)
    commit, parent = _undoable(servers, repository, branch, wanted)
    if (why := unfit(evidence.of(servers, found), f"{repository}/{branch}")) is not None:
        raise PublishFenceError(f"branch {branch} was left alone: {why}")
    changed = list(servers.lake.differences(repository, parent, commit.id))
    names = {one.path for one in changed}
    since = {one.path for one in servers.lake.differences(repository, commit.id, found.id)} & names
    unlike_before = {one.path for one in servers.lake.differences(repository, parent, found.id)} & names
    if (why := refusal(commit.id, names, since, unlike_before)) is not None:
        raise PublishFenceError(f"branch {branch} was left alone: {why}")
    return UndoPlan(repository, branch, found, commit, [one for one in changed if one.path not in since])


def refusal(commit: CommitId, changed: set[ObjectPath], since: set[ObjectPath], unlike_before: set[ObjectPath]) -> str | None:
    """Why the commit cannot be reverted, or None.

    Of the objects that it `changed`, those in `since` differ between it and the head, and those in `unlike_before` between its
    parent and the head. An object that is back to what it was before needs no undo; one that is something else is another's.
    """
    later = sorted(since & unlike_before)
    if later:
        more = f" and {len(later) - _NAMED} more" if len(later) > _NAMED else ""
        named = ", ".join(repr(path) for path in later[:_NAMED])
        return f"later commits changed what {commit} wrote: {named}{more}; undo those first, or publish a correction"
    if changed <= since:
        return f"nothing to undo: the branch has every object that {commit} changed as it was before"
    return None


def unfit(newest: Evidence, target: str) -> str | None:
    """Why no commit may be made on this head, or None. A commit on top of an unaccepted one would keep that one for ever."""
    if newest.may_go:
        return f"its head {newest.commit.id} is {recovery.describe(newest)}; run perago recover {target} first"
    if isinstance(newest.acceptance, head.InProgress):
        return f"its head {newest.commit.id} is {recovery.describe(newest)}; wait for it, or end its workflow"
    return None


def apply(servers: Servers, wanted: UndoPlan) -> Commit:
    """Through a staging branch, like every publication; `Operation.publish` names the errors."""
    target = WorkspaceRef(wanted.repository, wanted.branch, wanted.head.id)
    operation = branch_move.begin(servers, "undo", target)
    labels = commit_labels.write_command(commit_labels.UNDO, wanted.commit.id, operation.staging.execution, wanted.head.id)
    message = f"perago undo: revert {wanted.commit.id} ({wanted.commit.message})"

    def stage(handle: Handle) -> Commit:
        try:
            return servers.lake.revert(wanted.repository, handle.branch, wanted.commit, message)
        except LakeConflict as error:
            raise PublishFenceError(f"branch {wanted.branch} was left alone: {error}") from error

    def outdated() -> str | None:
        return unfit(evidence.of(servers, wanted.head), f"{wanted.repository}/{wanted.branch}")

    made = operation.publish(stage, message, {**labels, commit_labels.UNDO_BY: branch_move.operator()}, outdated)
    _record(servers, wanted, made)
    return made


def _undoable(servers: Servers, repository: Repository, branch: BranchName, wanted: str) -> tuple[Commit, CommitId]:
    """The commit and its first parent."""
    try:
        commit = servers.lake.commit(repository, CommitId(wanted))
    except LakeNotFound as error:
        raise SetupError(
            f"{wanted} is not a commit of repository {repository}; perago log {repository}/{branch} shows them"
        ) from error
    if not commit.id.startswith(wanted):
        raise SetupError(f"{wanted} is not a commit id: it resolves to {commit.id}")
    if servers.settings.merge_base(repository, commit.id, branch) != commit.id:
        raise SetupError(f"{commit.id} is not in the history of branch {branch}; perago log {repository}/{branch} shows it")
    if commit.first_parent is None:
        raise SetupError(f"{commit.id} is the first commit of the repository: there is nothing before it to go back to")
    if commit_labels.PROTECT in commit.metadata:
        raise SetupError(f"{commit.id} was made by perago protect; use perago protect {repository} {branch}, or its --remove")
    return commit, commit.first_parent


def _record(servers: Servers, wanted: UndoPlan, made: Commit) -> None:
    """In Conductor's log of the task whose commit was undone; that it cannot be written changes nothing."""
    by = commit_labels.read(wanted.commit.metadata)
    line = f"commit {wanted.commit.id} on branch {wanted.branch} was undone by {made.id} ({made.metadata[commit_labels.UNDO_BY]})"
    if by is not None:
        with contextlib.suppress(ConductorError):
            servers.conductor.log(by.task_id, [line])
