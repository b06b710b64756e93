"""A commit and a prefix in; files in an empty directory and their manifest out.

Pages are listed while transfers already run. What the cache has is copied from there, everything else takes one request; those
for small files travel in batches.
"""

import errno
import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perago import events
from perago.errors import WorkspaceError
from perago.lake import port, transfer
from perago.model import CommitId, FilePath, ObjectInfo, ObjectPath, Repository
from perago.workspace import diff, filesystem_probes, options, path_mapping, scan
from perago.workspace.cache import content_cache, listing_cache, small_object_db
from perago.workspace.transfer import file_copy, progress, thread_pool

INLINE = 1 << 20
"""Cached files up to here are copied by the listing thread itself: for small files threads only fight over the interpreter."""
AHEAD = 3 * port.PAGE // thread_pool.BATCH
"""Batches listed but not fetched yet; bounds memory however large the workspace is."""


@dataclass(frozen=True, slots=True)
class Source:
    repository: Repository
    commit: CommitId
    prefix: str
    """As `names.listing_prefix` made it."""


@dataclass(frozen=True, slots=True)
class Downloaded:
    manifest: diff.Manifest
    not_cached_yet: Sequence[FilePath]
    """Large files, whose copies for the cache nobody has to wait for: see `filling`."""


def download(
    lake: port.Lake,
    source: Source,
    work: Path,
    store: content_cache.Cache,
    limits: options.Options,
    emit: events.Emit = events.ignore,
) -> Downloaded:
    """`work` is an empty directory that nobody else looks at before this returns. On an error its content means nothing."""
    job = _Download(lake, source, str(work), store, emit)
    with thread_pool.Crew(job.fetch, light=limits.light_transfers, heavy=limits.heavy_transfers, name="perago-download") as hands:
        for page in job.pages():
            for batch in thread_pool.batches(job.not_cached(page), limits.light_transfers):
                hands.put(batch, heavy=batch[0].size > thread_pool.HEAVY)
            job.meter.tick()
            hands.wait_below(AHEAD, job.meter.tick)
        hands.wait_below(1, job.meter.tick)
    return job.finish()


