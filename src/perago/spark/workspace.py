"""The workspace of a task that takes a `SparkWorkspace`: no download; the body's jobs write to the staging branch."""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass

from perago import events
from perago.errors import LakeNotFound, WorkspaceError
from perago.lake import port
from perago.model import BranchName, ChangeCounts, FilePath, LakeAccess, Listing, ObjectPath, UncheckedFill, WorkspaceRef
from perago.spark import body_workspace, committer_leftovers, inspection, job_monitor, s3a, session
from perago.workspace import path_mapping


@dataclass(frozen=True, slots=True)
class BranchChange:
    changes: Sequence[port.ObjectChange]

    @property
    def is_empty(self) -> bool:
        return not self.changes

    @property
    def counts(self) -> ChangeCounts:
        kinds = Counter(change.type for change in self.changes)
        return ChangeCounts(kinds[port.ChangeType.ADDED], kinds[port.ChangeType.CHANGED], kinds[port.ChangeType.REMOVED])


@dataclass(frozen=True, slots=True)
class SparkDependencies:
    """What the executor provides for the Spark workspace of an attempt."""

    engine: session.SparkEngine
    access: LakeAccess
    is_cancelled: Callable[[], bool]
    emit: events.Emit = events.ignore


class SparkBranchWorkspace:
    """Implements `perago.attempt.port.AttemptWorkspace` on the staging branch.

    The attempt calls open, listing, attach, argument, (the body), settle, listing, changed, fill, close, in this order.
    """

    needs_branch_before_body = True

    def __init__(self, lake: port.Lake, ref: WorkspaceRef, prefix: str, dependencies: SparkDependencies) -> None:
        self._lake = lake
        self._ref = ref
        self._prefix = path_mapping.listing_prefix(prefix)
        self._dependencies = dependencies
        self._branch: BranchName | None = None
        self._session: session.AttemptSession | None = None
        self._monitor: job_monitor.JobMonitor | None = None

    def open(self) -> None:
        """Nothing to do: Spark reads the input from lakeFS."""

    def listing(self) -> Listing:
        return Listing(list(self._files()))

    @contextlib.contextmanager
    def inspection(self) -> Generator[inspection.SparkInspection]:
        repository, ref = self._ref.repository, self._branch or self._ref.ref
        around = self._dependencies
        inspected = inspection.SparkInspection(
            around.engine,
            s3a.session_settings(repository, around.access),
            self._storage(),
            s3a.base(repository, ref, self._prefix),
            lambda: dict(body_workspace.sizes(self._lake, repository, ref, self._prefix)),
            self._is_unchanged,
            around.is_cancelled,
            around.emit,
        )
        try:
            yield inspected
        finally:
            inspected.close()

    def _is_unchanged(self, path: str) -> bool:
        """One listing of what was written to the branch; the input itself has not changed."""
        if self._branch is None:
            return True
        table = self._prefix + path
        return not any(change.path == table or change.path.startswith(f"{table}/") for change in self._uncommitted(self._branch))

    def attach(self, branch: BranchName) -> None:
        self._branch = branch

    def argument(self) -> body_workspace.BodyWorkspace:
        repository = self._ref.repository
        made = self._dependencies.engine.session(s3a.session_settings(repository, self._dependencies.access))
        self._session = made
        self._monitor = job_monitor.JobMonitor(made, self._dependencies.is_cancelled, self._dependencies.emit)
        return body_workspace.BodyWorkspace(made.spark, self._storage())

    def blame(self, error: Exception) -> Exception:
        return error if self._session is None else session.explain_error(self._session, error)

    def settle(self) -> None:
        """Stop everything that the body started, and remove the leftovers of its writers."""
        with self._timed(events.Effect.SETTLE):
            self._stop_monitor()
            if self._session is not None:
                session.require_quiet(self._session)
            if self._branch is not None:
                committer_leftovers.remove(self._lake, self._ref.repository, self._branch)
            self._refuse_direct_writes()

    def verify_input(self) -> None:
        """Nothing is downloaded: Spark reads the objects itself."""

    def changed(self) -> BranchChange:
        if self._branch is None:
            raise AssertionError("a task that publishes has a branch by now")
        started = time.monotonic()
        changes = list(self._uncommitted(self._branch))
        paths = [change.path for change in changes]
        self._refuse_foreign(paths)
        committer_leftovers.refuse_streaming_log(change.path for change in changes if change.type is not port.ChangeType.REMOVED)
        self._refuse_moved(self._branch)
        self._dependencies.emit(
            events.Done(events.Effect.DIFF, time.monotonic() - started, len(paths), detail=f"{len(paths)} differ")
        )
        return BranchChange(changes)

    def fill(self, branch: BranchName) -> None:
        """Nothing to do: the body's jobs have written to the branch."""

    def fill_unchecked(self, branch: BranchName, emit: events.Emit) -> UncheckedFill:
        """The body's jobs have written to the branch; it is refused if anything else did."""
        del emit
        changes = list(self._uncommitted(branch))
        self._refuse_foreign([change.path for change in changes])
        self._refuse_moved(branch)
        return UncheckedFill(BranchChange(changes).counts)

    def published(self) -> None:
        """Nothing is left besides what `close` removes."""

    def close(self) -> None:
        """Stop everything that the body started, also after a failure, so that it does not affect the next attempt."""
        made, self._session = self._session, None
        if made is None:
            return
        self._stop_monitor()
        session.cancel_and_wait(made)
        made.close()

    def _stop_monitor(self) -> None:
        if self._monitor is not None:
            self._monitor.stop()
            self._monitor = None

    # refuse

    def _refuse_foreign(self, paths: Sequence[ObjectPath]) -> None:
        for path in paths:
            if not path.startswith(self._prefix) or path.startswith(path_mapping.HOOKS_PREFIX):
                shown = f"/{self._prefix.rstrip('/')}"
                raise WorkspaceError(f"the body wrote outside the workspace prefix {shown}: {path}; nothing is published")

    def _refuse_moved(self, branch: BranchName) -> None:
        if self._lake.head(self._ref.repository, branch).id != self._ref.ref:
            raise WorkspaceError("another program committed to the staging branch while the body ran; nothing is published")

    def _refuse_direct_writes(self) -> None:
        """A body can construct a URI of any branch; a write to the target branch would bypass the fences."""
        written = next(iter(self._uncommitted(self._ref.branch)), None)
        if written is not None:
            raise WorkspaceError(
                f"branch {self._ref.branch} has uncommitted changes, first of them {written.path}: the body or another program "
                "wrote to it directly; write through workspace.output, and reset the branch in lakeFS"
            )

    # lakeFS

    def _uncommitted(self, branch: BranchName) -> Iterator[port.ObjectChange]:
        try:
            yield from self._lake.uncommitted(self._ref.repository, branch)
        except LakeNotFound:
            if branch == self._branch:
                raise

    def _files(self) -> Iterator[FilePath]:
        return body_workspace.files(self._lake, self._ref.repository, self._branch or self._ref.ref, self._prefix)

    def _storage(self) -> body_workspace.LakeStorage:
        repository, branch = self._ref.repository, self._branch
        return body_workspace.LakeStorage(
            lake=self._lake,
            repository=repository,
            commit=self._ref.ref,
            branch=branch,
            prefix=self._prefix,
        )

    @contextlib.contextmanager
    def _timed(self, effect: events.Effect) -> Generator[None]:
        started = time.monotonic()
        yield
        self._dependencies.emit(events.Done(effect, time.monotonic() - started))
