"""A local workspace as checks see it: the directory itself, and its tables, which DuckDB reads."""

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from perago.data_checks.port import Tables
from perago.model import FilePath
from perago.workspace import diff, scan

if TYPE_CHECKING:
    from perago.duckdb_tables.tables import DuckTables


class LocalInspection:
    """Implements `perago.attempt.port.Inspection`. `argument` is called when an author's check may change files."""

    def __init__(
        self,
        argument: Callable[[], Path],
        rescan: Callable[[], scan.ScanResult],
        before: diff.Manifest,
        directory: Path,
    ) -> None:
        self._argument = argument
        self._rescan = rescan
        self._before = before
        self._directory = directory
        self._found: scan.ScanResult | None = None
        self._opened: DuckTables | None = None

    @property
    def scanned(self) -> Mapping[FilePath, scan.FileStat]:
        """The files that tables were read from, and perhaps others; empty if no table was read."""
        return {} if self._found is None else self._found.files

    def argument(self) -> Path:
        return self._argument()

    def sizes(self) -> Mapping[FilePath, int]:
        """Of all files, as they are at the first call."""
        return {path: status.size for path, status in self._files().items()}

    def tables(self) -> Tables:
        if self._opened is None:
            # The package is optional, and its import takes longer than most checks.
            from perago.duckdb_tables.tables import DuckTables  # noqa: PLC0415

            self._opened = DuckTables(self.argument(), self.sizes(), self.is_unchanged, self._directory / "duckdb")
        return self._opened

    def close(self) -> None:
        if self._opened is not None:
            with contextlib.suppress(Exception):
                self._opened.close()
            self._opened = None

    def is_unchanged(self, path: str) -> bool:
        """Whether all files of a table are as they were downloaded. A file is hashed only if its stat data cannot tell."""
        here = {name: status for name, status in self._files().items() if _belongs(name, path)}
        there = {name: entry for name, entry in self._before.items() if _belongs(name, path)}
        return here.keys() == there.keys() and all(self._is_same(name, there[name], here[name]) for name in here)

    def _files(self) -> Mapping[FilePath, scan.FileStat]:
        if self._found is None:
            self._found = self._rescan()
        return self._found.files

    def _is_same(self, name: FilePath, entry: diff.FileEntry, status: scan.FileStat) -> bool:
        if entry.stat == status:
            return True
        if entry.size != status.size or entry.md5 is None:
            return False
        return entry.md5 == scan.digest(str(self.argument()), name, status)


def _belongs(name: str, path: str) -> bool:
    return name == path or name.startswith(f"{path}/")
