"""Rules as conditions of SQL that are true for a bad row, and what can be said without reading a row."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from perago.data_checks.dialect import TEXT_PATTERNS, Dialect
from perago.data_checks.port import OpenTable
from perago.declare.tables import column_types, rules
from perago.declare.tables.column_types import Column, ColumnType, Kind
from perago.declare.tables.require_table import RequireTable
from perago.declare.tables.table import DeclaredColumn

ALIAS = "t"
"""Of the table in every condition."""
_NESTED = {Kind.LIST, Kind.MAP, Kind.STRUCT}


@dataclass(frozen=True, slots=True)
class RowRule:
    """A rule that rows can break."""

    name: str
    """Short, for logs and commits: `quantity between`."""
    says: str
    """What a bad row is like, after `3 of 10 rows`."""
    bad: str
    """The condition of a bad row, never null for one."""
    refers: "Reference | None" = None
    """The other table that the condition needs, joined under the reference's alias."""
    shared: tuple[str, ...] = ()
    """Expressions that no two rows may share; then `bad` is empty."""
    present: str = ""
    """An expression that is null for a bad row and for no other: to count its values costs no more than to read them."""
    is_integer: bool = False
    """Whether `shared` is one integer."""
    is_expression: bool = False
    """Whether `bad` holds SQL of the author."""

    @property
    def count(self) -> str:
        """The number of bad rows, as an aggregate."""
        return f"count(*) - count({self.present})" if self.present else f"count(*) FILTER (WHERE {self.bad})"


@dataclass(frozen=True, slots=True)
class Reference:
    path: str
    format: str | None
    column: str
    alias: str
    value: str
    """The expression whose value has to be in that column."""
    kind: Kind


