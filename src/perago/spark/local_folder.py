"""A Spark task's workspace in local folders, for a run without lakeFS: one folder for the input, one for the output."""

import contextlib
import shutil
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

from perago import events
from perago.lake import port
from perago.model import Attempt, BranchName, ExecutionId, FilePath, Listing, UncheckedFill, WorkspaceRef
from perago.spark import body_workspace, committer_leftovers, inspection, job_monitor, session
from perago.spark.session import AttemptSession, SparkEngine
from perago.workspace import diff, options, scan
from perago.workspace.local_workspace import LocalWorkspace

_SETTINGS = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}


class SparkFolderWorkspace:
    """A `LocalWorkspace`, except for the body's argument and the removal of Spark's leftovers."""

    needs_branch_before_body = True

    def __init__(  # noqa: PLR0913  what a local workspace takes, and the engine
        self,
        lake: port.Lake,
        ref: WorkspaceRef,
        prefix: str,
        attempt: Attempt,
        execution_id: ExecutionId,
        settings: options.WorkspaceOptions,
        emit: events.Emit = events.ignore,
        *,
        engine: SparkEngine,
    ) -> None:
        self._local = LocalWorkspace(lake, ref, prefix, attempt, execution_id, settings, emit)
        self._input = settings.root / f"input-{execution_id}"
        self._engine = engine
        self._emit = emit
        self._writes = False
        self._before: frozenset[FilePath] = frozenset()
        self._work = Path()
        self._session: AttemptSession | None = None
        self._monitor: job_monitor.JobMonitor | None = None

    def open(self) -> None:
        self._local.open()

    def listing(self) -> Listing:
        return self._local.listing()

    @contextlib.contextmanager
    def inspection(self) -> Generator[inspection.SparkInspection]:
        with self._local.inspection() as local:
            source = self._input if self._writes else local.argument()
            inspected = inspection.SparkInspection(
                self._engine,
                _SETTINGS,
                FolderStorage(source, local.argument(), writes=self._writes),
                f"file://{local.argument()}/",
                local.sizes,
                local.is_unchanged,
                lambda: False,
                self._emit,
            )
            try:
                yield inspected
            finally:
                inspected.close()

    def attach(self, branch: BranchName) -> None:
        """The body may write files if there is a branch to publish them to."""
        del branch
        self._writes = True

    def argument(self) -> body_workspace.BodyWorkspace:
        self._emit(events.Progress(events.Phase.PREPARE, note="opening a Spark session"))
        self._before = frozenset(self._local.listing().files)
        self._work = self._local.argument()
        shutil.copytree(self._work, self._input)
        self._session = self._engine.session(_SETTINGS)
        self._monitor = job_monitor.JobMonitor(self._session, lambda: False, self._emit)
        return body_workspace.BodyWorkspace(self._session.spark, FolderStorage(self._input, self._work, writes=self._writes))

    def blame(self, error: Exception) -> Exception:
        return error if self._session is None else session.explain_error(self._session, error)

    def settle(self) -> None:
        self._stop_monitor()
        if self._session is not None:
            session.require_quiet(self._session)
        self._remove_leftovers()
        committer_leftovers.refuse_streaming_log(path for path in scan.scan(str(self._work)).files if path not in self._before)
        self._local.settle()

    def verify_input(self) -> None:
        self._local.verify_input()

    def changed(self) -> diff.FileChanges:
        return self._local.changed()

    def fill(self, branch: BranchName) -> None:
        self._local.fill(branch)

    def fill_unchecked(self, branch: BranchName, emit: events.Emit) -> UncheckedFill:
        return self._local.fill_unchecked(branch, emit)

    def published(self) -> None:
        """Nothing is left besides what `close` removes."""

    def close(self) -> None:
        made, self._session = self._session, None
        self._stop_monitor()
        if made is not None:
            session.cancel_and_wait(made)
            made.close()
        shutil.rmtree(self._input, ignore_errors=True)
        self._local.close()

    def _stop_monitor(self) -> None:
        if self._monitor is not None:
            self._monitor.stop()
            self._monitor = None

    def _remove_leftovers(self) -> None:
        """Committer leftovers, and the checksum file that Hadoop writes beside every local file."""
        for path in scan.scan(str(self._work)).files:
            if path not in self._before and (committer_leftovers.is_leftover(path) or _is_checksum(path)):
                (self._work / path).unlink()


@dataclass(frozen=True, slots=True)
class FolderStorage:
    """Implements `perago.spark.body_workspace.WorkspaceStorage`."""

    source: Path
    work: Path
    writes: bool

    def input(self, path: str) -> str:
        return f"file://{self.source}/{path}"

    def output(self, path: str) -> str:
        body_workspace.require_writable(self.writes)
        return f"file://{self.work}/{path}"

    def files(self) -> Iterator[FilePath]:
        return (path for path in sorted(scan.scan(str(self.work)).files) if not _is_checksum(path))

    def read(self, path: str) -> bytes:
        if not (self.work / path).is_file():
            raise body_workspace.file_not_found(path)
        return (self.work / path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        body_workspace.require_writable(self.writes)
        file = self.work / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        # The checksum of a file that Spark wrote before would be wrong now.
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def _is_checksum(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith(".") and name.endswith(".crc")
