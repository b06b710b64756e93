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
from perago.lake import port
from perago.model import BranchName, FilePath, Repository
from perago.workspace import cache, crew, download, names, options, progress, sync, tree

R = TypeVar("R")

TRIES = 3
_PAUSE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Target:
    repository: Repository
    branch: BranchName
    prefix: str
    """As `names.listing_prefix` made it."""


def require_names(prefix: str, change: sync.Change) -> None:
    """Every file to upload has an object path; asked before anything is sent."""
    for upload in change.uploads:
        names.to_object(prefix, upload.path)


def stage(
    lake: port.Lake,
    target: Target,
    work: Path,
    change: sync.Change,
    store: cache.Cache,
    limits: options.Options,
    emit: events.Emit = events.ignore,
) -> None:
    job = _Staging(lake, target, os.fspath(work), change, store, emit)
    require_names(target.prefix, change)
    job.delete(change.deletes)
    with crew.Crew(job.upload, light=limits.light_transfers, heavy=limits.heavy_transfers, name="perago-stage") as hands:
        for upload in change.uploads:
            hands.put(upload, heavy=upload.size > download.HEAVY)
        hands.wait_below(1, job.meter.tick)
    store.flush()
    job.meter.done("stage", f"{len(change.uploads)} uploads, {len(change.deletes)} deletes")


class _Staging:
    def __init__(
        self, lake: port.Lake, target: Target, work: str, change: sync.Change, store: cache.Cache, emit: events.Emit
    ) -> None:
        self._lake = lake
        self._target = target
        self._work = work
        self._cache = store
        self.meter = progress.Meter(events.Phase.STAGE, emit, len(change.uploads) + len(change.deletes), change.upload_bytes)

    def delete(self, paths: Sequence[FilePath]) -> None:
        target = self._target
        for first in range(0, len(paths), port.PAGE):
            batch = [names.to_object(target.prefix, path) for path in paths[first : first + port.PAGE]]
            self._send(lambda batch=batch: self._lake.delete_objects(target.repository, target.branch, batch))
            self.meter.add(len(batch))
            self.meter.tick()

    def upload(self, upload: sync.Upload) -> None:
        path = Path(f"{self._work}/{upload.path}")
        info = self._send(
            lambda: self._lake.write(
                self._target.repository,
                self._target.branch,
                names.to_object(self._target.prefix, upload.path),
                path,
                content_type=upload.content_type,
                metadata=upload.metadata,
            )
        )
        tree.require_unchanged(self._work, upload.path, upload.stat)
        if download.is_md5(info.checksum):
            self._cache.insert(str(path), info.checksum, upload.size, verify=True)
        self.meter.add(1, upload.size)

    def _send(self, request: Callable[[], R]) -> R:
        for attempt in range(1, TRIES):
            try:
                return self._once(request)
            except (LakeUnavailable, LakeUnknown, LakeCorrupt):
                time.sleep(_PAUSE_SECONDS * attempt * random.uniform(0.5, 1.5))  # noqa: S311 (jitter, no secret)
        return self._once(request)

    def _once(self, request: Callable[[], R]) -> R:
        self.meter.add(requests=1)
        return request()
