"""Describes a counterexample of TLC in readable lines: who did what, and the history of the target branch after it."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from model.tlc import State, TraceStep

ROOT, MERGES, BY_HAND = 0, 10, 20
RESTORE_BRANCHES = 20
"""Branches with higher numbers are those through which an accepted commit is restored."""

_WORDS = {
    "Stage": "stages its change on a branch of its own",
    "StageLate": "stages its change only now",
    "FindEmpty": "finds that it changed nothing",
    "List": "lists the staging branches of others",
    "MakeHandle": "announces itself by a handle: a staging branch at its input",
    "Barrier": "makes lakeFS begin all updates of the target anew",
    "Undo": "announces by a second handle that it removes its own commit again",
    "LoseAnswer": "loses the answer",
    "Crash": "crashes",
    "Fail": "fails",
    "Restore": "reads back which commit Conductor completed its task with",
    "RestoreList": "lists the staging branches of others",
    "RestoreBarrier": "makes lakeFS begin all updates of the target anew",
}
_OPERATIONS = {
    "merge": "merge into the target",
    "replace": "relocate the target to its commit",
    "back": "relocate the target to its input",
    "undo": "relocate the target to the commit that its merge met",
    "restore": "relocate the target to the commit that Conductor accepted",
}
_END = {
    "fence": "meets the attempt fence, or gives way to a live rival that started first, and ends",
    "order": "gives way to a live rival that started first and ends",
    "again": "meets the attempt fence and ends",
    "mend": "meets the attempt fence and ends; its merge stays",
    "still": "finds the head moved and ends",
    "decide": "refuses to publish and ends",
    "wait": "is refused, or has undone its merge, and ends",
    "restore look": "has nothing to restore",
    "restore check": "leaves the restoration to a live rival",
    "restore still": "finds the head moved and ends",
}
_MOVES = {
    "order": "passes the attempt fence",
    "revoke": "passes the attempt fence, has asked Conductor about its rivals",
    "report": "takes {claimed} for its output",
    "handle": "reads the head {head}, needs a handle to move the branch back",
    "again": "reads the head {head}, is going to remove it",
    "barrier": "passes the attempt fence again",
    "undo": "finds that its merge met a commit that must stay",
    "restore list": "reads the head {head}, announces the restoration by a handle at the accepted commit",
}
_CONDUCTOR = {
    "StartLane": "begins another workflow or lane and",
    "Retry": "gives the attempt up and",
    "Rerun": "is told to rerun it and",
    "SkipStep": "skips the optional step and",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One step: the actor, the action, and the history of the target branch after it."""

    who: str
    did: str
    target: str


def describe(trace: Sequence[TraceStep]) -> Iterator[Line]:
    for before, after in itertools.pairwise(trace):
        who, did = _step(after.action, before.state, after.state)
        yield Line(who, did, history(after.state))


def history(state: State) -> str:
    """The target branch from its first commit to its head."""
    commits = [cast("int", state["head"])]
    while commits[-1] != ROOT:
        commits.append(_parent(state, commits[-1]))
    return " → ".join(commit(number) for number in reversed(commits))


def commit(number: int) -> str:
    """A: the first commit. C2: staged by execution 2. M2: made by the merge of execution 2. H1: the first commit by hand."""
    if number == ROOT:
        return "A"
    if number > BY_HAND:
        return f"H{number - BY_HAND}"
    return f"M{number - MERGES}" if number > MERGES else f"C{number}"


def branch(number: int) -> str:
    """Names a staging branch by the execution that owns it and by its purpose."""
    kind = " (restore)" if number > RESTORE_BRANCHES else " (undo)" if number > MERGES else ""
    return f"execution {number % 10}{kind}"


def _parent(state: State, number: int) -> int:
    if number > BY_HAND:
        return _numbers(state, "hand")[number - BY_HAND - 1]
    column, at = ("onto", number - MERGES) if number > MERGES else ("input", number)
    return _numbers(state, column)[at - 1]


