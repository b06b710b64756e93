"""Finds out what is missing where lakeFS answered "not found": the repository, or something in it."""

from perago.errors import LakeNotFound
from perago.lake import port
from perago.model import Repository


def repository_exists(lake: port.Lake, repository: Repository) -> bool:
    """Lists one branch, because every repository has one."""
    try:
        next(iter(lake.branches(repository, "", page=1)), None)
    except LakeNotFound:
        return False
    return True
