"""Data files as parts of tables: which format a file has, to which table it belongs, and its rows and columns."""

import csv
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from perago.local_run import parquet_footer

MAX_TEXT_BYTES = 64 << 20
"""The rows of larger text files are not counted."""
_SAMPLE = 1000
"""So many lines of JSON are examined for columns."""
_FORMATS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "json lines", ".ndjson": "json lines"}
_PARTITION = re.compile(r"(?P<column>[^/=]+)=[^/]*")
_NUMBERS = re.compile(r"[0-9a-f]{8,}|[0-9]+")
_COLUMN_NAME = re.compile(r"[^\W\d][\w .-]*")
_LARGEST_FIELD = 1 << 20


@dataclass(frozen=True, slots=True)
class TableKey:
    """Files with the same key are parts of one table."""

    directory: str
    """Without directories of partitions; empty for the root."""
    format: str
    stem: str
    """What the names of the files have in common."""


@dataclass(frozen=True, slots=True)
class FileFacts:
    rows: int
    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    """Their types by name; a type is empty where the format has none."""


def key_of(path: str) -> TableKey | None:
    """None for a file that is not a part of a table. Hidden files and those below hidden directories are none."""
    *directories, name = path.split("/")
    if any(part.startswith((".", "_")) for part in (*directories, name)):
        return None
    stem, dot, suffix = name.partition(".")
    is_part = stem.startswith("part-")
    kind = _FORMATS.get(f".{name.rpartition('.')[2]}") or ("json lines" if is_part and suffix.endswith("json") else None)
    if kind is None or not dot:
        return None
    while directories and _PARTITION.fullmatch(directories[-1]):
        directories.pop()
    return TableKey("/".join(directories), kind, "part-" if is_part else _NUMBERS.sub("*", stem))


def partition_columns(key: TableKey, path: str) -> dict[str, str]:
    """The columns that the directories between the table and its file stand for."""
    found = (_PARTITION.fullmatch(part) for part in path.removeprefix(key.directory).split("/")[:-1])
    return {match["column"]: "partition" for match in found if match}


def facts(path: Path, table_format: str) -> FileFacts | None:
    """None where the file cannot be read as what its name says, or is too large to count."""
    try:
        if table_format == "parquet":
            return FileFacts(*parquet_footer.read(path))
        if path.stat().st_size > MAX_TEXT_BYTES:
            return None
        return _csv(path) if table_format == "csv" else _json_lines(path)
    except (parquet_footer.NotParquet, OSError, ValueError, csv.Error):
        return None


def _csv(path: Path) -> FileFacts:
    """A first line that consists of different names is taken for the names of the columns."""
    csv.field_size_limit(_LARGEST_FIELD)
    with path.open(encoding="utf-8", newline="") as file:
        lines = csv.reader(file)
        first = next(lines, None)
        if first is None:
            return FileFacts(0)
        rows = sum(1 for line in lines if line)
    if len(set(first)) == len(first) and all(_COLUMN_NAME.fullmatch(cell) for cell in first):
        return FileFacts(rows, dict.fromkeys(first, ""))
    return FileFacts(rows + 1, {f"column {number}": "" for number in range(1, len(first) + 1)})


def _json_lines(path: Path) -> FileFacts:
    rows, columns = 0, dict[str, str]()
    with path.open(encoding="utf-8") as file:
        for line in file:
            if not line.strip():
                continue
            rows += 1
            if rows <= _SAMPLE:
                found: Any = json.loads(line)
                columns.update(dict.fromkeys(cast("dict[str, Any]", found), "") if isinstance(found, dict) else {})
    return FileFacts(rows, columns)
