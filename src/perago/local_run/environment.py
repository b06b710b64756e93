"""Runs one attempt of a task without servers.

The result has the outcome that Conductor would get, and the changes that would be published. `run` is for `perago.testing`;
`perago run` calls `attempt` in a process of its own.
"""

import atexit
import contextlib
import functools
import tempfile
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

from perago import settings as local_settings
from perago.declare.task import TaskDeclaration
from perago.errors import SetupError, WorkspaceError
from perago.local_run import changes, folder_lake, local_attempts, table_changes
from perago.local_run.local_attempts import Surroundings
from perago.model import FilePath, ObjectPath, Outcome
from perago.spark import engine
from perago.spark import options as spark_options
from perago.spark.session import SparkEngine
from perago.workspace import scan


@dataclass(frozen=True, slots=True)
class LocalRun:
    """One attempt without servers. Paths in it are gone when the context that made it ends."""

    outcome: Outcome
    given: Mapping[ObjectPath, folder_lake.Stored]
    published: Mapping[ObjectPath, folder_lake.Stored]
    prefix: str
    """As in object names: ends in `/` or is empty."""
    error: BaseException | None
    """What the task, its checks or its workspace raised, where the outcome is a failure."""
    warnings: tuple[str, ...] = ()
    """What the body left behind, one line each."""
    kept: Mapping[ObjectPath, folder_lake.Stored] | None = None
    """What the body left, if its post checks failed and that was to be kept."""

    @property
    def changes(self) -> tuple[changes.FileChange, ...]:
        return changes.between(self.given, self.published, self.prefix)

    @property
    def tables(self) -> tuple[table_changes.TableChange, ...]:
        """The tables among the changes; reads what tells their rows and columns."""
        return table_changes.between(self.given, self.published, self.prefix)

    @property
    def files(self) -> dict[FilePath, folder_lake.Stored]:
        """What the prefix holds afterwards: with the changes if it completed, as given if not."""
        return {FilePath(path.removeprefix(self.prefix)): held for path, held in self.published.items()}

    @property
    def kept_files(self) -> dict[FilePath, folder_lake.Stored] | None:
        return None if self.kept is None else {FilePath(path.removeprefix(self.prefix)): held for path, held in self.kept.items()}


@contextlib.contextmanager
def run(declaration: TaskDeclaration, files: Mapping[FilePath, Path], params: object) -> Generator[LocalRun]:
    """Run one attempt in this process on a copy of `files`. A task without a workspace gets none of them."""
    with tempfile.TemporaryDirectory(prefix="perago-run-", ignore_cleanup_errors=True) as directory:
        done = attempt(declaration, files, params, Path(directory), Surroundings(shared_spark))
        if isinstance(done.error, KeyboardInterrupt):
            # A worker reports it as a failure; here Ctrl-C ends the whole run.
            raise done.error
        yield done


def attempt(
    declaration: TaskDeclaration,
    files: Mapping[FilePath, Path],
    params: object,
    directory: Path,
    surroundings: Surroundings,
    *,
    keep: bool = False,
) -> LocalRun:
    """Run one attempt; the files of the result are in `directory`, which exists and is empty.

    With `keep`, the result also has what the body left if its post checks fail.
    """
    prefix = local_attempts.object_prefix(declaration)
    store = local_attempts.make_store(files, prefix, directory)
    attempts = local_attempts.LocalAttempts(store, directory, surroundings, keep)
    done = attempts.run(declaration, local_attempts.input_workspace(store), params)
    kept = None if done.kept is None else store.held(done.kept)
    return LocalRun(done.outcome, store.given(), store.published(), prefix, done.error, done.warnings, kept)


def files_of(root: Path) -> dict[FilePath, Path]:
    """The business files of a folder; `SetupError` for what no workspace can hold."""
    try:
        found = scan.scan(str(root))
    except WorkspaceError as error:
        raise SetupError(f"{root}: {error}") from error
    if found.special_files:
        special = found.special_files[0]
        raise SetupError(
            f"{root} holds {special.kind}, which a workspace cannot: {special.path}; copy the files themselves into it"
        )
    return {path: root / path for path in found.files}


@functools.cache
def shared_spark() -> SparkEngine:
    """One for all runs of this process, because starting Spark takes longer than most of them."""
    scratch = local_settings.user_directory() / "spark"
    local_settings.require_private(scratch)
    made = engine.make(spark_options.SparkOptions(scratch))
    atexit.register(made.close)
    return made