def _step(action: str, before: State, after: State) -> tuple[str, str]:
    match action:
        case "CommitByHand":
            return "a person", f"commits {commit(cast('int', after['head']))} to the target"
        case "GiveUp":
            return "Conductor", f"gives the attempt of lane {_given_up(before, after)} up"
        case "StartLane" | "Retry" | "Rerun" | "SkipStep":
            return "Conductor", f"{_CONDUCTOR[action]} hands out {_handed_out(after)}"
        case "Hold" | "Apply":
            return "lakeFS", _served(before, after)
        case "Vanish":
            gone = sorted(set(_numbers(before, "branches")) - set(_numbers(after, "branches")))
            return "cleanup or an operator", f"deletes the staging branch of {', '.join(map(branch, gone))}"
        case _:
            who = _actor(action, before, after)
            return f"execution {who + 1}", _action_text(action, who, before, after)


def _given_up(before: State, after: State) -> int:
    return next(lane for lane, (old, new) in enumerate(_pairs("current", before, after), 1) if old != new)


def _handed_out(after: State) -> str:
    who = cast("int", after["handed"])
    task = cast("list[dict[str, int]]", after["task"])[who - 1]
    reads = commit(_numbers(after, "input")[who - 1])
    return f"execution {who} (lane {task['lane']}, step {task['step']}, retry {task['retry']}), which reads {reads}"


def _actor(action: str, before: State, after: State) -> int:
    """The client that moved: the one whose `pc` changed. A report may also end other clients."""
    moved = [who for who, (was, now) in enumerate(_pairs("pc", before, after)) if was != now]
    accepted = [who for who, (was, now) in enumerate(_pairs("out", before, after)) if was != now]
    return accepted[0] if action == "Report" and accepted else moved[0]


def _served(before: State, after: State) -> str:
    at, (was, now) = next((at, pair) for at, pair in enumerate(_pairs("request", before, after)) if pair[0] != pair[1])
    was, now = cast("dict[str, object]", was), cast("dict[str, object]", now)
    of = f"the request of execution {at % len(_texts(before, 'pc')) + 1} to {_OPERATIONS[cast('str', was['op'])]}"
    if was["state"] == "held":
        return f"finds the target moved and begins anew {of}" if now["state"] == "sent" else f"carries out {of}"
    if now["state"] == "held":
        return f"begins, on top of {commit(cast('int', before['head']))}, {of}"
    return f"refuses {of}: its branch is gone"


def _action_text(action: str, who: int, before: State, after: State) -> str:
    was, now = _texts(before, "pc")[who], _texts(after, "pc")[who]
    if action in _WORDS:
        return _WORDS[action]
    if action == "Report":
        return _reported(who, before, after)
    asked = _asked(before, after)
    if asked is not None:
        return f"reads the head {commit(cast('int', before['head']))}, asks to {_OPERATIONS[asked]}"
    if now in {"dead", "failed"}:
        return _END.get(was, "cannot tell, fails and ends")
    if action in {"Revoke", "RestoreCheck"}:
        gone = sorted(set(_numbers(before, "branches")) - set(_numbers(after, "branches")))
        return f"deletes the staging branches of {', '.join(map(branch, gone))}" if gone else "has nothing to revoke"
    head, claimed = commit(cast("int", after["head"])), commit(_numbers(after, "claim")[who])
    return _MOVES.get(now, "finds that its merge is not on its input").format(head=head, claimed=claimed)


def _asked(before: State, after: State) -> str | None:
    """The operation of a newly sent request, if there is one."""
    old, new = (cast("list[dict[str, str]]", state["request"]) for state in (before, after))
    return next((now["op"] for was, now in zip(old, new, strict=True) if now["state"] == "sent" and was != now), None)


def _reported(who: int, before: State, after: State) -> str:
    claimed = commit(_numbers(before, "claim")[who])
    if before["out"] == after["out"]:
        return f"reports {claimed}, which Conductor ignores"
    more = f"; then begins {_handed_out(after)}" if before["handed"] != after["handed"] else ""
    return f"reports {claimed}, which Conductor accepts{more}"


def _pairs(name: str, before: State, after: State) -> Iterator[tuple[object, object]]:
    old, new = (cast("list[object]", state[name]) for state in (before, after))
    return zip(old, new, strict=True)


def _texts(state: State, name: str) -> list[str]:
    return cast("list[str]", state[name])


def _numbers(state: State, name: str) -> list[int]:
    return cast("list[int]", state[name])
