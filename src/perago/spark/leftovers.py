"""What Spark's committers and S3A leave on a branch beside the data: found among its uncommitted changes, and deleted."""

import itertools
from collections.abc import Iterable, Iterator

from perago.lake import port
from perago.model import BranchName, ObjectPath, Repository


def remove(lake: port.Lake, repository: Repository, branch: BranchName) -> int:
    """How many there were."""
    found = list(among(lake.uncommitted(repository, branch)))
    for start in range(0, len(found), port.PAGE):
        lake.delete_objects(repository, branch, list(itertools.islice(found, start, start + port.PAGE)))
    return len(found)


def among(changes: Iterable[port.ObjectChange]) -> Iterator[ObjectPath]:
    """Only what this branch added: what the input holds under such a name is somebody's data."""
    return (change.path for change in changes if change.type is port.ChangeType.ADDED and is_leftover(change.path))


def is_leftover(path: str) -> bool:
    """Work in progress of a committer, or the marker of a directory: an object without bytes whose name ends in `/`."""
    return path.endswith("/") or any(segment == "_temporary" or segment.startswith("__magic") for segment in path.split("/"))
