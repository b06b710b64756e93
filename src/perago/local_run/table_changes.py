"""What a publication changes in tables: rows, columns and files before and after it.

A table is a data file, or the data files of one format in a directory whose names differ only in numbers, with the partitions
below it. A Delta table is none: which of its files count is in its log.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from perago.local_run import table_files
from perago.local_run.changes import TEXT_LIMIT, ChangeKind
from perago.local_run.folder_lake import Stored
from perago.local_run.table_files import FileFacts, TableKey
from perago.model import FilePath, ObjectPath

MAX_FILES = 2000
"""The rows of a table with more files are not counted."""
_DELTA_LOG = "_delta_log"

Files = Mapping[FilePath, Stored]


@dataclass(frozen=True, slots=True)
class TableSide:
    """A table at one time."""

    files: int
    rows: int | None
    """None where a file cannot be read, or where there is too much to count."""
    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    """Their types by name; a type is empty where the format has none."""

    @property
    def is_known(self) -> bool:
        """False if its files are not what their names say."""
        return self.rows is not None or bool(self.columns) or self.files > MAX_FILES


@dataclass(frozen=True, slots=True)
class TableChange:
    """One table that a publication adds, changes or deletes."""

    path: str
    """Of its only file; or of its directory, ending in `/`; or a pattern of its files."""
    format: str
    before: TableSide | None
    after: TableSide | None
    changed_files: tuple[FilePath, ...]
    """The files of it that are added, changed or deleted."""

    @property
    def kind(self) -> ChangeKind:
        if self.before is None:
            return ChangeKind.ADDED
        return ChangeKind.DELETED if self.after is None else ChangeKind.CHANGED

    @property
    def is_one_file(self) -> bool:
        return self.changed_files == (self.path,)

    @property
    def added_columns(self) -> dict[str, str]:
        return _only_in(self.after, self.before) if self.kind is ChangeKind.CHANGED else {}

    @property
    def removed_columns(self) -> dict[str, str]:
        return _only_in(self.before, self.after) if self.kind is ChangeKind.CHANGED else {}

    @property
    def retyped_columns(self) -> dict[str, tuple[str, str]]:
        """The type before and after, by name."""
        if self.before is None or self.after is None:
            return {}
        before = self.before.columns
        return {
            name: (before[name], shown) for name, shown in self.after.columns.items() if name in before and before[name] != shown
        }


def between(given: Mapping[ObjectPath, Stored], published: Mapping[ObjectPath, Stored], prefix: str) -> tuple[TableChange, ...]:
    """In the order of their paths. `prefix` ends in `/` or is empty; paths outside it never differ."""
    before, after = _below(given, prefix), _below(published, prefix)
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    wanted = {key for key in map(table_files.key_of, changed) if key is not None and not _is_delta(key, before, after)}
    tables = _grouped(wanted, before, after)
    read = _FactsReader()
    found = (_table(key, sides, changed, read) for key, sides in tables.items())
    return tuple(sorted((one for one in found if one is not None), key=lambda one: one.path))


def _below(objects: Mapping[ObjectPath, Stored], prefix: str) -> dict[FilePath, Stored]:
    return {FilePath(path.removeprefix(prefix)): held for path, held in objects.items() if path.startswith(prefix)}


def _is_delta(key: TableKey, *sides: Files) -> bool:
    log = f"{key.directory}/{_DELTA_LOG}/".lstrip("/")
    return any(path.startswith(log) for side in sides for path in side)


def _grouped(wanted: set[TableKey], before: Files, after: Files) -> Mapping[TableKey, tuple[Files, Files]]:
    tables: dict[TableKey, tuple[dict[FilePath, Stored], dict[FilePath, Stored]]] = defaultdict(lambda: ({}, {}))
    for number, side in enumerate((before, after)):
        for path, held in side.items():
            if (key := table_files.key_of(path)) in wanted:
                tables[key][number][path] = held
    return tables


class _FactsReader:
    """Reads a file once, also if it is the same before and after."""

    def __init__(self) -> None:
        self._known: dict[str, FileFacts | None] = {}

    def __call__(self, held: Stored, table_format: str) -> FileFacts | None:
        at = str(held.at)
        if at not in self._known:
            self._known[at] = table_files.facts(held.at, table_format)
        return self._known[at]


def _table(key: TableKey, sides: tuple[Files, Files], changed: set[FilePath], read: _FactsReader) -> TableChange | None:
    """None for small text in one file, whose lines are shown, and for files that are not what their names say."""
    paths = sides[0].keys() | sides[1].keys()
    path = _path(key, paths)
    if path in paths and key.format != "parquet" and all(held.size <= TEXT_LIMIT for side in sides for held in side.values()):
        return None
    before, after = (_side(key, side, read) if side else None for side in sides)
    if not any(side is not None and side.is_known for side in (before, after)):
        return None
    return TableChange(path, key.format, before, after, tuple(sorted(changed & paths)))


def _path(key: TableKey, paths: set[FilePath]) -> str:
    directory = f"{key.directory}/" if key.directory else ""
    if len(paths) == 1 and key.stem != "part-" and next(iter(paths)).rpartition("/")[0] == key.directory:
        return next(iter(paths))
    return directory or "./" if key.stem == "part-" or "*" not in key.stem else f"{directory}{key.stem}"


def _side(key: TableKey, files: Files, read: _FactsReader) -> TableSide:
    if len(files) > MAX_FILES:
        return TableSide(len(files), None)
    columns: dict[str, str] = {}
    rows: int | None = 0
    for path, found in _facts(key, files, read):
        rows = None if rows is None or found is None else rows + found.rows
        for name, shown in ({} if found is None else {**found.columns, **table_files.partition_columns(key, path)}).items():
            columns.setdefault(name, shown)
    return TableSide(len(files), rows, columns)


def _facts(key: TableKey, files: Files, read: _FactsReader) -> Iterator[tuple[FilePath, FileFacts | None]]:
    return ((path, read(held, key.format)) for path, held in sorted(files.items()))


def _only_in(one: TableSide | None, other: TableSide | None) -> dict[str, str]:
    if one is None or other is None or not other.columns:
        return {}
    return {name: shown for name, shown in one.columns.items() if name not in other.columns}
