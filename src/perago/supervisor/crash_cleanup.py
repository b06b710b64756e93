"""Removes what dead executors left behind: attempt and driver directories, staging branches. Errors are logged, never raised."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from perago.errors import LakeError, LakeNotFound
from perago.lake.port import Lake
from perago.protocol import staging_names
from perago.settings import Settings
from perago.spark import driver_directory, options
from perago.supervisor.context import BlockingCalls
from perago.supervisor.logs import Logger
from perago.supervisor.supervised_attempt import SupervisedAttempt
from perago.workspace import attempt_directory

Warn = Callable[[str], None]


def clean_up(attempt: SupervisedAttempt, root: Path, lake: Lake | None, warn: Warn) -> None:
    """Clean up after the executor of this attempt died. The staging branch, which is the right to publish, is deleted first."""
    if lake is not None and attempt.facts.needs_lake:
        _delete_staging_branch(attempt, lake, warn)
    try:
        attempt_directory.remove_execution(root, attempt.execution_id)
    except OSError as error:
        warn(f"failed to remove the attempt directory of a dead executor: {error}")


def sweep(root: Path, older_than: float, warn: Warn) -> int:
    """Remove attempt directories of at least that age whose executor has ended; returns their number."""
    try:
        return len(attempt_directory.remove_abandoned(root, older_than))
    except OSError as error:
        warn(f"failed to remove abandoned attempt directories in {root}: {error}")
        return 0


def sweep_spark(settings: Settings) -> None:
    """Remove the directories of drivers whose executor has ended; until then the driver may write to them."""
    driver_directory.sweep(options.from_settings(settings).scratch)


async def sweep_at_intervals(calls: BlockingCalls, settings: Settings, log: Logger) -> None:
    """Remove what earlier workers left behind, and then, at intervals, old directories that were missed."""
    age = 0.0
    while True:
        await calls.run(sweep_spark, settings)
        removed = await calls.run(sweep, settings.perago_workspace_root, age, log.warning)
        if removed:
            log.info("removed attempt directories of dead executors", count=removed)
        age = settings.perago_workspace_gc_ttl
        await asyncio.sleep(settings.perago_workspace_gc_interval)


def _delete_staging_branch(attempt: SupervisedAttempt, lake: Lake, warn: Warn) -> None:
    target = attempt.workspace
    if target is None:
        return
    branch = staging_names.staging_branch(attempt.attempt, attempt.execution_id, target.branch)
    try:
        lake.delete_branch(target.repository, branch)
    except LakeNotFound:
        return
    except LakeError as error:
        warn(f"failed to delete the staging branch of a dead executor: {error}")
