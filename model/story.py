"""A counterexample told for people: TLC's states come in; who did what, and what the target branch showed then, leaves."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from model.tlc import Moment, State

ROOT, MERGES = 0, 10

_WORDS = {
    "Stage": "stages its change on a branch of its own",
    "FindEmpty": "finds that it changed nothing",
    "List": "lists the staging branches to revoke",
    "MakeHandle": "makes a handle: a staging branch at its input",
    "LoseAnswer": "loses the answer",
    "Crash": "crashes",
}
_OPERATIONS = {
    "merge": "merge into the target",
    "replace": "relocate the target to its commit",
    "back": "relocate the target to its input",
}
_END = {"fence": "meets the attempt fence and ends", "decide": "refuses to publish and ends", "wait": "is refused and ends"}


@dataclass(frozen=True, slots=True)
class Line:
    """One step: the actor, the deed, and the line of commits that the target branch shows after it."""

    who: str
    did: str
    target: str


def tell(trace: Sequence[Moment]) -> Iterator[Line]:
    for before, after in itertools.pairwise(trace):
        who, did = _step(after.action, before.state, after.state)
        yield Line(who, did, history(after.state))


def history(state: State) -> str:
    """The target branch from the workflow's first input to its head."""
    commits = [cast("int", state["head"])]
    while commits[-1] != ROOT:
        commits.append(_parent(state, commits[-1]))
    return " → ".join(commit(number) for number in reversed(commits))


def commit(number: int) -> str:
    """A is where the workflow began, C2 what execution 2 staged, M2 what its merge made."""
    if number == ROOT:
        return "A"
    return f"M{number - MERGES}" if number > MERGES else f"C{number}"


def _parent(state: State, number: int) -> int:
    column, at = ("onto", number - MERGES) if number > MERGES else ("input", number)
    return _numbers(state, column)[at - 1]


def _step(action: str, before: State, after: State) -> tuple[str, str]:
    if action in {"Retry", "Rerun", "SkipStep"}:
        return "Conductor", _handed_out(action, after)
    who = _actor(action, before, after)
    if action in {"Hold", "Apply"}:
        return "lakeFS", _served(who, before, after)
    return f"execution {who + 1}", _deed(action, who, before, after)


def _actor(action: str, before: State, after: State) -> int:
    """Whose request moved, for lakeFS; whose place changed, for a client."""
    if action == "Report":
        reporting = [who for who, place in enumerate(_texts(before, "pc")) if place in {"published", "settled"}]
        return next(who for who in reporting if _texts(after, "pc")[who] == "dead")
    column = "request" if action in {"Hold", "Apply"} else "pc"
    old, new = (cast("list[object]", state[column]) for state in (before, after))
    return next(who for who, (was, now) in enumerate(zip(old, new, strict=True)) if was != now)


def _handed_out(action: str, after: State) -> str:
    who = cast("int", after["current"])
    task = cast("list[dict[str, int]]", after["task"])[who - 1]
    why = {"Retry": "gives the attempt up and", "Rerun": "is told to rerun it and", "SkipStep": "skips the optional step and"}[
        action
    ]
    return f"{why} hands out execution {who} (step {task['step']}, retry {task['retry']})"


def _served(who: int, before: State, after: State) -> str:
    of = f"the request of execution {who + 1}"
    was, now = (cast("list[dict[str, object]]", state["request"])[who] for state in (before, after))
    if was["state"] == "held":
        return f"finds the target moved and begins {of} anew" if now["state"] == "sent" else f"carries out {of}"
    if now["state"] == "held":
        return f"begins {of}, on top of {commit(cast('int', before['head']))}"
    return f"refuses {of}: its branch is gone"


def _deed(action: str, who: int, before: State, after: State) -> str:
    was, now = _texts(before, "pc")[who], _texts(after, "pc")[who]
    if action == "Report":
        return _reported(who, before, after)
    if action in _WORDS:
        return _WORDS[action]
    if action == "Revoke":
        gone = [f"{other}" for other in sorted(cast("list[list[int]]", before["todo"])[who])]
        return f"revokes the staging branches of {', '.join(gone)}" if gone else "has nothing to revoke"
    if now == "dead":
        return _END.get(was, "cannot tell, fails and ends")
    if now == "wait":
        asked = cast("list[dict[str, str]]", after["request"])[who]["op"]
        return f"reads the head {commit(cast('int', before['head']))}, asks to {_OPERATIONS[asked]}"
    return _moved(now, who, after)


def _moved(now: str, who: int, after: State) -> str:
    match now:
        case "revoke" | "list" | "decide":
            return "passes the attempt fence"
        case "published" | "settled":
            return f"takes {commit(_numbers(after, 'claim')[who])} for its output"
        case "handle":
            return f"reads the head {commit(cast('int', after['head']))}, needs a handle"
        case _:
            return "sees that its merge is not on its input"


def _reported(who: int, before: State, after: State) -> str:
    claimed = commit(_numbers(before, "claim")[who])
    if before["line"] == after["line"]:
        return f"reports {claimed}, which Conductor ignores"
    following = cast("int", after["current"])
    more = f"; execution {following} begins the next step" if following and following != before["current"] else ""
    return f"reports {claimed}, which Conductor accepts{more}"


def _texts(state: State, name: str) -> list[str]:
    return cast("list[str]", state[name])


def _numbers(state: State, name: str) -> list[int]:
    return cast("list[int]", state[name])
