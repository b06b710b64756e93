"""The publish decision: a pure function from the target's head and the staged change to a plan that contains what it acts on."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from perago.model import Attempt, CommitId, StagedCommit
from perago.protocol import commit_labels, head

_LONGEST_NAME = 60


class UnlabelledHead(StrEnum):
    """How to treat a commit without Perago's labels directly on the input."""

    REPLACE = "replace"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Merge:
    """The target is at the input: merge the staging branch into it."""

    change: StagedCommit


@dataclass(frozen=True, slots=True)
class Replace:
    """The head may be removed: relocate the target to the staged commit. `why` is for logs."""

    change: StagedCommit
    removed: CommitId
    why: str


@dataclass(frozen=True, slots=True)
class Keep:
    """Nothing changed and nothing has to be removed: the output is the input."""

    output: CommitId


@dataclass(frozen=True, slots=True)
class MoveBack:
    """Nothing changed, but the head may be removed: relocate the target back to the input."""

    output: CommitId
    removed: CommitId
    why: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """An attempt with this input must not change the target."""

    reason: str


Plan = Merge | Replace | Keep | MoveBack | Refuse


def decide(
    attempt: Attempt,
    input_ref: CommitId,
    target: head.Head,
    change: StagedCommit | None,
    unlabelled: UnlabelledHead = UnlabelledHead.REPLACE,
) -> Plan:
    """What to do with the target branch. `change` is None if nothing changed; `attempt` is only used in the texts of refusals."""
    removable = _removable(attempt, input_ref, target, unlabelled)
    if isinstance(removable, Refuse):
        return removable
    if change is None:
        return Keep(input_ref) if removable is None else MoveBack(input_ref, target.commit, removable)
    return Merge(change) if removable is None else Replace(change, target.commit, removable)


def refusal(
    attempt: Attempt, input_ref: CommitId, target: head.Head, unlabelled: UnlabelledHead = UnlabelledHead.REPLACE
) -> Refuse | None:
    """The refusal that any change of an attempt with this input would get while the head is `target`, or None."""
    removable = _removable(attempt, input_ref, target, unlabelled)
    return removable if isinstance(removable, Refuse) else None


def _removable(attempt: Attempt, input_ref: CommitId, target: head.Head, unlabelled: UnlabelledHead) -> str | Refuse | None:
    """Why the head may be removed, or why not. None where nothing has to be removed: the head is the input."""
    match target.place:
        case head.Place.AT_INPUT:
            return None
        case head.Place.ON_INPUT:
            return _on_input(attempt, input_ref, target, unlabelled)
        case head.Place.BESIDE_INPUT:
            return _beside_input(input_ref, target)
        case head.Place.ELSEWHERE:
            return _elsewhere(input_ref, target)
        case _:
            assert_never(target.place)


def _on_input(attempt: Attempt, input_ref: CommitId, target: head.Head, unlabelled: UnlabelledHead) -> str | Refuse:
    """Why a head directly on the input may be removed, or why not."""
    match target.acceptance:
        case head.Abandoned(by, why):
            return f"the publication of {_step(by)}, which Conductor did not accept: {why}"
        case head.CompletedOtherwise(by, accepted) if accepted in {None, input_ref}:
            return _not_accepted(by, accepted)
        case head.Unlabelled() as acceptance:
            return _unlabelled(target.commit, acceptance, unlabelled)
        case None:
            raise AssertionError("a head on the input is judged before it is decided about")
        case acceptance:
            return Refuse(_must_stay(attempt, target.commit, acceptance))


def _beside_input(input_ref: CommitId, target: head.Head) -> str | Refuse:
    """A head that shares its parent with the input may go only if the input is what Conductor accepted in its place."""
    match target.acceptance:
        case head.CompletedOtherwise(by, accepted) if accepted == input_ref:
            return _not_accepted(by, accepted)
        case _:
            return _elsewhere(input_ref, target)


def _elsewhere(input_ref: CommitId, target: head.Head) -> Refuse:
    return Refuse(
        f"the target branch is at {target.commit}, which is neither the input commit {input_ref} nor directly after it; "
        "start a new workflow from the branch's present head"
    )


def _unlabelled(commit: CommitId, acceptance: head.Unlabelled, unlabelled: UnlabelledHead) -> str | Refuse:
    if acceptance.command:
        return Refuse(f"the target branch is at {commit}, made by `perago {acceptance.command}`; start a new workflow from it")
    what = f"a commit that Perago did not make ({_short(acceptance.message)!r} by {_short(acceptance.committer) or 'unknown'})"
    if unlabelled is UnlabelledHead.REPLACE:
        return what
    return Refuse(
        f"the target branch is at {commit}, {what}, and PERAGO_UNLABELLED_HEAD=refuse keeps it; "
        "start a new workflow from it, or move the branch back"
    )


def _must_stay(
    attempt: Attempt,
    commit: CommitId,
    acceptance: head.AcceptedCommit | head.InProgress | head.CompletedOtherwise | head.Undecidable,
) -> str:
    match acceptance:
        case head.AcceptedCommit(by, workflow_name, is_readable):
            return _accepted(attempt, commit, by, workflow_name, is_readable=is_readable)
        case head.InProgress(by, workflow_name):
            return (
                f"{_step(by, workflow_name)} has published {commit} on this attempt's input and has not reported yet; "
                "a retry finds out whether Conductor accepted it"
            )
        case head.CompletedOtherwise(by, accepted):
            return (
                f"the target branch shows {commit}, but Conductor accepted {accepted} from {_step(by)}; "
                "run `perago recover` to put that commit back"
            )
        case head.Undecidable(by, why):
            return (
                f"the target branch is at {commit}, made by {_step(by)}: {why}, so it may have been accepted; "
                "start a new workflow from it, or run `perago recover`"
            )
        case _:
            assert_never(acceptance)


def _not_accepted(by: commit_labels.Labels, accepted: CommitId | None) -> str:
    return f"the publication of {_step(by)}, which Conductor completed with {accepted or 'no workspace'} instead"


def _accepted(attempt: Attempt, commit: CommitId, by: commit_labels.Labels, workflow_name: str, *, is_readable: bool) -> str:
    """The reason of a refusal, with advice on how to wire the workflow."""
    counts = "" if is_readable else " (its output is in external storage, so it counts as accepted)"
    found = (
        f"Conductor accepted {commit} from {_step(by, workflow_name)}{counts}, and this step would remove it: "
        "it starts from an older commit"
    )
    if by.workflow_id != attempt.workflow_id:
        return (
            f"{found}. Start a new workflow with that commit as workspace.ref; "
            "wire a sub-workflow to the workspace that the one before it left"
        )
    before, here = _plain(by.reference_name), _plain(attempt.reference_name)
    if before == here:
        return (
            f"{found}. A step in a loop has to take the workspace that the iteration before it left, "
            "for example through a workflow variable"
        )
    return f"{found}. Run it after {before} and wire its workspace to ${{{before}.output.workspace}}"


def _plain(reference_name: str) -> str:
    """Without the iteration number that Conductor appends in a loop."""
    return re.sub(r"__\d+\Z", "", reference_name)


def _step(by: commit_labels.Labels, workflow_name: str = "") -> str:
    name = f"{_short(workflow_name)} " if workflow_name else ""
    return f"step {_short(by.reference_name)} of workflow {name}{by.workflow_id}"


def _short(text: str) -> str:
    """Shortened, because Conductor truncates long reasons, and the advice is at their end."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_NAME else f"{line[: _LONGEST_NAME - 1]}…"
