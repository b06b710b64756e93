"""Put a branch back to what Conductor accepted: the evidence comes in, a plan leaves; a plan comes in, the branch moves."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import assert_never

from perago import events
from perago.errors import ConductorError, LakeUnknown, PublishFenceError, SetupError
from perago.model import Commit, CommitId, WorkspaceRef
from perago.operate import branch_move, evidence
from perago.operate.evidence import Evidence, History
from perago.operate.servers import Servers
from perago.protocol import head


@dataclass(frozen=True, slots=True)
class Nothing:
    """The branch is where it may be."""

    why: str


@dataclass(frozen=True, slots=True)
class RecoveryMove:
    """Take `removed`, the newest first, off the branch and leave it at `goal`."""

    goal: Commit
    removed: Sequence[Evidence]
    why: str

    @property
    def lost(self) -> Sequence[Evidence]:
        """What Conductor accepted, may have accepted, or what Perago did not make."""
        return [one for one in self.removed if not one.may_go]


@dataclass(frozen=True, slots=True)
class Unsafe:
    """No plan that keeps what has to stay."""

    why: str


Plan = Nothing | RecoveryMove | Unsafe


def plan(history: History) -> Plan:
    """Without a choice of the operator: never removes what Conductor accepted or may have accepted, nor hand-made commits."""
    going = history.judged[: _going(history.judged)]
    if history.missing:
        return _restored(history, going)
    if not going:
        return _left(history)
    if len(going) == len(history.judged):
        return Unsafe(f"none of the newest {len(going)} commits was accepted; name the commit to go back to with --to")
    base = history.judged[len(going)]
    if isinstance(base.acceptance, head.InProgress):
        return Unsafe(f"the task of {base.commit.id} still runs; wait for it, or end its workflow")
    return RecoveryMove(base.commit, going, f"{base.commit.id} is the newest commit that has to stay ({describe(base)})")


def plan_to(servers: Servers, history: History, wanted: str) -> Plan:
    """To a commit that the operator named."""
    goal = servers.lake.commit(history.repository, CommitId(wanted))
    if not goal.id.startswith(wanted):
        raise SetupError(f"--to {wanted} is not a commit id: it resolves to {goal.id}")
    if goal.id == history.head.id:
        return Nothing(f"the branch is at {goal.id} already")
    base = goal.id
    if not history.holds(base):
        missing = next((one for one in history.missing if one.commit.id == goal.id), None)
        if missing is None or missing.base is None:
            raise SetupError(
                f"{goal.id} is neither in the history of {history.branch} nor a commit that Conductor accepted for it"
            )
        base = missing.base
    removed = [_judged(servers, history, commit) for commit in history.above(base)]
    running = next((one for one in removed if isinstance(one.acceptance, head.InProgress)), None)
    if running is not None:
        return Unsafe(f"the task of {running.commit.id} still runs and may report it; wait for it, or end its workflow")
    return RecoveryMove(goal, removed, "named with --to")


def apply(servers: Servers, history: History, move: RecoveryMove, emit: events.Emit = events.ignore) -> None:
    """Through a handle, like every publication. `PublishFenceError` says why the branch was left alone."""
    target = WorkspaceRef(history.repository, history.branch, history.head.id)
    why = "; ".join(f"{one.commit.id}: {describe(one)}" for one in move.removed) or "where an accepted commit was missing"
    heard: list[events.Event] = []
    operation = branch_move.begin(servers, "recover", target, _both(heard.append, emit))
    try:
        reason = operation.restoration.move(
            history.head,
            move.goal.id,
            f"moved by perago recover ({why})",
            lambda: operation.earlier_command() or _outdated(servers, move),
        )
    except LakeUnknown:
        # The head settles it.
        reason = None
    if reason is not None:
        raise PublishFenceError(f"branch {history.branch} was left alone: {reason}")
    found = servers.lake.head(history.repository, history.branch)
    if found.id != move.goal.id:
        raise PublishFenceError(f"branch {history.branch} is at {found.id}, not at {move.goal.id}: something else writes to it")
    _record(servers, move, heard)


def _outdated(servers: Servers, move: RecoveryMove) -> str | None:
    """Whether Conductor says something else of what the plan rests on than when it was made."""
    changed = [one.commit.id for one in move.removed if evidence.of(servers, one.commit).acceptance != one.acceptance]
    if not move.removed and not isinstance(evidence.of(servers, move.goal).acceptance, head.AcceptedCommit):
        changed = [move.goal.id]
    return f"Conductor's answer about {changed[0]} has changed; look again" if changed else None


def describe(one: Evidence) -> str:
    """The acceptance of a commit, for a person."""
    acceptance = one.acceptance
    match acceptance:
        case head.Unlabelled(message, committer, command):
            origin = f"made by perago {command}" if command else "not made by Perago"
            return f"{origin}: {message!r} by {committer or 'unknown'}"
        case head.AcceptedCommit(by, name, is_readable):
            note = "" if is_readable else "; its output is in external storage"
            return f"accepted: step {by.reference_name} of workflow {name or by.workflow_id}{note}"
        case head.Abandoned(_, why):
            return f"not accepted: {why}"
        case head.InProgress(by, name):
            return f"still running: step {by.reference_name} of workflow {name or by.workflow_id}"
        case head.CompletedOtherwise(_, accepted):
            return f"not accepted: Conductor accepted {accepted or 'no workspace'} from its task instead"
        case head.Undecidable(_, why):
            return f"may have been accepted: {why}"
        case _:
            assert_never(acceptance)


def _going(judged: Sequence[Evidence]) -> int:
    """How many commits from the head down may go."""
    return next((number for number, one in enumerate(judged) if not one.may_go), len(judged))


def _left(history: History) -> Nothing | Unsafe:
    newest = history.judged[0]
    below = next((one for one in history.judged if one.may_go), None)
    if below is not None:
        return Unsafe(
            f"{newest.commit.id} is {describe(newest)}, and stands on {below.commit.id}, which is {describe(below)}; "
            "start a new workflow from the head to keep both, or name the commit to go back to with --to"
        )
    return Nothing(f"the head {newest.commit.id} is {describe(newest)}")


def _restored(history: History, going: Sequence[Evidence]) -> Plan:
    """To the one accepted commit that is missing, or to the last of several that stand on each other."""
    covered = {commit for one in history.missing for commit in one.below}
    tips = [one for one in history.missing if one.commit.id not in covered]
    listed = ", ".join(f"{one.commit.id} (step {one.reference_name} of workflow {one.workflow_id})" for one in tips)
    if len(tips) != 1:
        return Unsafe(f"Conductor accepted {listed}, and no history holds all of them; choose one with --to")
    base = tips[0].base
    above = {one.id for one in history.above(base)} if base is not None else {history.head.id}
    if base is None or not above <= {one.commit.id for one in going}:
        return Unsafe(f"Conductor accepted {listed}, but commits that have to stay were published in its place; choose with --to")
    removed = [one for one in going if one.commit.id in above]
    return RecoveryMove(tips[0].commit, removed, f"Conductor accepted {listed}, and the branch does not hold it")


def _judged(servers: Servers, history: History, commit: Commit) -> Evidence:
    return next((one for one in history.judged if one.commit.id == commit.id), None) or evidence.of(servers, commit)


def _record(servers: Servers, move: RecoveryMove, heard: Sequence[events.Event]) -> None:
    """In Conductor's log of each task whose commit is gone; that it cannot be written changes nothing."""
    lines = [str(event) for event in heard if isinstance(event, events.Removed)]
    for one in move.removed:
        if one.by is not None and one.seen is not None:
            with contextlib.suppress(ConductorError):
                servers.conductor.log(one.by.task_id, lines)


def _both(first: Callable[[events.Event], None], second: events.Emit) -> events.Emit:
    def emit(event: events.Event) -> None:
        first(event)
        second(event)

    return emit
