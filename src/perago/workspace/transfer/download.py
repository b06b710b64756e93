"""Download the objects under a prefix of a commit into an empty directory, and return their manifest.

Pages are listed while transfers already run. Cached contents are copied, every other file takes one request; requests for small
files are sent in batches, and large files are read in parts.
"""

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perago import events
from perago.errors import WorkspaceError
from perago.lake import port, transfer
from perago.model import FilePath, ObjectInfo, ObjectPath
from perago.workspace import diff, filesystem_probes, input_verification, options, path_mapping, scan
from perago.workspace.cache import content_cache, listing_cache, small_object_db
from perago.workspace.transfer import file_copy, large_object, progress, thread_pool
from perago.workspace.transfer.source import Source

INLINE = 1 << 20
"""Cached files up to this size are copied by the listing thread: for small files more threads compete for the interpreter."""
AHEAD = 3 * port.PAGE // thread_pool.BATCH
"""Batches that may be listed before they are fetched; limits memory however large the workspace is."""


@dataclass(frozen=True, slots=True)
class DownloadResult:
    manifest: diff.Manifest
    not_cached_yet: Sequence[FilePath]
    """Large files, which `cache.backfill` copies into the cache while the body runs."""
    save_listing: Callable[[Mapping[FilePath, str]], None] | None
    """To be called with the MD5s of the files that were not verified yet, once they are."""


Batch = Sequence[listing_cache.ListedFile]


def download(
    lake: port.Lake,
    source: Source,
    work: Path,
    cache: content_cache.ContentCache,
    limits: options.WorkspaceOptions,
    emit: events.Emit = events.ignore,
    verification: input_verification.InputVerification | None = None,
) -> DownloadResult:
    """`work` is an empty directory that is not used before this returns. After an error its content is undefined.

    With `verification` the large files need not be verified yet, but are protected from changes until they are.
    """
    job = _Downloader(lake, source, str(work), cache, emit, verification)
    pool = thread_pool.TransferPool(job.fetch, light=limits.light_transfers, heavy=limits.heavy_transfers, name="perago-download")
    with contextlib.closing(job), pool:
        for page in job.pages():
            for batch in thread_pool.batches(job.copy_cached(page), limits.light_transfers):
                for item in job.divided(batch):
                    pool.submit(item, heavy=batch[0].size > thread_pool.HEAVY)
            job.meter.tick()
            pool.wait_below(AHEAD, job.meter.tick)
        pool.wait_below(1, job.meter.tick)
    if verification is not None:
        verification.protect(job.meter.tick)
    return job.finish()


