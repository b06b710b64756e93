"""Which files of a workspace belong to a table, and in which format they are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from perago.model import FilePath

Format = Literal["parquet", "csv", "json", "orc", "delta"]

_COMPRESSED = (".gz", ".zst", ".bz2", ".snappy", ".lz4", ".deflate")
_EXTENSIONS: dict[str, Format] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".orc": "orc",
}
_LOG = "_delta_log"


class NoTable(Exception):
    """There is no such table, or its format is not known; the message is the reason."""


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The data files of a table. Those without a byte hold no row in any of the formats, and are left out."""

    path: str
    """Of the file or directory, relative to the workspace."""
    format: Format
    files: tuple[FilePath, ...]
    is_directory: bool = True
    partitions: tuple[str, ...] = ()
    """The columns that directories such as `day=2026-07-01` stand for."""

    @property
    def has_plain_directories(self) -> bool:
        """Whether files are in directories below the table's that stand for no column."""
        return any("=" not in name for file in self.files for name in self._below(file)[:-1])

    def _below(self, file: FilePath) -> list[str]:
        return file[len(self.path) + 1 :].split("/")


def find(path: str, given: str | None, files: Mapping[FilePath, int]) -> TableFiles:
    """The table at `path`; `NoTable` if there is none. `given` is the format that was declared."""
    if FilePath(path) in files:
        name = FilePath(path)
        chosen = given or _by_name(name)
        return TableFiles(path, _known(path, chosen), (name,) if files[name] else (), is_directory=False)
    inside = [name for name in files if name.startswith(f"{path}/")]
    if given == "delta" or any(name.startswith(f"{path}/{_LOG}/") for name in inside):
        return TableFiles(path, "delta", tuple(sorted(inside)))
    data = sorted(name for name in inside if not _is_hidden(name[len(path) + 1 :]))
    if not data:
        raise NoTable("found no such table" if not inside else "found no data file in it")
    chosen = given or _common(data)
    with_rows = tuple(name for name in data if files[name])
    return TableFiles(path, _known(path, chosen), with_rows, partitions=_partitions(path, data))


def _known(path: str, found: str | None) -> Format:
    formats: dict[str | None, Format] = {"parquet": "parquet", "csv": "csv", "json": "json", "orc": "orc", "delta": "delta"}
    if found not in formats:
        raise NoTable(f"the format of {path} is not known by its name; write format='parquet', 'csv', 'json' or 'orc'")
    return formats[found]


def _common(names: list[FilePath]) -> Format | None:
    found: set[Format | None] = {_by_name(name) for name in names}
    if len(found) > 1:
        shown = " and ".join(sorted(one or "unknown" for one in found))
        raise NoTable(f"holds files of several formats ({shown}); keep one format in it, or write format='parquet'")
    return found.pop()


def _by_name(name: FilePath) -> Format | None:
    plain = name.lower()
    for ending in _COMPRESSED:
        plain = plain.removesuffix(ending)
    return next((found for ending, found in _EXTENSIONS.items() if plain.endswith(ending)), None)


def _is_hidden(below: str) -> bool:
    """As Spark: a name that begins with `_` or `.` is not data, unless it stands for a column."""
    return any(name.startswith(".") or (name.startswith("_") and "=" not in name) for name in below.split("/"))


def _partitions(path: str, names: list[FilePath]) -> tuple[str, ...]:
    first = names[0][len(path) + 1 :].split("/")[:-1]
    return tuple(name.partition("=")[0] for name in first if "=" in name)
