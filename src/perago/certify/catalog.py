"""The scenarios in their groups: those of a group share workers and run one after the other, the groups side by side."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from perago.certify.scenarios import inputs, kills, pauses, replies
from perago.certify.scene import Scene

Procedure = Callable[[Scene], str]

LEFTOVER_BRANCHES = "leftover-branches"
LEFTOVERS_ATTEMPTED = "No branch is left in any of the repositories, besides the target branch."


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    attempted: str
    """What is tried, as a sentence."""
    procedure: Procedure


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    workers: int
    """How many processes run at the same time."""
    scenarios: tuple[Scenario, ...]


def _group(name: str, workers: int, *procedures: Procedure) -> Group:
    return Group(name, workers, tuple(_scenario(one) for one in procedures))


def _scenario(procedure: Procedure) -> Scenario:
    name = getattr(procedure, "__name__", "").replace("_", "-")
    return Scenario(name, " ".join((procedure.__doc__ or "").split()), procedure)


FIRST = _scenario(inputs.plain_publication)
"""Runs before all others: a worker that does not get this far is not certified any further."""
GROUPS = (
    _group(
        "single",
        1,
        inputs.labels,
        inputs.no_change,
        inputs.stale_publish,
        inputs.stale_no_change,
        inputs.tag_as_branch,
        replies.lost_reply,
        replies.lost_report_reply,
        replies.lost_report,
        replies.terminated_workflow,
        replies.paused_workflow,
        replies.commit_by_hand,
    ),
    _group(
        "pair",
        2,
        pauses.double_publish,
        pauses.late_request,
        pauses.paused_worker,
        pauses.rerun_while_running,
        pauses.late_report_after_rerun,
    ),
    _group("killed", 1, kills.killed_before_publish, kills.killed_after_publish, kills.killed_before_report),
)


def scenarios() -> Iterator[Scenario]:
    yield FIRST
    for group in GROUPS:
        yield from group.scenarios


def names() -> list[str]:
    return [*(scenario.name for scenario in scenarios()), LEFTOVER_BRANCHES]
