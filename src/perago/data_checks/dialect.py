"""The SQL that DuckDB and Spark share, and the few places where they differ."""

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from perago.declare.tables import patterns
from perago.declare.tables.column_types import Kind


@dataclass(frozen=True, slots=True)
class Dialect:
    name: str
    quote: str
    """Around names."""
    text: str
    """The type of text."""
    full_match: str
    """Whether all of {value} matches the pattern, which is {pattern} as a literal."""
    naive: str
    """The type of a datetime without a time zone, which begins a literal too."""
    aware: str
    distinct_integers: str
    """A query of how many different integers {value} has from {low} to {high} in {source}, in memory for one bit each."""
    has_escapes: bool = False
    """A backslash in a literal of text begins an escape."""
    pattern_prefix: str = ""
    pattern_suffix: str = ""

    def quoted(self, name: str) -> str:
        return f"{self.quote}{name.replace(self.quote, self.quote * 2)}{self.quote}"

    def field(self, alias: str, path: tuple[str, ...]) -> str:
        return ".".join([alias, *(self.quoted(name) for name in path)])

    def literal(self, value: object) -> str:  # noqa: PLR0911  one line per type
        if isinstance(value, bool):
            return str(value).upper()
        if isinstance(value, datetime):
            kind = self.naive if value.tzinfo is None else self.aware
            return f"{kind} '{value.isoformat(sep=' ')}'"
        if isinstance(value, date):
            return f"DATE '{value.isoformat()}'"
        if isinstance(value, float):
            return f"CAST('{value!r}' AS DOUBLE)"
        if isinstance(value, Decimal):
            return f"CAST('{value:f}' AS DECIMAL(38, {_scale(value)}))"
        if isinstance(value, int):
            return str(value) if abs(value) < 1 << 63 else f"CAST('{value}' AS DECIMAL(38, 0))"
        return self.text_literal(str(value))

    def text_literal(self, value: str) -> str:
        """Spark reads escapes in a literal, DuckDB does not."""
        if self.has_escapes:
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return "'" + value.replace("'", "''") + "'"

    def matches(self, value: str, pattern: str) -> str:
        whole = f"{self.pattern_prefix}{patterns.core(pattern)}{self.pattern_suffix}"
        return self.full_match.format(value=value, pattern=self.text_literal(whole))

    def type_name(self, kind: Kind) -> str:
        """The type that a text of this kind is read as."""
        return {
            Kind.INTEGER: "BIGINT",
            Kind.FLOAT: "DOUBLE",
            Kind.DECIMAL: "DECIMAL(38, 10)",
            Kind.BOOLEAN: "BOOLEAN",
            Kind.DATE: "DATE",
            Kind.NAIVE: self.naive,
            Kind.AWARE: self.aware,
            Kind.DATETIME: self.aware,
        }.get(kind, self.text)


DUCKDB = Dialect(
    "duckdb",
    '"',
    "VARCHAR",
    "regexp_full_match({value}, {pattern})",
    "TIMESTAMP",
    "TIMESTAMPTZ",
    "SELECT bit_count(bitstring_agg(CAST({value} AS BIGINT), {low}, {high})) FROM {source}",
)
SPARK = Dialect(
    "spark",
    "`",
    "STRING",
    "({value} RLIKE {pattern})",
    "TIMESTAMP_NTZ",
    "TIMESTAMP_LTZ",
    "SELECT sum(bitmap_count(b)) FROM (SELECT bitmap_construct_agg(bitmap_bit_position(CAST({value} AS BIGINT))) AS b "
    "FROM {source} WHERE {value} IS NOT NULL GROUP BY bitmap_bucket_number(CAST({value} AS BIGINT))) g",
    has_escapes=True,
    # Java's `.` and `$` treat several characters as ends of lines unless told not to.
    pattern_prefix=r"(?d)\A(?:",
    pattern_suffix=r")\z",
)

_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)"
_MOMENT = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?"
_ZONE = "(Z|[+-][0-9]{2}:[0-9]{2})"
TEXT_PATTERNS = {
    Kind.INTEGER: "[+-]?[0-9]+",
    Kind.FLOAT: f"{_NUMBER}([eE][+-]?[0-9]+)?|[+-]?(nan|NaN|inf|Infinity)",
    Kind.DECIMAL: _NUMBER,
    Kind.BOOLEAN: "true|false|True|False|TRUE|FALSE",
    Kind.DATE: "[0-9]{4}-[0-9]{2}-[0-9]{2}",
    Kind.NAIVE: _MOMENT,
    Kind.AWARE: f"{_MOMENT} ?{_ZONE}",
    Kind.DATETIME: f"{_MOMENT} ?{_ZONE}?",
}
"""What a text of each kind looks like. The engines' own conversions differ: one reads '1.5' as the integer 2, another as none."""


def _scale(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0
