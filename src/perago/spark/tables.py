"""The tables of a workspace, read by Spark, for data checks. Works with the sessions of a driver and of Spark Connect."""

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perago.data_checks.dialect import SPARK
from perago.data_checks.port import OpenTable, UnreadableTable
from perago.data_checks.table_files import TableFiles
from perago.model import FilePath
from perago.spark import session, table_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    # The values of partition directories are text, which is read as what is declared.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}
"""So that a check does not depend on the settings of the driver or of the body."""
_NO_TEXT = "\x01null"
"""Spark would otherwise read a quoted empty text as null; a cell without anything is null either way."""
_LONGEST_REASON = 300
_VALUES_IN_MESSAGES = re.compile(r"'[^']*'|\"[^\"]*\"")
_CONDITION = re.compile(r"\[[A-Z][A-Z_.]+\]")
_OF_DATA = re.compile(r"CAST|DIVIDE|OVERFLOW|OUT_OF_RANGE|MALFORMED|INVALID_")


@dataclass(slots=True)
class SparkTables:
    """Implements `perago.data_checks.port.Tables`."""

    opened: Callable[[], session.AttemptSession]
    """The session, opened at the first use: a table that has not changed needs none."""
    base: str
    """The URI of the workspace, with a trailing `/`."""
    found: Mapping[FilePath, int]
    same_as_input: Callable[[str], bool]
    dialect = SPARK
    _opened: dict[tuple[str, frozenset[str]], OpenTable] = field(default_factory=dict[tuple[str, frozenset[str]], OpenTable])
    _token: str = field(default_factory=lambda: secrets.token_hex(8))

    def files(self) -> Mapping[FilePath, int]:
        return self.found

    def is_unchanged(self, path: str) -> bool:
        return self.same_as_input(path)

    def open(self, files: TableFiles, as_text: frozenset[str]) -> OpenTable:
        key = (files.path, as_text)
        if key not in self._opened:
            self._opened[key] = self._open(files, as_text, f"perago_table_{len(self._opened)}_{self._token}")
        return self._opened[key]

    def query(self, sql: str) -> Sequence[tuple[Any, ...]]:
        spark: Any = self.made.spark
        return self._attempt(lambda: [tuple(row) for row in spark.sql(sql).collect()])

    def frame(self, table: OpenTable) -> object:
        return self._attempt(lambda: self.made.spark.table(table.view))

    def interrupt(self) -> None:
        """Nothing to do: the monitor of the session cancels its jobs."""

    @property
    def made(self) -> session.AttemptSession:
        return self.opened()

    def _open(self, files: TableFiles, as_text: frozenset[str], view: str) -> OpenTable:
        is_text = files.format in {"csv", "json"}
        if not files.files:
            if is_text:
                return OpenTable(view, None, is_text=True)
            raise UnreadableTable(f"its files are empty, which is no {files.format}")
        frame = self._attempt(lambda: self._frame(files, as_text))
        self._attempt(lambda: frame.createOrReplaceTempView(view))
        columns = table_types.columns(self._attempt(frame.schema.jsonValue))
        return OpenTable(view, columns, is_text, frozenset(files.partitions))

    def _frame(self, files: TableFiles, as_text: frozenset[str]) -> "DataFrame":
        reader = self.made.spark.read.format(files.format)
        # A plan of its own: Spark would otherwise answer from data that the body has cached.
        reader = reader.option("perago-check", self._token)
        if files.has_plain_directories and not files.partitions:
            reader = reader.option("recursiveFileLookup", "true")
        if files.format == "parquet":
            reader = reader.option("mergeSchema", str(len(files.files) > 1).lower())
        if files.format != "csv":
            return reader.load(self.base + files.path)
        texts = reader.option("header", "true").option("escape", '"').option("multiLine", "true").option("nullValue", _NO_TEXT)
        frame = texts.load(self.base + files.path)
        if set(frame.columns) <= as_text | set(files.partitions):
            return frame
        inferred = texts.option("inferSchema", "true").load(self.base + files.path)
        kept = [name for name in inferred.columns if name not in files.partitions]
        parts = [f"{self.dialect.quoted(name)} {self._csv_type(inferred, name, as_text)}" for name in kept]
        return texts.schema(", ".join(parts)).load(self.base + files.path)

    @staticmethod
    def _csv_type(inferred: "DataFrame", name: str, as_text: frozenset[str]) -> str:
        return "STRING" if name in as_text else inferred.schema[name].dataType.simpleString()

    def _attempt(self, action: Callable[[], Any]) -> Any:
        """What the action returns; `UnreadableTable` for what Spark refuses, the driver's own error if it has ended."""
        # A worker without Spark tasks never imports them.
        from py4j.protocol import Py4JError  # noqa: PLC0415
        from pyspark.errors import PySparkException  # noqa: PLC0415

        try:
            return action()
        except (PySparkException, Py4JError) as error:
            cause = session.explain_error(self.made, error)
            if cause is not error:
                raise cause from error
            raise UnreadableTable(_line(error)) from error


def _line(error: Exception) -> str:
    """The message from its condition on, as in `[CAST_INVALID_INPUT]`, without values of the data and without stack traces."""
    text = " ".join(str(error).partition("JVM stacktrace:")[0].partition("SQLSTATE:")[0].split())
    found = _CONDITION.search(text)
    if found is not None:
        text = text[found.start() :]
        if _OF_DATA.search(found[0]):
            text = _VALUES_IN_MESSAGES.sub("'…'", text)
    return text[:_LONGEST_REASON]
