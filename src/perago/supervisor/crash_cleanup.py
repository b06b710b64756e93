"""What dead executors leave behind: their attempt directories and staging branches, found and removed. Faults end nothing."""

from collections.abc import Callable
from pathlib import Path

from perago.errors import LakeError, LakeNotFound
from perago.lake.port import Lake
from perago.protocol import staging_names
from perago.supervisor.supervised_attempt import Running
from perago.workspace import attempt_directory

Complain = Callable[[str], None]


def clear(running: Running, root: Path, lake: Lake | None, complain: Complain) -> None:
    """After the executor of this attempt died. Its staging branch goes first: with it goes its right to publish."""
    if lake is not None and running.facts.needs_lake:
        _delete_staging_branch(running, lake, complain)
    try:
        attempt_directory.remove_execution(root, running.execution_id)
    except OSError as error:
        complain(f"failed to collect the workspace of a dead executor: {error}")


def sweep(root: Path, older_than: float, complain: Complain) -> int:
    """Directories whose owner is gone; how many went."""
    try:
        return len(attempt_directory.remove_abandoned(root, older_than))
    except OSError as error:
        complain(f"failed to sweep {root}: {error}")
        return 0


def _delete_staging_branch(running: Running, lake: Lake, complain: Complain) -> None:
    target = running.workspace
    if target is None:
        return
    branch = staging_names.staging_branch(running.attempt, running.execution_id, target.branch)
    try:
        lake.delete_branch(target.repository, branch)
    except LakeNotFound:
        return
    except LakeError as error:
        complain(f"failed to delete the staging branch of a dead executor: {error}")
