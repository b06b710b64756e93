"""What tests arrange in the in-memory lake beside its port: tags, protection, and the listing that people see."""

from perago.in_memory.lake import MemoryLake
from perago.lake.port import Ref
from perago.model import BranchName, Repository


def tag(lake: MemoryLake, repository: Repository, name: str, ref: Ref) -> None:
    store = lake._store(repository)
    store.tags[name] = store.resolve(ref)


def protect(lake: MemoryLake, repository: Repository, pattern: str) -> None:
    """From now on branches that match refuse uploads, deletes, commits and relocation; merges stay allowed, as in lakeFS."""
    lake._store(repository).protected.add(pattern)


def visible_branches(lake: MemoryLake, repository: Repository) -> list[BranchName]:
    """What people see in lakeFS's own listings: no hidden ones."""
    return sorted(name for name, branch in lake._store(repository).branches.items() if not branch.hidden)
