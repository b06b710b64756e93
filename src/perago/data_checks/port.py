"""What data checks need of a workspace and of the engine that reads its tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from perago.data_checks.dialect import Dialect
from perago.data_checks.table_files import TableFiles
from perago.declare.tables.column_types import Column
from perago.model import FilePath


class UnreadableTable(Exception):
    """A table or an expression that the engine cannot evaluate; the message is the reason, in one line."""


@dataclass(frozen=True, slots=True)
class OpenTable:
    """A table under a name that SQL can use."""

    view: str
    """Quoted as the dialect needs it."""
    columns: tuple[Column, ...] | None
    """None where no file holds any data, and the format keeps columns in its rows only."""
    is_text: bool = False
    """The format keeps values as text (CSV) or nearly so (JSON): a declared type is what the text must be readable as."""
    text_columns: frozenset[str] = frozenset()
    """Columns that are text although the format has types: those of partition directories."""


class Tables(Protocol):
    """The tables of a workspace, as they would be published."""

    dialect: Dialect

    def files(self) -> Mapping[FilePath, int]:
        """Path and size of every file of the workspace."""
        ...

    def is_unchanged(self, path: str) -> bool:
        """Whether the file or directory is known to be as in the input commit."""
        ...

    def open(self, files: TableFiles, as_text: frozenset[str]) -> OpenTable:
        """`as_text` are the columns of a text format whose type is declared; the others get the type that the engine finds."""
        ...

    def query(self, sql: str) -> Sequence[tuple[Any, ...]]:
        """The rows; `UnreadableTable` where the engine refuses or cannot evaluate it."""
        ...

    def frame(self, table: OpenTable) -> object:
        """The table as a data frame of pandas or Spark, for schemas of pandera."""
        ...

    def interrupt(self) -> None:
        """From another thread: make a running query end soon."""
        ...


@dataclass(frozen=True, slots=True)
class Previous:
    """The table of the input commit."""

    rows: int
    columns: tuple[Column, ...] | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """What was found about one table."""

    table: str
    rows: int | None
    """None where it could not be counted."""
    rules: int
    bad: Mapping[str, int] = field(default_factory=dict[str, int])
    """Rows that break a rule, by the rule; rules without such rows are left out."""
    seconds: float = 0.0
    declaration: str = ""
    """Digest of what was required; empty if it cannot be compared."""
    unchanged: bool = False
    """The same checks held for the same content, according to the input commit: nothing was read."""
    violations: tuple[str, ...] = ()
