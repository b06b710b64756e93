"""Runs schedules, fails with a shortened schedule if one breaks a rule, and counts what occurred in them."""

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
class Statistics:
    schedules: int = 0
    of_rivals: int = 0
    """Schedules with more than one workflow."""
    accepted: int = 0
    moves: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """The verb and the outcome of the call, or `CONDUCTOR` and what Conductor or a person did."""
    ends: set[str] = field(default_factory=set[str])


def assert_rules_hold(runs: Iterable[explore.ScheduleRun]) -> Statistics:
    """Fail if a run broke a rule; the statistics of the runs otherwise."""
    seen = Statistics()
    for done in runs:
        assert done.broken is None, _failure(done)
        seen.schedules += 1
        seen.of_rivals += len(done.world.setting.workflows) > 1
        seen.accepted += len(done.world.oracle.accepted_results)
        seen.moves |= {(record.verb or CONDUCTOR, record.what) for record in done.world.log}
        seen.ends |= {_end(worker.outcome.reason) for worker in done.world.workers.values() if worker.outcome}
    return seen


def _end(reason: str | None) -> str:
    return "completed" if reason is None else next((end for said, end in _ENDS.items() if said in reason), "failed")


def _failure(done: explore.ScheduleRun) -> str:
    short = explore.shortened(World, done)
    lines = (f"make simulate ARGS='{done.name}': {done.broken}", f"shortened to {len(short.moves)} moves:")
    return "\n".join(chain(lines, trace.describe(short)))