@dataclass(slots=True)
class CompiledRules:
    """The rules of one `require_table` on a table with known columns."""

    row_rules: list[RowRule] = field(default_factory=list[RowRule])
    broken: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Column or rule, and what is wrong with it, found without reading a row."""
    names: list[str] = field(default_factory=list[str])
    """Of all rules."""


def typed_columns(checks: Sequence[RequireTable], table: OpenTable, dialect: Dialect) -> dict[str, str]:
    """By column that is text and is declared with another type: the expression of its value, null if it is not readable so."""
    found: dict[str, str] = {}
    for column in (column for check in checks for column in check.columns() if len(column.path) == 1):
        name = column.path[0]
        at = _find(table.columns or (), column.path)
        if at is not None and name not in found and _needs_reading(column.type, at, table, name):
            found[name] = _read_as(dialect, dialect.quoted(name), column.type.kind)
    return found


def raw_name(name: str) -> str:
    """The column that keeps the text of a typed one."""
    return f"__perago_text_{name}"


@dataclass(slots=True)
class RuleCompiler:
    """Compiles the declared columns of one check."""

    check: RequireTable
    table: OpenTable
    dialect: Dialect
    typed: dict[str, str]
    prefix: str
    """Of the aliases of references."""
    done: CompiledRules = field(default_factory=CompiledRules)

    def compile(self) -> CompiledRules:
        columns = self.check.columns()
        if self.table.columns is not None:
            for column in columns:
                self._column(column)
            self._unknown_columns(columns)
            self._key()
        for name, expression in (self.check.where or {}).items():
            bad = f"NOT ({expression})"
            self._add(RowRule(f"where {name}", f"are not {name!r} ({expression})", bad, is_expression=True))
        return self.done

    def _add(self, rule: RowRule) -> None:
        self.done.names.append(rule.name)
        self.done.row_rules.append(rule)

    def _break(self, name: str, what: str) -> None:
        self.done.names.append(name)
        self.done.broken.append((name, what))

    def _column(self, column: DeclaredColumn) -> None:
        found = _find(self.table.columns or (), column.path)
        if found is None:
            if len(column.path) == 1 or _find(self.table.columns or (), column.path[:-1]) is not None:
                self._break(f"{column.name} missing", f"column {column.name} is missing")
            return
        value, text = self._expressions(column, found)
        if value is None:
            self._break(f"{column.name} type", f"column {column.name} has type {found}, not {column.type}")
            return
        self.done.names.append(f"{column.name} type")
        if text is not None:
            self._type_rule(column, value, text)
        self._null_rule(column, text or value)
        for rule in column.rules:
            self._rule(column, rule, value, found)

    def _expressions(self, column: DeclaredColumn, found: ColumnType) -> tuple[str | None, str | None]:
        """The value, and the text that it is read from where that may fail; no value where the type is another one."""
        dialect = self.dialect
        expression = dialect.field(ALIAS, column.path)
        top = column.path[0]
        if not _needs_reading(column.type, found, self.table, top):
            return (expression if column_types.accepts(column.type, found) else None), None
        if column.type.kind in {Kind.TEXT, Kind.BYTES}:
            return f"CAST({expression} AS {dialect.text})", None
        if len(column.path) == 1 and top in self.typed:
            text = f"CAST({dialect.field(ALIAS, (raw_name(top),))} AS {dialect.text})"
            return expression, text
        return _read_as(dialect, expression, column.type.kind), f"CAST({expression} AS {dialect.text})"

    def _type_rule(self, column: DeclaredColumn, value: str, text: str) -> None:
        looks = self.dialect.matches(text, TEXT_PATTERNS[column.type.kind])
        bad = f"{text} IS NOT NULL AND NOT ({looks} AND {value} IS NOT NULL)"
        self.done.row_rules.append(RowRule(f"{column.name} type", f"have no {column.type} in column {column.name}", bad))

    def _null_rule(self, column: DeclaredColumn, value: str) -> None:
        if column.nullable:
            return
        says, bad = f"have null in column {column.name}", f"{value} IS NULL"
        if len(column.path) == 1:
            self._add(RowRule(f"{column.name} null", says, bad, present=value))
        else:
            around = self.dialect.field(ALIAS, column.path[:-1])
            self._add(RowRule(f"{column.name} null", says, f"{around} IS NOT NULL AND {bad}"))

    def _rule(self, column: DeclaredColumn, rule: rules.Rule, value: str, found: ColumnType) -> None:
        dialect, name = self.dialect, column.name
        match rule:
            case rules.Between():
                says = f"are not {_range(rule)} in column {name}"
                self._add(
                    RowRule(f"{name} between", says, " OR ".join(_outside(dialect, rule, value, found.kind, column.type.kind)))
                )
            case rules.OneOf():
                listed = ", ".join(dialect.literal(one) for one in rule.values)
                shown = ", ".join(map(repr, rule.values[:5])) + (", …" if len(rule.values) > 5 else "")  # noqa: PLR2004
                self._add(RowRule(f"{name} one of", f"are not one of {shown} in column {name}", f"{value} NOT IN ({listed})"))
            case rules.Matches():
                says = f"do not match {rule.pattern!r} in column {name}"
                self._add(RowRule(f"{name} matches", says, f"NOT {dialect.matches(value, rule.pattern)}"))
            case rules.Unique():
                says = f"share their value in column {name} with another row"
                is_integer = found.kind is Kind.INTEGER and found.bits <= 64  # noqa: PLR2004
                self._add(RowRule(f"{name} unique", says, "", shared=(value,), is_integer=is_integer))
            case rules.In():
                self._reference(name, rule, value, column.type.kind if column.type.kind is not Kind.ANY else found.kind)

    def _reference(self, name: str, rule: rules.In, value: str, kind: Kind) -> None:
        alias = f"{self.prefix}{len(self.done.row_rules)}"
        path = rules.path_text(rule.path)
        reference = Reference(path, rule.format, rule.column, alias, value, kind)
        says = f"refer to nothing in {path}.{rule.column} from column {name}"
        self._add(RowRule(f"{name} in", says, f"{value} IS NOT NULL AND {alias}.found IS NULL", refers=reference))

    def _key(self) -> None:
        columns = self.check.key_columns
        known = {column.name for column in self.table.columns or ()}
        missing = [name for name in columns if name not in known]
        if missing:
            self._break("key", f"column {missing[0]} of its key is missing")
        elif columns:
            shared = tuple(self.dialect.field(ALIAS, (name,)) for name in columns)
            self._add(RowRule("key unique", f"share their {', '.join(columns)} with another row", "", shared=shared))

    def _unknown_columns(self, columns: Sequence[DeclaredColumn]) -> None:
        if self.check.extra or not columns:
            return
        declared = {column.path[0] for column in columns}
        more = [column.name for column in self.table.columns or () if column.name not in declared]
        self.done.names.append("columns")
        if more:
            shown = ", ".join(more[:5]) + (", …" if len(more) > 5 else "")  # noqa: PLR2004
            self.done.broken.append(("columns", f"has columns that are not declared: {shown}"))


def _find(columns: Sequence[Column], path: tuple[str, ...]) -> ColumnType | None:
    at = next((column.type for column in columns if column.name == path[0]), None)
    if at is None or len(path) == 1:
        return at
    return _find(at.fields, path[1:])


def _needs_reading(declared: ColumnType, found: ColumnType, table: OpenTable, top: str) -> bool:
    """Whether the value is text, or nearly so, that has to be read as the declared type."""
    is_text = table.is_text or top in table.text_columns
    if not is_text or declared.kind in _NESTED or found.kind in _NESTED or declared.kind is Kind.ANY:
        return False
    return not column_types.accepts(declared, found)


def _read_as(dialect: Dialect, expression: str, kind: Kind) -> str:
    if kind in {Kind.TEXT, Kind.BYTES}:
        return f"CAST({expression} AS {dialect.text})"
    text = f"CAST({expression} AS {dialect.text})"
    readable = dialect.matches(text, TEXT_PATTERNS[kind])
    return f"CASE WHEN {readable} THEN TRY_CAST({text} AS {dialect.type_name(kind)}) END"


def _outside(dialect: Dialect, rule: rules.Between, value: str, found: Kind, declared: Kind) -> Iterator[str]:
    if rule.low is not None:
        yield f"{value} < {dialect.literal(rule.low)}"
    if rule.high is not None:
        yield f"{value} > {dialect.literal(rule.high)}"
    if Kind.FLOAT in {found, declared}:
        yield f"isnan({value})"


def _range(rule: rules.Between) -> str:
    if rule.low is None:
        return f"at most {rule.high}"
    return f"at least {rule.low}" if rule.high is None else f"between {rule.low} and {rule.high}"
