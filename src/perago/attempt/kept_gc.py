"""Finds the branches of kept attempts. Their names say how long each is kept, so no further request is needed."""

from collections.abc import Iterator

from perago.attempt import branch_gc
from perago.attempt.branch_gc import BranchFinding
from perago.lake import port as lake_port
from perago.model import Repository
from perago.protocol import kept_names

KeptFinding = BranchFinding[kept_names.KeptName]


def names(lake: lake_port.Lake, repository: Repository) -> Iterator[kept_names.KeptName]:
    """Those whose time is over first."""
    parsed = (kept_names.parse(found.name) for found in lake.branches(repository, kept_names.PREFIX))
    return (name for name in parsed if name is not None)


def find(lake: lake_port.Lake, repository: Repository, *, now: float) -> list[KeptFinding]:
    """Every kept attempt of the repository."""
    return [judge(name, now) for name in names(lake, repository)]


def judge(name: kept_names.KeptName, now: float) -> KeptFinding:
    return BranchFinding(name, branch_gc.age(name, now), "its time is over" if name.until <= now else None)
