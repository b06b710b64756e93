"""Whether every rule holds: schedules come in; what they were like, or a failing one made short, leaves."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain

from simulation import explore, trace
from simulation.world import CONDUCTOR, World

_ENDS = {
    "no longer current in Conductor": "stale",
    "took this one's right": "revoked",
    "started first": "yielded",
    "has not reported yet": "in the way",
    "Conductor accepted": "too late",
    "neither the input commit": "elsewhere",
    "the publish request": "unknown",
    "removed again": "undone",
    "PERAGO_UNLABELLED_HEAD": "kept",
    "moved while": "overtaken",
    "moved right after": "overtaken",
}


@dataclass
class Seen:
    schedules: int = 0
    of_rivals: int = 0
    """With more than one workflow."""
    accepted: int = 0
    moves: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """The verb and how it went, or what Conductor or a person did."""
    ends: set[str] = field(default_factory=set[str])


def hold(runs: Iterable[explore.ScheduleRun]) -> Seen:
    """Every rule, in every one of them."""
    seen = Seen()
    for done in runs:
        assert done.broken is None, _told(done)
        seen.schedules += 1
        seen.of_rivals += len(done.world.setting.workflows) > 1
        seen.accepted += len(done.world.oracle.line)
        seen.moves |= {(told.verb or CONDUCTOR, told.what) for told in done.world.told}
        seen.ends |= {_end(worker.outcome.reason) for worker in done.world.workers.values() if worker.outcome}
    return seen


def _end(reason: str | None) -> str:
    return "completed" if reason is None else next((end for said, end in _ENDS.items() if said in reason), "failed")


def _told(done: explore.ScheduleRun) -> str:
    short = explore.shortened(World, done)
    lines = (f"make simulate ARGS='{done.name}': {done.broken}", f"made short ({len(short.moves)} moves):")
    return "\n".join(chain(lines, trace.tell(short)))
