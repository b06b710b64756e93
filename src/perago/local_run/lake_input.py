"""Copies objects from lakeFS into a folder, such as the input of a run. Only reads are sent."""

from pathlib import Path

from perago import events
from perago.errors import LakeNotFound, SetupError, WorkspaceError
from perago.lake import existence, port
from perago.model import BranchName, Commit, Repository
from perago.workspace import options
from perago.workspace.transfer import download
from perago.workspace.transfer.source import Source


def find(lake: port.Lake, repository: Repository, ref: str) -> Commit:
    """The commit that a branch, tag, commit id or `main~1` names; `SetupError` if there is none."""
    try:
        return lake.commit(repository, BranchName(ref))
    except LakeNotFound as error:
        missing = (
            f"repository {repository}"
            if not existence.repository_exists(lake, repository)
            else f"{ref} in repository {repository}"
        )
        raise SetupError(f"--from: {missing} does not exist") from error


def copy(lake: port.Lake, repository: Repository, commit: Commit, prefix: str, into: Path, emit: events.Emit) -> None:
    """Download the objects under the prefix at that commit into a folder, which is empty or new."""
    into.mkdir(parents=True, exist_ok=True)
    limits = options.WorkspaceOptions(into, cache_bytes=0)
    source = Source(repository, commit.id, prefix)
    try:
        download.download(lake, source, into, limits.make_cache(), limits, emit)
    except (WorkspaceError, OSError) as error:
        raise SetupError(f"the objects cannot be copied: {error}") from error
