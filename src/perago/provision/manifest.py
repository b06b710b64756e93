"""The list of an artifact's files with size, checksum and change time: tells a whole artifact from a damaged one."""

import contextlib
import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

NAME = ".manifest.json"


@dataclass(frozen=True, slots=True)
class Entry:
    """One file as it was built. Links are listed by where they point."""

    size: int
    sha256: str
    changed_ns: int


def write(directory: Path) -> None:
    """Lists what is there, and makes sure that it is on the disk before the artifact gets its name."""
    _store(directory, {name: _look(directory / name) for name in _files(directory)})
    # One flush for all: an artifact can have thousands of files.
    os.sync()


def intact(directory: Path) -> bool:
    """Whether every file is as it was built. Reads only files that were touched since."""
    entries = _read(directory / NAME)
    if entries is None:
        return False
    now: dict[str, Entry] = {}
    for name, entry in entries.items():
        found = _confirm(directory / name, entry)
        if found is None:
            return False
        now[name] = found
    if now != entries:
        # Copied or moved, yet the same bytes: remember the new change times. A cache that cannot be written works all the same.
        with contextlib.suppress(OSError):
            _store(directory, now)
    return True


def _confirm(path: Path, entry: Entry) -> Entry | None:
    try:
        stat = path.lstat()
        if stat.st_size != entry.size:
            return None
        # Programs cannot set the change time, so the same one means the same bytes.
        if stat.st_ctime_ns == entry.changed_ns:
            return entry
        return Entry(stat.st_size, entry.sha256, stat.st_ctime_ns) if _checksum(path) == entry.sha256 else None
    except OSError:
        return None


def _look(path: Path) -> Entry:
    stat = path.lstat()
    return Entry(stat.st_size, _checksum(path), stat.st_ctime_ns)


def _checksum(path: Path) -> str:
    if path.is_symlink():
        return hashlib.sha256(os.fsencode(path.readlink())).hexdigest()
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _read(path: Path) -> dict[str, Entry] | None:
    try:
        document = json.loads(path.read_text())
        return {name: Entry(**fields) for name, fields in document.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def _store(directory: Path, entries: dict[str, Entry]) -> None:
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
