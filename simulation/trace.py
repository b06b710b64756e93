"""Describes a schedule in readable lines: which actor did what, in order, and the history of the target branch."""

from collections.abc import Iterator
from itertools import groupby

from perago.model import CommitId
from simulation.actors import CallOutcome
from simulation.explore import ScheduleRun
from simulation.world import CONDUCTOR, HAND_OUT, MoveRecord, World


def describe(run: ScheduleRun) -> Iterator[str]:
    """Yield one line for each sequence of calls that one actor made without being interrupted."""
    world = run.world
    handed_out = iter(world.workers.values())
    shown: CommitId | None = None
    for key, moves in groupby(run.world.log, lambda record: (record.who, record.what, record.head)):
        who, what, head = key
        if who == CONDUCTOR and what.startswith(HAND_OUT):
            line = _handed_out(world, next(handed_out).name)
        else:
            line = f"{who}: {_describe_calls(what, list(moves))}"
        yield line if head == shown else f"{line}   [target: {_history(world, head)}]"
        shown = head
    if run.broken is not None:
        yield f"broken: {run.broken}"


def _handed_out(world: World, name: str) -> str:
    worker = world.workers[name]
    workflow, step = worker.place
    attempt = worker.attempt
    where = f"workflow {workflow + 1}, step {step + 1}, retry {attempt.retry_count}, poll {attempt.poll_count}"
    return f"{CONDUCTOR}: hands out {name} ({where}), which {worker.body}; input {_commit(world, worker.source.ref)}"


def _describe_calls(what: str, moves: list[MoveRecord]) -> str:
    verbs = ", ".join(record.verb for record in moves)
    if moves[0].who == CONDUCTOR:
        return what
    return verbs if what == CallOutcome.GO else f"{what} {verbs}"


def _history(world: World, head: CommitId) -> str:
    return " <- ".join(_commit(world, commit) for commit in reversed(list(world.oracle.history(head))[:-1]))


def _commit(world: World, commit: CommitId) -> str:
    """A: the first input. C2: staged by w2. M2: made by the merge of w2. X: made by no worker of the simulation."""
    if commit == world.root:
        return "A"
    found = world.oracle.commit(commit)
    author = world.author_of(found)
    if author is None:
        return f"X({commit[:8]})"
    letter = "M" if ".lakefs.merge.strategy" in found.metadata else "C"
    return f"{letter}{author.name.removeprefix('w')}({commit[:8]})"
