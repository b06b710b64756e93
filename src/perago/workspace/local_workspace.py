"""The workspace of a task that takes a `Path`: one attempt's directory from download to the filled staging branch."""

import contextlib
import time
from pathlib import Path

from perago import events
from perago.errors import WorkspaceError
from perago.lake import port
from perago.model import Attempt, BranchName, ExecutionId, Listing, WorkspaceRef
from perago.workspace import attempt_directory, diff, options, path_mapping, scan
from perago.workspace.cache import backfill
from perago.workspace.transfer import download, upload


class LocalWorkspace:
    """Driven by the attempt in this order: open, listing, argument, the body, settle, listing, changed, fill, close."""

    needs_branch_before_body = False

    def __init__(
        self,
        lake: port.Lake,
        ref: WorkspaceRef,
        prefix: str,
        attempt: Attempt,
        execution_id: ExecutionId,
        settings: options.Options,
        emit: events.Emit = events.ignore,
    ) -> None:
        self._lake = lake
        self._ref = ref
        self._prefix = path_mapping.listing_prefix(prefix)
        self._attempt = attempt
        self._execution_id = execution_id
        self._settings = settings
        self._emit = emit
        self._cache = settings.make_cache()
        self._directory: attempt_directory.AttemptDirectory | None = None
        self._before: diff.Manifest = {}
        self._filling: backfill.Filling | None = None
        self._body_may_have_run = False
        self._change: diff.Change | None = None

    def open(self) -> None:
        """Make the directory and fill it with what stands under the prefix at the input commit."""
        self._directory = attempt_directory.create(self._settings.root, self._attempt, self._execution_id)
        source = download.Source(self._ref.repository, self._ref.ref, self._prefix)
        try:
            made = download.download(self._lake, source, self._directory.work, self._cache, self._settings, self._emit)
        except OSError as fault:
            raise WorkspaceError(f"cannot fill the workspace directory {self._directory.work}: {fault.strerror}") from fault
        self._before = made.manifest
        if made.not_cached_yet:
            self._filling = backfill.Filling(self._cache, self._work, made.manifest, made.not_cached_yet)

    def until_cached(self) -> None:
        """Wait until all that was downloaded is in the cache."""
        if self._filling is not None:
            self._filling.finish()

    def listing(self) -> Listing:
        """The business files for checks. Symlinks and the like are not among them; a read-only task may leave some behind."""
        if not self._body_may_have_run:
            return Listing(sorted(self._before))
        return self._scan().listing()

    def attach(self, branch: BranchName) -> None:
        """A local body writes files and no branch."""

    def argument(self) -> Path:
        self._body_may_have_run = True
        return self._made().work

    def blame(self, error: Exception) -> Exception:
        """Files have no part in it."""
        return error

    def settle(self) -> None:
        """Files need nothing done to them; from here on they are looked at anew."""
        self._body_may_have_run = True

    def changed(self) -> diff.Change:
        """What the body changed. Raises for everything that must not be published, before anything is sent."""
        started = time.monotonic()
        found = self._scan()
        scan.require_publishable(found)
        after = diff.survey(self._before, found, lambda path, status: scan.digest(self._work, path, status))
        self._made().verify()
        change = diff.diff(self._before, after)
        upload.require_names(self._prefix, change)
        self._change = change
        self._report_diff(change, started, len(found.files))
        return change

    def fill(self, branch: BranchName) -> None:
        """Bring the change onto the staging branch; no commit."""
        if self._change is None:
            raise AssertionError("fill needs a change: call changed first")
        target = upload.Target(self._ref.repository, branch, self._prefix)
        upload.stage(self._lake, target, self._made().work, self._change, self._cache, self._settings, self._emit)

    def close(self) -> None:
        """Remove the directory. What goes wrong here is an event, never an error: the attempt's result stands."""
        directory, self._directory = self._directory, None
        if self._filling is not None:
            self._filling.give_up()
        self._cache.flush()
        if directory is None:
            return
        started = time.monotonic()
        with contextlib.suppress(OSError):
            left = directory.remove()
            error = f"failed to clean local workspace: {left}" if left else None
            self._emit(events.Done(events.Phase.CLEAN_UP, "remove local workspace", time.monotonic() - started, error=error))

    def _scan(self) -> scan.Scan:
        self._made().verify()
        found = scan.scan(self._work)
        self._made().verify()
        return found

    @property
    def _work(self) -> str:
        return str(self._made().work)

    def _made(self) -> attempt_directory.AttemptDirectory:
        if self._directory is None:
            raise WorkspaceError("the workspace is not open")
        return self._directory

    def _report_diff(self, change: diff.Change, started: float, files: int) -> None:
        seconds = time.monotonic() - started
        detail = f"{len(change.uploads)} to upload, {len(change.deletes)} to delete"
        self._emit(events.Done(events.Phase.DIFF, "diff", seconds, files, change.upload_bytes, detail=detail))
