"""The workspace of a task that takes a `Path`: download, body, diff and upload to the staging branch, for one attempt."""

import contextlib
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

from perago import events
from perago.errors import PeragoError, WorkspaceError
from perago.lake import port
from perago.model import Attempt, BranchName, ExecutionId, FilePath, Listing, UncheckedFill, WorkspaceRef
from perago.workspace import attempt_directory, diff, input_verification, inspection, options, path_mapping, scan
from perago.workspace.cache import adoption, backfill
from perago.workspace.transfer import download, progress, upload
from perago.workspace.transfer.source import Source


class LocalWorkspace:
    """Implements `perago.attempt.port.AttemptWorkspace` on an attempt directory.

    The attempt calls open, listing, argument, (the body), settle, listing, verify_input, changed, fill, close, in this order.
    """

    needs_branch_before_body = False

    def __init__(
        self,
        lake: port.Lake,
        ref: WorkspaceRef,
        prefix: str,
        attempt: Attempt,
        execution_id: ExecutionId,
        settings: options.WorkspaceOptions,
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
        self._backfill: backfill.CacheBackfill | None = None
        self._verification: input_verification.InputVerification | None = None
        self._body_may_have_run = False
        self._change: diff.FileChanges | None = None
        self._is_verified = False
        self._uploaded: Sequence[adoption.UploadedFile] = ()
        self._checked: Mapping[FilePath, scan.FileStat] = {}
        """The files when tables were last checked."""

    def open(self) -> None:
        """Create the directory and download the objects under the prefix at the input commit."""
        self._directory = attempt_directory.create(self._settings.root, self._attempt, self._execution_id)
        source = Source(self._ref.repository, self._ref.ref, self._prefix)
        self._verification = input_verification.InputVerification(self._work)
        try:
            downloaded = download.download(
                self._lake, source, self._directory.work, self._cache, self._settings, self._emit, self._verification
            )
        except OSError as error:
            raise WorkspaceError(f"cannot fill the workspace directory {self._directory.work}: {error.strerror}") from error
        self._before = downloaded.manifest
        if downloaded.not_cached_yet:
            self._backfill = backfill.CacheBackfill(
                self._cache, self._work, downloaded.manifest, downloaded.not_cached_yet, lambda: self._verified(downloaded)
            )

    def until_cached(self) -> None:
        """Wait until everything that was downloaded is in the cache."""
        if self._backfill is not None:
            self._backfill.finish()

    def listing(self) -> Listing:
        """The regular files, for checks. Symlinks and special files are left out: a read-only task may leave some behind."""
        if not self._body_may_have_run:
            return Listing(sorted(self._before))
        return self._scan().listing()

    @contextlib.contextmanager
    def inspection(self) -> Generator[inspection.LocalInspection]:
        """Files that tables were read from must not change any more: `changed` refuses that."""
        opened = self._opened()
        inspected = inspection.LocalInspection(self.argument, self._scan, self._before, opened.path)
        try:
            yield inspected
        finally:
            inspected.close()
            self._checked = inspected.scanned

    def attach(self, branch: BranchName) -> None:
        """Nothing to do: a local body writes files, not the branch."""

    def argument(self) -> Path:
        self._body_may_have_run = True
        return self._opened().work

    def blame(self, error: Exception) -> Exception:
        """Returns the body's own error: the workspace has no better explanation."""
        return error

    def settle(self) -> None:
        """Nothing to stop or remove; from here on `listing` scans the directory again."""
        self._body_may_have_run = True
        self._checked = {}

    def verify_input(self) -> None:
        """Wait until each byte of the input is verified; `LakeCorrupt` names a damaged object."""
        verification = self._verification
        if verification is None or not verification.files or self._is_verified:
            return
        meter = progress.ProgressMeter(events.Phase.VERIFY_INPUT, self._emit, verification.files, verification.bytes)
        meter.tick()
        try:
            md5s = verification.wait(meter.tick)
        except PeragoError as error:
            meter.failed(events.Effect.VERIFY_INPUT, str(error))
            raise
        meter.done(events.Effect.VERIFY_INPUT, f"{verification.files} files with {verification.bytes} bytes")
        self._is_verified = True
        self._before = _with_md5s(self._before, md5s)

    def changed(self) -> diff.FileChanges:
        """What the body changed; `WorkspaceError` for anything that must not be published, before a request is sent."""
        self.verify_input()
        started = time.monotonic()
        found = self._scan()
        scan.require_publishable(found)
        self._require_as_checked(found)
        after = diff.build_manifest(self._before, found, lambda path, status: scan.digest(self._work, path, status))
        self._opened().verify()
        change = diff.diff(self._before, after)
        upload.require_names(self._prefix, change)
        self._change = change
        self._report_diff(change, started, len(found.files))
        return change

    def fill(self, branch: BranchName) -> None:
        """Upload and delete on the staging branch; the caller commits."""
        if self._change is None:
            raise AssertionError("fill needs a change: call changed first")
        target = upload.Target(self._ref.repository, branch, self._prefix)
        self._uploaded = upload.upload_changes(
            self._lake, target, self._opened().work, self._change, self._cache, self._settings, self._emit
        )

    def fill_unchecked(self, branch: BranchName, emit: events.Emit) -> UncheckedFill:
        """Upload and delete on a branch; the caller commits. Special files and names that lakeFS refuses are left out."""
        found = self._scan()
        after = diff.build_manifest(self._before, found, lambda path, status: scan.digest(self._work, path, status))
        change, refused = upload.without_refused_names(self._prefix, diff.diff(self._before, after))
        target = upload.Target(self._ref.repository, branch, self._prefix)
        upload.upload_changes(self._lake, target, self._opened().work, change, self._cache, self._settings, emit)
        return UncheckedFill(change.counts, [*(f"{one.path} ({one.kind})" for one in found.special_files), *refused])

    def published(self) -> None:
        """Nothing is left besides what `close` removes."""

    def close(self) -> None:
        """Remove the directory; `WorkspaceError` names what could not be removed."""
        directory, self._directory = self._directory, None
        if self._verification is not None:
            self._verification.stop()
        if self._backfill is not None:
            self._backfill.stop()
        if directory is not None:
            adoption.adopt(self._cache, str(directory.work), self._uploaded)
        self._cache.flush()
        if directory is None:
            return
        if not_removed := directory.remove():
            raise WorkspaceError(f"failed to clean local workspace: {not_removed}")

    def _verified(self, downloaded: download.DownloadResult) -> Mapping[FilePath, str]:
        """In the thread that fills the cache."""
        if self._verification is None:
            return {}
        md5s = self._verification.wait(lambda: None)
        if downloaded.save_listing is not None:
            downloaded.save_listing(md5s)
        return md5s

    def _scan(self) -> scan.ScanResult:
        self._opened().verify()
        found = scan.scan(self._work)
        self._opened().verify()
        return found

    @property
    def _work(self) -> str:
        return str(self._opened().work)

    def _opened(self) -> attempt_directory.AttemptDirectory:
        if self._directory is None:
            raise WorkspaceError("the workspace is not open")
        return self._directory

    def _require_as_checked(self, found: scan.ScanResult) -> None:
        """What is published is what the data checks have read."""
        if self._checked and found.files != self._checked:
            differing = {path for path, _ in found.files.items() ^ self._checked.items()}
            raise WorkspaceError(
                f"file {min(differing)!r} changed after the data checks; something still writes to the workspace"
            )

    def _report_diff(self, change: diff.FileChanges, started: float, files: int) -> None:
        seconds = time.monotonic() - started
        detail = f"{len(change.uploads)} to upload, {len(change.deletes)} to delete"
        self._emit(events.Done(events.Effect.DIFF, seconds, files, change.upload_bytes, detail=detail))


def _with_md5s(manifest: diff.Manifest, md5s: Mapping[FilePath, str]) -> diff.Manifest:
    """With the MD5s that were computed: the checksum of an object that was uploaded in parts is another one."""
    computed = {path: manifest[path]._replace(md5=md5) for path, md5 in md5s.items() if manifest[path].md5 != md5}
    return {**manifest, **computed} if computed else manifest
