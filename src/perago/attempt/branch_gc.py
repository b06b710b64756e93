"""A hidden branch that Perago made and that may be left over: why it may go, and its deletion. Used for each kind of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from perago.errors import LakeError, LakeNotFound
from perago.lake import port as lake_port
from perago.model import BranchName, Repository, WorkflowId


class OwnName(Protocol):
    """The fields that the names of all these branches have."""

    @property
    def branch(self) -> BranchName: ...

    @property
    def workflow_id(self) -> WorkflowId | None: ...

    @property
    def retry_count(self) -> int: ...

    @property
    def made_at(self) -> int | None: ...


NameT = TypeVar("NameT", bound=OwnName)


@dataclass(frozen=True, slots=True)
class BranchFinding(Generic[NameT]):
    """One branch. `orphaned` says why it may go, None that it has to stay; `failure` why it is still there."""

    name: NameT
    age_seconds: float | None
    orphaned: str | None
    is_deleted: bool = False
    failure: str | None = None

    @property
    def branch(self) -> BranchName:
        return self.name.branch


def age(name: OwnName, now: float) -> float | None:
    """In seconds; None where the name does not tell."""
    return None if name.made_at is None else max(0.0, now - name.made_at)


def too_old(seconds: float | None, older_than: float) -> str | None:
    return "it is older than the bound" if seconds is not None and seconds > older_than else None


def delete(
    lake: lake_port.Lake, repository: Repository, findings: Iterable[BranchFinding[NameT]]
) -> Iterator[BranchFinding[NameT]]:
    """Delete the orphaned ones, one by one; a failure does not stop the others."""
    for finding in findings:
        yield finding if finding.orphaned is None else _deleted(lake, repository, finding)


def _deleted(lake: lake_port.Lake, repository: Repository, finding: BranchFinding[NameT]) -> BranchFinding[NameT]:
    try:
        lake.delete_branch(repository, finding.branch)
    except LakeNotFound:
        return replace(finding, is_deleted=True)
    except LakeError as error:
        return replace(finding, failure=str(error))
    return replace(finding, is_deleted=True)
