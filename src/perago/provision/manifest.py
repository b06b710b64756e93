"""The list of an artifact's files with size, checksum and change time, to find out whether it is damaged."""

import contextlib
import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

NAME = ".manifest.json"


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One file as it was built. For a symbolic link, the checksum is that of its target's path."""

    size: int
    sha256: str
    changed_ns: int


def write(directory: Path) -> None:
    """Lists the files of the directory, and flushes everything to disk, so that the artifact can be renamed into place."""
    _store(directory, {name: _entry(directory / name) for name in _files(directory)})
    # One flush for all files: an artifact can have thousands.
    os.sync()


def is_intact(directory: Path) -> bool:
    """Whether every file is as it was built. Reads only files whose change time is different."""
    entries = _read(directory / NAME)
    if entries is None:
        return False
    now: dict[str, ManifestEntry] = {}
    for name, entry in entries.items():
        found = _verified(directory / name, entry)
        if found is None:
            return False
        now[name] = found
    if now != entries:
        # The files were copied or moved: remember the new change times. A read-only cache can still be used.
        with contextlib.suppress(OSError):
            _store(directory, now)
    return True


def _verified(path: Path, entry: ManifestEntry) -> ManifestEntry | None:
    try:
        stat = path.lstat()
        if stat.st_size != entry.size:
            return None
        # Programs cannot set the change time, so if it is equal, so is the content.
        if stat.st_ctime_ns == entry.changed_ns:
            return entry
        return ManifestEntry(stat.st_size, entry.sha256, stat.st_ctime_ns) if _checksum(path) == entry.sha256 else None
    except OSError:
        return None


def _entry(path: Path) -> ManifestEntry:
    stat = path.lstat()
    return ManifestEntry(stat.st_size, _checksum(path), stat.st_ctime_ns)


def _checksum(path: Path) -> str:
    if path.is_symlink():
        return hashlib.sha256(os.fsencode(path.readlink())).hexdigest()
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _read(path: Path) -> dict[str, ManifestEntry] | None:
    try:
        document = json.loads(path.read_text())
        return {name: ManifestEntry(**fields) for name, fields in document.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def _store(directory: Path, entries: dict[str, ManifestEntry]) -> None:
    fresh = directory / f"{NAME}.{os.getpid()}"
    fresh.write_text(json.dumps({name: asdict(entry) for name, entry in entries.items()}, indent=0))
    fresh.replace(directory / NAME)


def _files(directory: Path) -> list[str]:
    found = [
        os.path.relpath(Path(folder) / name, directory)
        for folder, folders, names in os.walk(directory)
        for name in [*names, *(f for f in folders if (Path(folder) / f).is_symlink())]
    ]
    return sorted(found)
