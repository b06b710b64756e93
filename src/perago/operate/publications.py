"""The commits of a branch as publications: when, by which step of which workflow, and whether Conductor accepted it."""

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, assert_never

from perago import events
from perago.model import BranchName, CommitId, Repository
from perago.operate import evidence, recovery
from perago.operate.evidence import Evidence
from perago.operate.servers import Servers, read_together
from perago.protocol import commit_labels, head

MOST = evidence.HISTORY
"""So many commits are shown at most."""
SHORT = 12
"""So many characters of a commit id are shown; lakeFS and every command accept them in its place."""


class Standing(StrEnum):
    """What Conductor says about a commit, in one word."""

    ACCEPTED = "accepted"
    UNACCEPTED = "unaccepted"
    RUNNING = "running"
    """Its task has not been reported yet."""
    UNKNOWN = "unknown"
    """Conductor no longer knows its task."""
    OPERATOR = "operator"
    """Made by a command of Perago, such as `perago undo`."""
    BY_HAND = "by hand"
    FIRST = "first"
    """The commit that lakeFS makes with a repository."""


def log(servers: Servers, repository: Repository, branch: BranchName, limit: int) -> tuple[Sequence[Evidence], bool]:
    """The newest `limit` commits by first parents, and whether there are more."""
    commits = servers.settings.history(repository, branch, limit)
    more = bool(commits) and commits[-1].first_parent is not None
    return evidence.of_all(servers, commits), more


def standing(one: Evidence) -> Standing:
    match one.acceptance:
        case head.AcceptedCommit():
            return Standing.ACCEPTED
        case head.Abandoned() | head.CompletedOtherwise():
            return Standing.UNACCEPTED
        case head.InProgress():
            return Standing.RUNNING
        case head.Undecidable():
            return Standing.UNKNOWN
        case head.Unlabelled(command=command):
            if command:
                return Standing.OPERATOR
            return Standing.BY_HAND if one.commit.parents else Standing.FIRST
        case _:
            assert_never(one.acceptance)


def moment(one: Evidence) -> str:
    """The time of the commit, UTC."""
    return datetime.fromtimestamp(one.commit.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def summary(one: Evidence) -> str:
    """Who made the commit, on one line."""
    commit, by = one.commit, one.by
    if by is not None:
        name = f"{one.workflow_name} " if one.workflow_name else ""
        return f"step {by.reference_name}, attempt {by.attempt_number}, workflow {name}{by.workflow_id}"
    if folder := commit.metadata.get(commit_labels.IMPORT):
        return f"import of {folder} by {commit.metadata.get(commit_labels.IMPORT_BY) or commit.committer or 'unknown'}"
    if undone := commit.metadata.get(commit_labels.UNDO):
        return f"undo of {undone[:SHORT]} by {commit.metadata.get(commit_labels.UNDO_BY) or commit.committer or 'unknown'}"
    return f"{commit.message!r} by {commit.committer or 'unknown'}"


def amount(one: Evidence) -> str:
    """How many files were added, changed and deleted, as in `+3 ~1 -0`; empty where the commit does not tell."""
    counts = commit_labels.read_counts(one.commit.metadata)
    return "" if counts is None else f"+{counts.added} ~{counts.changed} -{counts.deleted}"


def replacements(servers: Servers, found: Sequence[Evidence]) -> Mapping[CommitId, events.Removed]:
    """Of the commits that took the place of another one: which, and why it had to go. By the commit that is in the history.

    From Conductor's log of the task, which is read only for commits whose labels say that they were not merged.
    """
    moved = [one for one in found if one.by is not None and commit_labels.STAGED in one.commit.metadata]
    removals = read_together(lambda one: _replaced(servers, one), moved)
    return {one.commit.id: removed for one, removed in zip(moved, removals, strict=True) if removed is not None}


def _replaced(servers: Servers, one: Evidence) -> events.Removed | None:
    entries: Sequence[str] = servers.workflows.task_log(one.by.task_id) if one.by is not None else ()
    removals = (events.Removed.parse(line) for entry in entries for line in entry.splitlines())
    return next((removed for removed in removals if removed is not None and removed.head == one.commit.id), None)


def document(one: Evidence, replaced: events.Removed | None = None) -> dict[str, Any]:
    """For scripts. What the commit does not tell is null."""
    commit, by = one.commit, one.by
    counts = commit_labels.read_counts(commit.metadata)
    return {
        "commit": commit.id,
        "parents": list(commit.parents),
        "time": moment(one),
        "standing": standing(one).value,
        "why": recovery.describe(one),
        "message": commit.message,
        "committer": commit.committer,
        "workflow_id": None if by is None else by.workflow_id,
        "workflow_name": one.workflow_name or None,
        "step": None if by is None else by.reference_name,
        "attempt": None if by is None or not by.attempt.isdecimal() else int(by.attempt),
        "task_id": None if by is None else by.task_id,
        "changes": None if counts is None else dataclasses.asdict(counts),
        "replaced": None if replaced is None else {"commit": replaced.commit, "why": replaced.why},
        "command": commit_labels.command(commit.metadata) or None,
        "undoes": commit.metadata.get(commit_labels.UNDO),
        "undone_by": commit.metadata.get(commit_labels.UNDO_BY),
    }
