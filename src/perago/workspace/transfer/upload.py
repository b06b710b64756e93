"""A change in, the staging branch filled out of it: bulk deletes, then one upload per changed file. The caller commits.

The branch belongs to this execution alone, so a delete or an upload that broke off can be sent again: its effect is the same.
"""

import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from perago import events
from perago.errors import LakeCorrupt, LakeUnavailable, LakeUnknown
from perago.lake import port, transfer
from perago.model import BranchName, FilePath, ObjectInfo, Repository
from perago.workspace import diff, options, path_mapping, scan
from perago.workspace.cache import content_cache, small_object_db
from perago.workspace.transfer import progress, thread_pool

R = TypeVar("R")

TRIES = 3
_PAUSE_SECONDS = 0.2
_SURELY_OLD_NS = 2 * 10**9
"""No file system's clock is coarser."""


@dataclass(frozen=True, slots=True)
class Target:
    repository: Repository
    branch: BranchName
    prefix: str
    """As `names.listing_prefix` made it."""


def require_names(prefix: str, change: diff.Change) -> None:
    """Every file to upload has an object path; asked before anything is sent."""
    for upload in change.uploads:
        path_mapping.to_object(prefix, upload.path)


def stage(
    lake: port.Lake,
    target: Target,
    work: Path,
    change: diff.Change,
    store: content_cache.Cache,
    limits: options.Options,
    emit: events.Emit = events.ignore,
) -> None:
    job = _Staging(lake, target, os.fspath(work), change, store, emit)
    require_names(target.prefix, change)
    job.delete(change.deletes)
    with thread_pool.Crew(job.upload, light=limits.light_transfers, heavy=limits.heavy_transfers, name="perago-stage") as hands:
        for batch in thread_pool.batches(change.uploads, limits.light_transfers):
            hands.put(batch, heavy=batch[0].size > thread_pool.HEAVY)
        hands.wait_below(1, job.meter.tick)
    store.flush()
    job.meter.done("stage", f"{len(change.uploads)} uploads, {len(change.deletes)} deletes")


class _Staging:
    def __init__(
        self, lake: port.Lake, target: Target, work: str, change: diff.Change, store: content_cache.Cache, emit: events.Emit
    ) -> None:
        self._lake = lake
        self._target = target
        self._work = work
        self._cache = store
        self.meter = progress.Meter(events.Phase.STAGE, emit, len(change.uploads) + len(change.deletes), change.upload_bytes)

    def delete(self, paths: Sequence[FilePath]) -> None:
        target = self._target
        for first in range(0, len(paths), port.PAGE):
            batch = [path_mapping.to_object(target.prefix, path) for path in paths[first : first + port.PAGE]]
            self._send(lambda batch=batch: self._lake.delete_objects(target.repository, target.branch, batch))
            self.meter.add(len(batch))
            self.meter.tick()

    def upload(self, batch: Sequence[diff.Upload]) -> None:
        if batch[0].size <= small_object_db.LARGEST:
            self._upload_small(batch)
        else:
            self._upload_one(batch[0])

    def _upload_one(self, upload: diff.Upload) -> None:
        target, path = self._target, Path(f"{self._work}/{upload.path}")
        name = path_mapping.to_object(target.prefix, upload.path)
        content_type, metadata = upload.content_type, upload.metadata
        info = self._send(
            lambda: self._lake.write(target.repository, target.branch, name, path, content_type=content_type, metadata=metadata)
        )
        scan.require_unchanged(self._work, upload.path, upload.stat)
        if transfer.is_md5(info.checksum):
            self._cache.insert(str(path), info.checksum, upload.size, is_right=lambda copy: self._is_right(copy, upload, info))
        self.meter.add(1, upload.size)

    def _is_right(self, copy: str, upload: diff.Upload, info: ObjectInfo) -> bool:
        """Stat data vouches for it, unless it is so young that a write in the same tick of the clock would not show."""
        if time.time_ns() - upload.stat.ctime_ns > _SURELY_OLD_NS:
            return scan.is_unchanged(self._work, upload.path, upload.stat)
        return content_cache.has_digest(copy, info.checksum)

    def _upload_small(self, batch: Sequence[diff.Upload]) -> None:
        files = [self._small(upload) for upload in batch]
        done = 0

        def send() -> None:
            nonlocal done
            target = self._target
            for info in self._lake.write_small(target.repository, target.branch, files[done:]):
                scan.require_unchanged(self._work, batch[done].path, batch[done].stat)
                self._cache.keep(info.checksum, files[done].data)
                self.meter.add(1, batch[done].size)
                done += 1

        self._send(send, requests=len(batch))

    def _small(self, upload: diff.Upload) -> port.SmallFile:
        path = path_mapping.to_object(self._target.prefix, upload.path)
        with transfer.upload(Path(f"{self._work}/{upload.path}")) as file:
            return port.SmallFile(path, file.content(), upload.content_type, upload.metadata)

    def _send(self, request: Callable[[], R], requests: int = 1) -> R:
        for attempt in range(1, TRIES):
            try:
                return self._once(request, requests)
            except (LakeUnavailable, LakeUnknown, LakeCorrupt):
                time.sleep(_PAUSE_SECONDS * attempt * random.uniform(0.5, 1.5))  # noqa: S311 (jitter, no secret)
        return self._once(request, requests)

    def _once(self, request: Callable[[], R], requests: int) -> R:
        self.meter.add(requests=requests)
        return request()
