"""The tables of a folder, read by DuckDB in this process: nothing is fetched, and what does not fit into memory goes to disk."""

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from perago.data_checks.dialect import DUCKDB
from perago.data_checks.port import OpenTable, UnreadableTable
from perago.data_checks.table_files import TableFiles
from perago.duckdb_tables import types
from perago.model import FilePath

MEMORY = "1GB"
"""Of all queries of a check together; DuckDB writes what is more to the folder for temporary files."""
_READERS = {
    "parquet": "read_parquet({files}, union_by_name = true{hive})",
    "csv": "read_csv({files}, header = true, delim = ',', quote = '\"', escape = '\"', nullstr = '', allow_quoted_nulls = false,"
    " union_by_name = true{types}{hive})",
    "json": "read_json({files}, format = 'newline_delimited', union_by_name = true, sample_size = -1{hive})",
    "delta": "delta_scan({folder})",
}
_LONGEST_REASON = 300


class DuckTables:
    """Implements `perago.data_checks.port.Tables`."""

    dialect = DUCKDB

    def __init__(
        self, root: Path, files: Mapping[FilePath, int], is_unchanged: Callable[[str], bool], temporary_files: Path
    ) -> None:
        self._root = root
        self._files = files
        self._is_unchanged = is_unchanged
        self._temporary_files = temporary_files
        self._connected: duckdb.DuckDBPyConnection | None = None
        self._opened: dict[tuple[str, frozenset[str]], OpenTable] = {}

    def files(self) -> Mapping[FilePath, int]:
        return self._files

    def is_unchanged(self, path: str) -> bool:
        return self._is_unchanged(path)

    def open(self, files: TableFiles, as_text: frozenset[str]) -> OpenTable:
        key = (files.path, as_text)
        if key not in self._opened:
            self._opened[key] = self._open(files, as_text, f"table_{len(self._opened)}")
        return self._opened[key]

    def query(self, sql: str) -> Sequence[tuple[Any, ...]]:
        try:
            return self._connection.execute(sql).fetchall()
        except duckdb.Error as error:
            raise UnreadableTable(_line(error)) from error

    def frame(self, table: OpenTable) -> object:
        try:
            return self._connection.execute(f"SELECT * FROM {table.view}").df()
        except duckdb.Error as error:
            raise UnreadableTable(_line(error)) from error

    def interrupt(self) -> None:
        if self._connected is not None:
            self._connected.interrupt()

    def close(self) -> None:
        if self._connected is not None:
            self._connected.close()

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        """Made at the first use: a table that has not changed needs none."""
        if self._connected is None:
            settings: dict[str, Any] = {
                "memory_limit": MEMORY,
                "temp_directory": str(self._temporary_files),
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "preserve_insertion_order": False,
            }
            self._connected = duckdb.connect(":memory:", config=settings)
            self._connected.execute("SET TimeZone = 'UTC'")
        return self._connected

    def _open(self, files: TableFiles, as_text: frozenset[str], view: str) -> OpenTable:
        is_text = files.format in {"csv", "json"}
        if files.format == "orc":
            raise UnreadableTable("is an ORC table, which only a Spark task can check; write Parquet, or take a SparkWorkspace")
        if files.format == "delta":
            self._require_delta()
        elif not files.files:
            if is_text:
                return OpenTable(view, None, is_text=True)
            raise UnreadableTable("its files are empty, which is no Parquet")
        self.query(f"CREATE VIEW {view} AS SELECT * FROM {self._reader(files, as_text)}")
        relation = self._connection.view(view)
        columns = types.columns(relation.columns, relation.types)
        return OpenTable(view, columns, is_text, frozenset(files.partitions))

    def _reader(self, files: TableFiles, as_text: frozenset[str]) -> str:
        paths = ", ".join(self.dialect.text_literal(_escaped(f"{self._root}/{file}")) for file in files.files)
        hive = ", hive_partitioning = true, hive_types_autocast = false" if files.partitions else ", hive_partitioning = false"
        texts = ""
        if files.format == "csv":
            found = self._header(files) & as_text
            pairs = ", ".join(f"{self.dialect.text_literal(name)}: 'VARCHAR'" for name in sorted(found))
            texts = f", types = {{{pairs}}}" if pairs else ""
        folder = self.dialect.text_literal(f"{self._root}/{files.path}")
        return _READERS[files.format].format(files=f"[{paths}]", hive=hive, types=texts, folder=folder)

    def _header(self, files: TableFiles) -> frozenset[str]:
        """The columns of the first CSV file: the reader refuses types of columns that do not exist."""
        first = self.dialect.text_literal(_escaped(f"{self._root}/{files.files[0]}"))
        reader = _READERS["csv"].format(files=first, hive=", hive_partitioning = false", types=", all_varchar = true")
        with contextlib.closing(self._connection.cursor()) as cursor:
            try:
                cursor.execute(f"SELECT * FROM {reader} LIMIT 0")
            except duckdb.Error as error:
                raise UnreadableTable(_line(error)) from error
            return frozenset(str(column[0]) for column in cursor.description or ())

    def _require_delta(self) -> None:
        try:
            self._connection.execute("LOAD delta")
        except duckdb.Error as error:
            raise UnreadableTable(
                "is a Delta table: a local task needs DuckDB's extension 'delta' (INSTALL delta), or take a SparkWorkspace"
            ) from error


def _escaped(path: str) -> str:
    """DuckDB takes every name as a pattern."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in path)


def _line(error: duckdb.Error) -> str:
    """The first line of the message, without values of the data: those behind it repeat the query or lines of a file."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    line = " ".join((lines[0] if lines else type(error).__name__).split())
    if isinstance(error, duckdb.DataError | duckdb.InvalidInputException):
        line = re.sub(r"'[^']*'|\"[^\"]*\"", "'…'", line)
    return line[:_LONGEST_REASON]
