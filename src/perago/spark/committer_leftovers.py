"""Files that Spark and S3A leave on a branch beside the data: delete them, or refuse those that are invalid elsewhere."""

import itertools
from collections.abc import Iterable, Iterator

from perago.errors import WorkspaceError
from perago.lake import port
from perago.model import BranchName, ObjectPath, Repository, is_marker


def remove(lake: port.Lake, repository: Repository, branch: BranchName) -> int:
    """Delete the leftovers on a branch; returns how many there were."""
    found = list(among(lake.uncommitted(repository, branch)))
    for start in range(0, len(found), port.PAGE):
        lake.delete_objects(repository, branch, list(itertools.islice(found, start, start + port.PAGE)))
    return len(found)


def among(changes: Iterable[port.ObjectChange]) -> Iterator[ObjectPath]:
    """Only what this branch added: an object of such a name in the input is data."""
    return (change.path for change in changes if change.type is port.ChangeType.ADDED and is_leftover(change.path))


def is_leftover(path: str) -> bool:
    """Temporary files of a committer, directory markers (empty objects whose name ends in `/`), and Perago's own marker."""
    return path.endswith("/") or is_marker(path) or any(map(_is_work_in_progress, path.split("/")))


def _is_work_in_progress(segment: str) -> bool:
    return segment == "_temporary" or segment.startswith(("__magic", ".spark-staging-"))


def refuse_streaming_log(paths: Iterable[str]) -> None:
    """`WorkspaceError` for the log of a streaming file sink: it contains full URIs of this attempt's branch."""
    for path in paths:
        if "_spark_metadata" in path.split("/"):
            raise WorkspaceError(
                f"{path} refers to a stream's files on this attempt's staging branch, which is deleted after it; "
                "write streams with foreachBatch, or to a Delta table"
            )
