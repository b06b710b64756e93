"""Apply the changes of a workspace to the staging branch: bulk deletes, then one upload per changed file. The caller commits.

Only this execution writes to the branch, so deletes and uploads are idempotent and an interrupted one is sent again.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from perago import events
from perago.errors import LakeCorrupt, LakeUnavailable, LakeUnknown, WorkspaceError
from perago.lake import port, transfer
from perago.model import BranchName, FilePath, Repository
from perago.process.backoff import Backoff
from perago.workspace import diff, filesystem_probes, options, path_mapping, scan
from perago.workspace.cache import adoption, content_cache, small_object_db
from perago.workspace.transfer import progress, thread_pool

R = TypeVar("R")

TRIES = 3
_BACKOFF = Backoff(first=0.2, longest=0.4, jitter=(0.5, 1.5))


@dataclass(frozen=True, slots=True)
class Target:
    repository: Repository
    branch: BranchName
    prefix: str
    """As returned by `path_mapping.listing_prefix`."""


def require_names(prefix: str, changes: diff.FileChanges) -> None:
    """`WorkspaceError` if a file to upload has a name that lakeFS cannot hold; called before a request is sent."""
    for upload in changes.uploads:
        path_mapping.to_object(prefix, upload.path)


def without_refused_names(prefix: str, changes: diff.FileChanges) -> tuple[diff.FileChanges, list[FilePath]]:
    """The changes without files whose names lakeFS cannot hold, and the paths of these."""
    accepted = [upload for upload in changes.uploads if _has_name(prefix, upload.path)]
    refused = sorted({upload.path for upload in changes.uploads} - {upload.path for upload in accepted})
    return diff.FileChanges(accepted, changes.deletes), refused


def _has_name(prefix: str, path: FilePath) -> bool:
    try:
        path_mapping.to_object(prefix, path)
    except WorkspaceError:
        return False
    return True


def upload_changes(
    lake: port.Lake,
    target: Target,
    work: Path,
    changes: diff.FileChanges,
    cache: content_cache.ContentCache,
    limits: options.WorkspaceOptions,
    emit: events.Emit = events.ignore,
) -> Sequence[adoption.UploadedFile]:
    """Uploaded contents are also put into the cache, which the caller flushes.

    Returns the large files, which `cache.adoption` moves into the cache later. `WorkspaceError` if a file changes before its
    upload is complete.
    """
    job = _Uploader(lake, target, os.fspath(work), changes, cache, emit)
    require_names(target.prefix, changes)
    job.delete(changes.deletes)
    batches = list(thread_pool.batches(changes.uploads, limits.light_transfers))
    if len(batches) == 1 and batches[0][0].size <= small_object_db.MAX_SIZE:
        # Starting a thread would take longer than the rest of this upload.
        job.upload(batches.pop())
    with thread_pool.TransferPool(
        job.upload, light=limits.light_transfers, heavy=limits.heavy_transfers, name="perago-stage"
    ) as pool:
        for batch in batches:
            pool.submit(batch, heavy=batch[0].size > thread_pool.HEAVY)
        pool.wait_below(1, job.meter.tick)
    job.meter.done(events.Effect.UPLOAD, f"{len(changes.uploads)} uploads, {len(changes.deletes)} deletes")
    return job.uploaded


class _Uploader:
    def __init__(
        self,
        lake: port.Lake,
        target: Target,
        work: str,
        changes: diff.FileChanges,
        cache: content_cache.ContentCache,
        emit: events.Emit,
    ) -> None:
        self._lake = lake
        self._target = target
        self._work = work
        self._cache = cache
        self._clock_ns = _clock_ns(work, changes)
        self.uploaded: list[adoption.UploadedFile] = []
        files = len(changes.uploads) + len(changes.deletes)
        self.meter = progress.ProgressMeter(events.Phase.STAGE, emit, files, changes.upload_bytes)

    def delete(self, paths: Sequence[FilePath]) -> None:
        target = self._target
        for first in range(0, len(paths), port.PAGE):
            batch = [path_mapping.to_object(target.prefix, path) for path in paths[first : first + port.PAGE]]
            self._send(lambda batch=batch: self._lake.delete_objects(target.repository, target.branch, batch))
            self.meter.add(len(batch))
            self.meter.tick()

    def upload(self, batch: Sequence[diff.FileUpload]) -> None:
        if batch[0].size <= small_object_db.MAX_SIZE:
            self._upload_small(batch)
        else:
            self._upload_one(batch[0])

    def _upload_one(self, upload: diff.FileUpload) -> None:
        target, path = self._target, Path(f"{self._work}/{upload.path}")
        name = path_mapping.to_object(target.prefix, upload.path)
        info = self._send(
            lambda: self._lake.write(
                target.repository,
                target.branch,
                name,
                path,
                content_type=upload.content_type,
                metadata=upload.metadata,
                md5=upload.md5,
            )
        )
        scan.require_unchanged(self._work, upload.path, upload.stat)
        if transfer.is_md5(info.checksum):
            self._keep(str(path), upload, info.checksum)
        self.meter.add(1, upload.size)

    def _keep(self, path: str, upload: diff.FileUpload, md5: str) -> None:
        if upload.size > thread_pool.HEAVY and upload.stat.ctime_ns < self._clock_ns:
            self.uploaded.append(adoption.UploadedFile(upload.path, upload.size, md5, upload.stat))
        else:
            self._cache.insert(path, md5, upload.size, is_intact=lambda copy: self._is_intact(copy, upload, md5))

    def _is_intact(self, copy: str, upload: diff.FileUpload, md5: str) -> bool:
        """Compare stat data, or hash the copy if the file is so recent that a later write might not change its stat data."""
        if upload.stat.ctime_ns < self._clock_ns:
            return scan.is_unchanged(self._work, upload.path, upload.stat)
        return content_cache.has_md5(copy, md5)

    def _upload_small(self, batch: Sequence[diff.FileUpload]) -> None:
        files = [self._small(upload) for upload in batch]
        done = 0

        def send() -> None:
            nonlocal done
            target = self._target
            for info in self._lake.write_small(target.repository, target.branch, files[done:]):
                scan.require_unchanged(self._work, batch[done].path, batch[done].stat)
                self._cache.insert_small(info.checksum, files[done].data)
                self.meter.add(1, batch[done].size)
                done += 1

        self._send(send, requests=len(batch))

    def _small(self, upload: diff.FileUpload) -> port.SmallFile:
        path = path_mapping.to_object(self._target.prefix, upload.path)
        with transfer.upload(Path(f"{self._work}/{upload.path}")) as file:
            return port.SmallFile(path, file.content(), upload.content_type, upload.metadata)

    def _send(self, request: Callable[[], R], requests: int = 1) -> R:
        for attempt in range(1, TRIES):
            try:
                return self._once(request, requests)
            except (LakeUnavailable, LakeUnknown, LakeCorrupt):
                time.sleep(_BACKOFF.pause(attempt))
        return self._once(request, requests)

    def _once(self, request: Callable[[], R], requests: int) -> R:
        self.meter.add(requests=requests)
        return request()


def _clock_ns(work: str, changes: diff.FileChanges) -> int:
    """Time of the file system before the first upload: from here on, a write to an older file changes its stat data."""
    newest = max((upload.stat.ctime_ns for upload in changes.uploads if upload.size > small_object_db.MAX_SIZE), default=None)
    if newest is None:
        return 0
    try:
        return filesystem_probes.wait_for_clock(work, newest)
    except OSError:
        return 0