class _Download:
    def __init__(self, lake: port.Lake, source: Source, work: str, store: content_cache.Cache, emit: events.Emit) -> None:
        self._lake = lake
        self._source = source
        self._work = work
        self._cache = store
        self._listings = listing_cache.Listings(store)
        self._key = listing_cache.key(source.repository, source.commit, source.prefix)
        self._is_listed = False
        self._checksums: dict[FilePath, tuple[str, str]] = {}
        """Of objects whose checksum is no MD5: that checksum, and the key under which our own MD5 is remembered."""
        self._entries: dict[FilePath, diff.Entry] = {}
        self._not_cached_yet: list[FilePath] = []
        self.meter = progress.Meter(events.Phase.DOWNLOAD, emit)
        self._reads = progress.Meter(events.Phase.DOWNLOAD, events.ignore)

    # what there is to fetch

    def pages(self) -> Iterator[list[listing_cache.Known]]:
        folds = filesystem_probes.folds_names(self._work)
        collisions = path_mapping.Collisions(folds=folds)
        for page in self._known_pages() or self._listed_pages():
            for file in page:
                for directory in collisions.add(file.path):
                    self._make_directory(directory)
            yield page

    def _known_pages(self) -> Iterator[list[listing_cache.Known]] | None:
        return self._listings.load(self._key)

    def _listed_pages(self) -> Iterator[list[listing_cache.Known]]:
        self._is_listed = True
        presign = self._lake.capabilities().presign_read
        after: ObjectPath | None = None
        while True:
            page = self._lake.objects(self._source.repository, self._source.commit, self._source.prefix, after, presign=presign)
            self.meter.add(requests=1)
            yield [known for info in page.objects if (known := self._known(info)) is not None]
            after = page.after
            if after is None:
                return

    def _known(self, info: ObjectInfo) -> listing_cache.Known | None:
        path = path_mapping.to_local(self._source.prefix, info)
        if path is None:
            return None
        md5 = info.checksum if transfer.is_md5(info.checksum) else self._remembered(path, info)
        content_type, metadata = sys.intern(info.content_type), info.metadata or diff.NO_METADATA
        return listing_cache.Known(path, info.size, md5, info.checksum, content_type, metadata, info.presigned_url)

    def _remembered(self, path: FilePath, info: ObjectInfo) -> str | None:
        """The MD5 that this very object had when it was read before, at whatever commit."""
        alias = listing_cache.key(self._source.repository, f"{info.checksum}-{info.size}-{info.mtime}", info.path)
        self._checksums[path] = (info.checksum, alias)
        pages = self._listings.load(alias)
        return next((file.md5 for page in pages for file in page), None) if pages else None

    def _make_directory(self, directory: str) -> None:
        try:
            os.mkdir(f"{self._work}/{directory}")  # noqa: PTH102 (strings throughout: see copying)
        except OSError as fault:
            raise _unwritable(directory, fault) from fault

    # one file

    def not_cached(self, page: Sequence[listing_cache.Known]) -> list[listing_cache.Known]:
        """Copies what the cache has, as far as it is not so large that threads should do it; the rest of the page."""
        missing: list[listing_cache.Known] = []
        for first in range(0, len(page), small_object_db.TAKEN_TOGETHER):
            group = page[first : first + small_object_db.TAKEN_TOGETHER]
            held = self._cache.small(
                {file.md5 for file in group if file.md5 is not None and file.size <= small_object_db.LARGEST}
            )
            missing += [file for file in group if not self._copy_inline(file, held)]
        return missing

    def _copy_inline(self, file: listing_cache.Known, held: Mapping[str, bytes]) -> bool:
        if file.size > small_object_db.LARGEST:
            return file.size <= INLINE and self._copy(file)
        if file.md5 is None or (data := held.get(file.md5)) is None or len(data) != file.size:
            return False
        self._record(file, file.md5, self._create(file, data))
        return True

    def fetch(self, batch: Sequence[listing_cache.Known]) -> None:
        if batch[0].size <= small_object_db.LARGEST:
            self._read_small(batch)
        elif batch[0].size <= INLINE or not self._copy(batch[0]):
            self._read(batch[0])

    def _copy(self, file: listing_cache.Known) -> bool:
        if file.md5 is None:
            return False
        status = self._cache.restore(file.md5, file.size, f"{self._work}/{file.path}", _mode(file))
        if status is None:
            return False
        self._record(file, file.md5, status)
        return True

    def _read(self, file: listing_cache.Known) -> None:
        target = f"{self._work}/{file.path}"
        self._count_request(file)
        try:
            md5 = self._lake.read(self._source.repository, self._source.commit, self._info(file), Path(target))
            if file.size > thread_pool.HEAVY:
                self._not_cached_yet.append(file.path)
            else:
                self._cache.insert(target, md5, file.size)
            self._record(file, md5, _with_mode(target, file.metadata))
        except OSError as fault:
            raise _unwritable(file.path, fault) from fault

    def _read_small(self, batch: Sequence[listing_cache.Known]) -> None:
        infos = [self._info(file) for file in batch]
        contents = self._lake.read_small(self._source.repository, self._source.commit, infos)
        for file, (md5, data) in zip(batch, contents, strict=True):
            self._count_request(file)
            status = self._create(file, data)
            self._cache.keep(md5, data)
            self._record(file, md5, status)

    def _create(self, file: listing_cache.Known, data: bytes) -> os.stat_result:
        try:
            return file_copy.create(data, f"{self._work}/{file.path}", _mode(file))
        except OSError as fault:
            raise _unwritable(file.path, fault) from fault

    def _info(self, file: listing_cache.Known) -> ObjectInfo:
        path = ObjectPath(self._source.prefix + file.path)
        return ObjectInfo(path, file.size, file.checksum, file.content_type, file.metadata, presigned_url=file.presigned_url)

    def _count_request(self, file: listing_cache.Known) -> None:
        self._reads.add(files=1, size=file.size)
        self.meter.add(requests=1)

    def _record(self, file: listing_cache.Known, md5: str, status: os.stat_result) -> None:
        local = scan.file_stat(status)
        self._entries[file.path] = diff.Entry(file.size, md5, local, local.executable, file.content_type, file.metadata)
        self.meter.add(1, file.size)

    # all files

    def finish(self) -> Downloaded:
        self._cache.flush()
        if self._is_listed and self._cache.is_on:
            self._remember()
        manifest = self._settled()
        self.meter.done(
            "download", f"{self._reads.files} files and {self._reads.bytes} bytes read from lakeFS, the rest from the cache"
        )
        return Downloaded(manifest, self._not_cached_yet)

    def _remember(self) -> None:
        for path, (_, alias) in self._checksums.items():
            self._listings.save(alias, [self._as_known(path)])
        self._listings.save(self._key, (self._as_known(path) for path in sorted(self._entries)))

    def _as_known(self, path: FilePath) -> listing_cache.Known:
        entry = self._entries[path]
        checksum = self._checksums[path][0] if path in self._checksums else entry.md5 or ""
        return listing_cache.Known(path, entry.size, entry.md5, checksum, entry.content_type, entry.metadata)

    def _settled(self) -> diff.Manifest:
        """Stat data as young as the file system's clock cannot tell a later write from ours, so it is not kept."""
        newest = max((entry.stat.ctime_ns for entry in self._entries.values() if entry.stat), default=0)
        now = filesystem_probes.settle(self._work, newest)
        if newest >= now:
            for path, entry in self._entries.items():
                if entry.stat and entry.stat.ctime_ns >= now:
                    self._entries[path] = entry._replace(stat=None)
        return self._entries


def _mode(file: listing_cache.Known) -> int:
    return file_copy.PROGRAM_MODE if diff.is_executable(file.metadata) else file_copy.FILE_MODE


def _with_mode(target: str, metadata: Mapping[str, str]) -> os.stat_result:
    """Executable for those who may read it, as the umask left that."""
    status = os.stat(target)  # noqa: PTH116
    if not diff.is_executable(metadata):
        return status
    os.chmod(target, stat.S_IMODE(status.st_mode) | (status.st_mode & 0o444) >> 2)  # noqa: PTH101
    return os.stat(target)  # noqa: PTH116


def _unwritable(path: str, fault: OSError) -> WorkspaceError:
    if fault.errno == errno.ENAMETOOLONG:
        return WorkspaceError(f"object {path!r} cannot be a local file: its name is too long for this file system")
    return WorkspaceError(f"cannot write {path!r} into the workspace: {fault.strerror}")