class _Downloader:
    def __init__(
        self,
        lake: port.Lake,
        source: Source,
        work: str,
        cache: content_cache.ContentCache,
        emit: events.Emit,
        verification: input_verification.InputVerification | None,
    ) -> None:
        self._lake = lake
        self._source = source
        self._work = work
        self._cache = cache
        self._large = None if verification is None else large_object.LargeObjectReader(lake, source, verification)
        self._listings = listing_cache.ListingCache(cache)
        self._key = listing_cache.key(source.repository, source.commit, source.prefix)
        self._is_listed = False
        self._checksums: dict[FilePath, tuple[str, str]] = {}
        """For objects whose checksum is not an MD5: that checksum, and the key under which their MD5 is saved."""
        self._entries: dict[FilePath, diff.FileEntry] = {}
        self._not_cached_yet: list[FilePath] = []
        self.meter = progress.ProgressMeter(events.Phase.DOWNLOAD, emit)
        self._reads = progress.ProgressMeter(events.Phase.DOWNLOAD, events.ignore)

    # list

    def pages(self) -> Iterator[list[listing_cache.ListedFile]]:
        """The files to fetch, page by page; their directories are created first."""
        folds = filesystem_probes.folds_names(self._work)
        collisions = path_mapping.CollisionDetector(folds=folds)
        for page in self._cached_pages() or self._listed_pages():
            for file in page:
                for directory in collisions.add(file.path):
                    self._make_directory(directory)
            yield page

    def _cached_pages(self) -> Iterator[list[listing_cache.ListedFile]] | None:
        return self._listings.load(self._key)

    def _listed_pages(self) -> Iterator[list[listing_cache.ListedFile]]:
        self._is_listed = True
        presign = self._lake.capabilities().presign_read
        after: ObjectPath | None = None
        while True:
            page = self._lake.objects(self._source.repository, self._source.commit, self._source.prefix, after, presign=presign)
            self.meter.add(requests=1)
            yield [file for info in page.objects if (file := self._listed_file(info)) is not None]
            after = page.after
            if after is None:
                return

    def _listed_file(self, info: ObjectInfo) -> listing_cache.ListedFile | None:
        path = path_mapping.to_local(self._source.prefix, info)
        if path is None:
            return None
        md5 = info.checksum if transfer.is_md5(info.checksum) else self._saved_md5(path, info)
        content_type, metadata = sys.intern(info.content_type), info.metadata or diff.NO_METADATA
        return listing_cache.ListedFile(path, info.size, md5, info.checksum, content_type, metadata, info.presigned_url)

    def _saved_md5(self, path: FilePath, info: ObjectInfo) -> str | None:
        """The MD5 that this object had when it was read before, at any commit."""
        alias = listing_cache.key(self._source.repository, f"{info.checksum}-{info.size}-{info.mtime}", info.path)
        self._checksums[path] = (info.checksum, alias)
        pages = self._listings.load(alias)
        return next((file.md5 for page in pages for file in page), None) if pages else None

    def _make_directory(self, directory: str) -> None:
        try:
            os.mkdir(f"{self._work}/{directory}")  # noqa: PTH102 (strings throughout: see file_copy)
        except OSError as error:
            raise _unwritable(directory, error) from error

    # fetch

    def copy_cached(self, page: Sequence[listing_cache.ListedFile]) -> list[listing_cache.ListedFile]:
        """Copy the cached files of up to `INLINE` bytes; returns the other files of the page."""
        missing: list[listing_cache.ListedFile] = []
        for first in range(0, len(page), small_object_db.MAX_KEYS):
            group = page[first : first + small_object_db.MAX_KEYS]
            cached = self._cache.get_small(
                {file.md5 for file in group if file.md5 is not None and file.size <= small_object_db.MAX_SIZE}
            )
            missing += [file for file in group if not self._copy_inline(file, cached)]
        return missing

    def _copy_inline(self, file: listing_cache.ListedFile, cached: Mapping[str, bytes]) -> bool:
        if file.size > small_object_db.MAX_SIZE:
            return file.size <= INLINE and self._copy(file)
        if file.md5 is None or (data := cached.get(file.md5)) is None or len(data) != file.size:
            return False
        self._record(file, file.md5, self._create(file, data))
        return True

    def divided(self, batch: Batch) -> Iterable[Batch | large_object.Part]:
        """The parts of a large file that has to be read and may be verified later; otherwise the batch itself."""
        file = batch[0]
        if self._large is None or file.size <= thread_pool.HEAVY or self._is_cached(file):
            return [batch]
        return self._large.divide(file, f"{self._work}/{file.path}") or [batch]

    def _is_cached(self, file: listing_cache.ListedFile) -> bool:
        return file.md5 is not None and self._cache.contains(file.md5, file.size)

    def fetch(self, batch: Batch | large_object.Part) -> None:
        if isinstance(batch, large_object.Part):
            self._read_part(batch)
        elif batch[0].size <= small_object_db.MAX_SIZE:
            self._read_small(batch)
        elif batch[0].size <= INLINE or not self._copy(batch[0]):
            self._read(batch[0])

    def _copy(self, file: listing_cache.ListedFile) -> bool:
        if file.md5 is None:
            return False
        status = self._cache.restore(file.md5, file.size, f"{self._work}/{file.path}", _mode(file))
        if status is None:
            return False
        self._record(file, file.md5, status)
        return True

    def _read(self, file: listing_cache.ListedFile) -> None:
        target = f"{self._work}/{file.path}"
        self._count_request(file)
        try:
            md5 = self._lake.read(self._source.repository, self._source.commit, self._source.info(file), Path(target))
            if file.size > thread_pool.HEAVY:
                self._not_cached_yet.append(file.path)
            else:
                self._cache.insert(target, md5, file.size)
            self._record(file, md5, _with_mode(target, file.metadata))
        except OSError as error:
            raise _unwritable(file.path, error) from error

    def _read_part(self, part: large_object.Part) -> None:
        file = part.object.file
        self.meter.add(requests=1)
        try:
            if self._large is not None and self._large.read(part):
                self._reads.add(files=1, size=file.size)
                self._not_cached_yet.append(file.path)
                self._record(file, file.md5, _with_mode(part.object.target, file.metadata))
        except OSError as error:
            raise _unwritable(file.path, error) from error

    def close(self) -> None:
        """After an error files may be left open."""
        if self._large is not None:
            self._large.close()

    def _read_small(self, batch: Sequence[listing_cache.ListedFile]) -> None:
        infos = [self._source.info(file) for file in batch]
        contents = self._lake.read_small(self._source.repository, self._source.commit, infos)
        for file, (md5, data) in zip(batch, contents, strict=True):
            self._count_request(file)
            status = self._create(file, data)
            self._cache.insert_small(md5, data)
            self._record(file, md5, status)

    def _create(self, file: listing_cache.ListedFile, data: bytes) -> os.stat_result:
        try:
            return file_copy.create(data, f"{self._work}/{file.path}", _mode(file))
        except OSError as error:
            raise _unwritable(file.path, error) from error

    def _count_request(self, file: listing_cache.ListedFile) -> None:
        self._reads.add(files=1, size=file.size)
        self.meter.add(requests=1)

    def _record(self, file: listing_cache.ListedFile, md5: str | None, status: os.stat_result) -> None:
        local = scan.file_stat(status)
        self._entries[file.path] = diff.FileEntry(file.size, md5, local, local.executable, file.content_type, file.metadata)
        self.meter.add(1, file.size)

    # finish

    def finish(self) -> DownloadResult:
        self._cache.flush()
        saves = self._is_listed and self._cache.is_enabled
        is_verified = self._large is None or not self._large.has_read
        if saves and is_verified:
            self._save_listings({})
        manifest = self._manifest()
        self.meter.done(
            events.Effect.DOWNLOAD,
            f"{self._reads.files} files and {self._reads.bytes} bytes read from lakeFS, the rest from the cache",
        )
        return DownloadResult(manifest, self._not_cached_yet, self._save_listings if saves and not is_verified else None)

    def _save_listings(self, md5s: Mapping[FilePath, str]) -> None:
        """`md5s` are those that were computed after the download."""
        for path, (_, alias) in self._checksums.items():
            self._listings.save(alias, [self._as_listed_file(path, md5s)])
        self._listings.save(self._key, (self._as_listed_file(path, md5s) for path in sorted(self._entries)))

    def _as_listed_file(self, path: FilePath, md5s: Mapping[FilePath, str]) -> listing_cache.ListedFile:
        entry = self._entries[path]
        md5 = md5s.get(path, entry.md5)
        checksum = self._checksums[path][0] if path in self._checksums else md5 or ""
        return listing_cache.ListedFile(path, entry.size, md5, checksum, entry.content_type, entry.metadata)

    def _manifest(self) -> diff.Manifest:
        """Without the stat data of files as recent as the file system's clock: a later write might not change it."""
        newest = max((entry.stat.ctime_ns for entry in self._entries.values() if entry.stat), default=0)
        now = filesystem_probes.wait_for_clock(self._work, newest)
        if newest >= now:
            for path, entry in self._entries.items():
                if entry.stat and entry.stat.ctime_ns >= now:
                    self._entries[path] = entry._replace(stat=None)
        return self._entries


def _mode(file: listing_cache.ListedFile) -> int:
    return file_copy.PROGRAM_MODE if diff.is_executable(file.metadata) else file_copy.FILE_MODE


def _with_mode(target: str, metadata: Mapping[str, str]) -> os.stat_result:
    """Make it executable for everyone who may read it under the umask, if the metadata marks it as executable."""
    status = os.stat(target)  # noqa: PTH116
    if not diff.is_executable(metadata):
        return status
    os.chmod(target, stat.S_IMODE(status.st_mode) | (status.st_mode & 0o444) >> 2)  # noqa: PTH101
    return os.stat(target)  # noqa: PTH116


def _unwritable(path: str, error: OSError) -> WorkspaceError:
    if error.errno == errno.ENAMETOOLONG:
        return WorkspaceError(f"object {path!r} cannot be a local file: its name is too long for this file system")
    return WorkspaceError(f"cannot write {path!r} into the workspace: {error.strerror}")
