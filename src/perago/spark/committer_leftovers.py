"""What Spark and S3A leave on a branch beside the data: deleted, or refused where it would be of no use to anybody else."""

import itertools
from collections.abc import Iterable, Iterator

from perago.errors import WorkspaceError
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
    return path.endswith("/") or any(map(_is_work_in_progress, path.split("/")))


def _is_work_in_progress(segment: str) -> bool:
    return segment == "_temporary" or segment.startswith(("__magic", ".spark-staging-"))


def refuse_bound(paths: Iterable[str]) -> None:
    """The log of a streaming file sink names its files with their whole URIs: it holds only where it was written."""
    for path in paths:
        if "_spark_metadata" in path.split("/"):
            raise WorkspaceError(
                f"{path} ties a stream's files to this attempt's own branch, and nobody could read them after it; "
                "write streams with foreachBatch, or to a Delta table"
            )
