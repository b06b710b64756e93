"""The one query that counts the rows of a table and the rows that break each of its rules, and the queries about bad rows."""

from collections.abc import Sequence
from dataclasses import dataclass

from perago.data_checks.dialect import Dialect
from perago.data_checks.port import OpenTable
from perago.data_checks.row_rules import ALIAS, Reference, RowRule, raw_name
from perago.declare.tables.column_types import Kind

MOST_KEYS = 5
_MOST_BITS = 1 << 31
_FEW_BITS = 1 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """A table as rules see it: a column whose text has to be read as another type has its value, and its text beside it."""

    table: OpenTable
    typed: dict[str, str]
    dialect: Dialect

    def sql(self, references: Sequence[tuple[Reference, str]]) -> str:
        """What follows FROM. Each reference has the query of the values that it allows."""
        joins = "".join(
            f" LEFT JOIN ({query}) {reference.alias} ON {reference.value} = {reference.alias}.found"
            for reference, query in references
        )
        return f"{self._rows()} {ALIAS}{joins}"

    def _rows(self) -> str:
        if not self.typed:
            return self.table.view
        quoted = self.dialect.quoted
        columns = [
            f"{self.typed.get(column.name, quoted(column.name))} AS {quoted(column.name)}" for column in self.table.columns or ()
        ]
        texts = [f"{quoted(name)} AS {quoted(raw_name(name))}" for name in self.typed]
        return f"(SELECT {', '.join([*columns, *texts])} FROM {self.table.view})"


def allowed_values(dialect: Dialect, view: str, column: str, read_as: str | None) -> str:
    """The query of the values that a reference allows, each once."""
    value = dialect.quoted(column) if read_as is None else read_as
    return f"SELECT DISTINCT {value} AS found FROM {view} WHERE {dialect.quoted(column)} IS NOT NULL"


def counts(source: str, rules: Sequence[RowRule]) -> str:
    """One row: the number of rows, then for each rule the number of bad ones."""
    return f"SELECT {', '.join(['count(*)', *(rule.count for rule in rules)])} FROM {source}"


def shared_counts(source: str, rule: RowRule) -> str:
    """One row: how many rows have values that another row has too."""
    return f"SELECT coalesce(sum(n), 0) FROM (SELECT count(*) AS n {_groups(source, rule)}) g"


def shared_examples(source: str, rule: RowRule) -> str:
    """Values that several rows have."""
    return f"SELECT {', '.join(rule.shared)} {_groups(source, rule)} ORDER BY {_order(len(rule.shared))} LIMIT {MOST_KEYS}"


def bad_keys(source: str, rule: RowRule, keys: Sequence[str]) -> str:
    """The keys of the first bad rows."""
    return f"SELECT {', '.join(keys)} FROM {source} WHERE {rule.bad} ORDER BY {_order(len(keys))} LIMIT {MOST_KEYS}"


def extent(source: str, rule: RowRule) -> str:
    """One row: how many integers there are, the least and the greatest."""
    value = rule.shared[0]
    return f"SELECT count({value}), min({value}), max({value}) FROM {source}"


def fits_in_bits(count: int, low: int, high: int) -> bool:
    """Whether one bit for each integer between takes little memory, and not much more than the integers themselves."""
    return high - low < min(_MOST_BITS, 64 * count + _FEW_BITS)


def comparable(kind: Kind, other: Kind) -> bool:
    numbers = {Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL}
    moments = {Kind.NAIVE, Kind.AWARE, Kind.DATETIME, Kind.DATE}
    return kind is other or Kind.NULL in {kind, other} or {kind, other} <= numbers or {kind, other} <= moments


def _groups(source: str, rule: RowRule) -> str:
    present = " AND ".join(f"{value} IS NOT NULL" for value in rule.shared)
    return f"FROM {source} WHERE {present} GROUP BY {', '.join(rule.shared)} HAVING count(*) > 1"


def _order(columns: int) -> str:
    return ", ".join(str(number + 1) for number in range(columns))
