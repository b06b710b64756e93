"""Evaluates the checks of tables through the port: the figures of each table, and its violations."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perago.data_checks import aggregation, comparison, declaration_digest, pandera_schema, row_rules, table_files, wording
from perago.data_checks.port import Measured, OpenTable, Previous, Tables, UnreadableTable
from perago.data_checks.row_rules import CompiledRules, Reference, RowRule
from perago.declare.tables.column_types import Kind
from perago.declare.tables.require_table import RequireTable, is_pandera


def grouped(checks: Sequence[RequireTable]) -> list[list[RequireTable]]:
    """The checks of each table: they are evaluated together."""
    found: dict[tuple[str, str | None], list[RequireTable]] = {}
    for check in checks:
        found.setdefault((check.name, check.format), []).append(check)
    return list(found.values())


def previous(check: RequireTable, tables: Tables) -> Previous | None:
    """The table as it is now, for a comparison after the body; None if there is none that can be read."""
    try:
        table = tables.open(table_files.find(check.name, check.format, tables.files()), frozenset())
        return Previous(_count(tables, table), table.columns)
    except (UnreadableTable, table_files.NoTable):
        return None


def evaluate(
    checks: Sequence[RequireTable], tables: Tables, before: Previous | None = None, recorded: Measured | None = None
) -> Measured:
    """Evaluate the checks of one table.

    `before` is the table of the input commit as far as it is known, `recorded` what that commit says about its own checks.
    """
    started = time.monotonic()
    digest = declaration_digest.of(checks, tables.dialect.name)
    if digest and recorded is not None and recorded.declaration == digest and _is_unchanged(checks, tables):
        seconds = time.monotonic() - started
        return Measured(recorded.table, recorded.rows, recorded.rules, recorded.bad, seconds, digest, unchanged=True)
    if before is None and recorded is not None and recorded.rows is not None:
        before = Previous(recorded.rows)
    done = _Evaluation(checks, tables, before).run()
    return Measured(
        checks[0].name,
        done.rows,
        len(done.names),
        done.bad,
        time.monotonic() - started,
        digest,
        violations=tuple(done.violations),
    )


def _is_unchanged(checks: Sequence[RequireTable], tables: Tables) -> bool:
    """Whether nothing that the checks look at differs from the input commit, for which they held."""
    referred = {path for check in checks for path in declaration_digest.referred_tables(check)}
    same_rows = all(comparison.allows_no_change(check.rows_change) for check in checks)
    return same_rows and all(tables.is_unchanged(path) for path in {checks[0].name, *referred})


@dataclass(slots=True)
class _Evaluation:
    """One table. Violations are in the order of the declarations."""

    checks: Sequence[RequireTable]
    tables: Tables
    before: Previous | None
    rows: int | None = None
    names: list[str] = field(default_factory=list[str])
    bad: dict[str, int] = field(default_factory=dict[str, int])
    violations: list[str] = field(default_factory=list[str])

    def run(self) -> "_Evaluation":
        try:
            table = self._open()
            self._evaluate(table)
        except (UnreadableTable, table_files.NoTable) as reason:
            self.violations.append(f"{self.checks[0]} {wording.unreadable(reason)}")
        return self

    def _open(self) -> OpenTable:
        files = table_files.find(self.checks[0].name, self.checks[0].format, self.tables.files())
        declared = frozenset(column.path[0] for check in self.checks for column in check.columns())
        return self.tables.open(files, declared)

    def _evaluate(self, table: OpenTable) -> None:
        dialect = self.tables.dialect
        typed = {} if table.columns is None else row_rules.typed_columns(self.checks, table, dialect)
        compiled = [
            row_rules.RuleCompiler(check, table, dialect, typed, f"r{number}_").compile()
            for number, check in enumerate(self.checks)
        ]
        source = aggregation.Source(table, typed, dialect)
        evaluable = [
            [rule for rule in rules.row_rules if self._is_evaluable(check, rule, source)]
            for check, rules in zip(self.checks, compiled, strict=True)
        ]
        found = self._count_bad(source, [rule for rules in evaluable for rule in rules], table)
        for check, rules, kept in zip(self.checks, compiled, evaluable, strict=True):
            self._judge(check, rules, kept, source, found)
            self._judge_table(check, table)

    # counting

    def _is_evaluable(self, check: RequireTable, rule: RowRule, source: aggregation.Source) -> bool:
        """Whether the engine can analyse it; otherwise that is a violation. Nothing is read."""
        if not rule.is_expression and rule.refers is None:
            return True
        try:
            self.tables.query(f"SELECT {rule.bad} FROM {self._from(source, [rule])} LIMIT 0")
        except (UnreadableTable, table_files.NoTable) as reason:
            self.names.append(rule.name)
            self.violations.append(f"{check} {wording.not_evaluable(rule.name, reason)}")
            return False
        return True

    def _count_bad(self, source: aggregation.Source, rules: Sequence[RowRule], table: OpenTable) -> dict[int, int]:
        """Bad rows by the id of the rule; the number of rows is kept."""
        if table.columns is None:
            self.rows = 0
            return {id(rule): 0 for rule in rules}
        plain = [rule for rule in rules if not rule.shared]
        try:
            found = self._count_together(source, plain)
        except UnreadableTable:
            found = self._count_one_by_one(source, plain)
        for rule in rules:
            if rule.shared:
                found[id(rule)] = self._count_shared(source.sql([]), rule)
        return found

    def _count_shared(self, source: str, rule: RowRule) -> int:
        """Rows that share their values. Integers close together are first counted by bits, in a fraction of the time."""
        if rule.is_integer:
            count, low, high = self.tables.query(aggregation.extent(source, rule))[0]
            if count and aggregation.fits_in_bits(count, low, high):
                query = self.tables.dialect.distinct_integers.format(value=rule.shared[0], low=low, high=high, source=source)
                if self.tables.query(query)[0][0] == count:
                    return 0
        return int(self.tables.query(aggregation.shared_counts(source, rule))[0][0])

    def _count_together(self, source: aggregation.Source, rules: Sequence[RowRule]) -> dict[int, int]:
        total, *numbers = self.tables.query(aggregation.counts(self._from(source, rules), rules))[0]
        self.rows = int(total)
        return {id(rule): int(number) for rule, number in zip(rules, numbers, strict=True)}

    def _count_one_by_one(self, source: aggregation.Source, rules: Sequence[RowRule]) -> dict[int, int]:
        """After a value broke the one query, as a division by zero does: the other rules are still evaluated."""
        found = self._count_together(source, [])
        for rule in rules:
            try:
                found |= self._count_together(source, [rule])
            except UnreadableTable as reason:
                self.violations.append(f"{self.checks[0]} {wording.not_evaluable(rule.name, reason)}")
        return found

    def _from(self, source: aggregation.Source, rules: Sequence[RowRule]) -> str:
        references = [rule.refers for rule in rules if rule.refers is not None]
        return source.sql([(reference, self._allowed(reference)) for reference in references])

    def _allowed(self, reference: Reference) -> str:
        other = self.tables.open(table_files.find(reference.path, reference.format, self.tables.files()), frozenset())
        found = next((column.type for column in other.columns or () if column.name == reference.column), None)
        if found is None:
            raise UnreadableTable(f"{reference.path} has no column {reference.column}")
        is_text = other.is_text or reference.column in other.text_columns
        if not is_text and not aggregation.comparable(reference.kind, found.kind):
            raise UnreadableTable(f"column {reference.column} of {reference.path} has type {found}, not {reference.kind.value}")
        dialect = self.tables.dialect
        read_as = None
        if is_text and found.kind is not reference.kind and reference.kind is not Kind.ANY:
            read_as = (
                f"TRY_CAST(CAST({dialect.quoted(reference.column)} AS {dialect.text}) AS {dialect.type_name(reference.kind)})"
            )
        return aggregation.allowed_values(dialect, other.view, reference.column, read_as)

    # judging

    def _judge(
        self,
        check: RequireTable,
        rules: CompiledRules,
        kept: Sequence[RowRule],
        source: aggregation.Source,
        found: dict[int, int],
    ) -> None:
        self.names += rules.names
        self.violations += [f"{check} {what}" for _, what in rules.broken]
        for rule in kept:
            bad = found.get(id(rule), 0)
            if bad:
                self.bad[rule.name] = bad
            if self.rows is not None and bad > check.max_bad * self.rows:
                examples = self._examples(check, rule, source) if check.keys else ""
                self.violations.append(
                    f"{check} {wording.bad_rows(bad, self.rows, rule.says, examples, check.max_bad, self.before)}"
                )

    def _judge_table(self, check: RequireTable, table: OpenTable) -> None:
        rows = self.rows or 0
        for name, what in comparison.problems(check, rows, table.columns, self.before):
            self.names.append(name)
            if what is not None:
                self.violations.append(f"{check} {what}")
        if check.schema is not None and is_pandera(check.schema):
            self.names.append("pandera")
            found = pandera_schema.failures(check.schema, self.tables.frame(table))
            self.violations += [f"{check} {what}" for what in found]

    def _examples(self, check: RequireTable, rule: RowRule, source: aggregation.Source) -> str:
        """The keys of some bad rows; nothing if there is no key, or the engine cannot tell."""
        names, keys = _key(check, self.tables)
        try:
            if rule.shared:
                query = aggregation.shared_examples(source.sql([]), rule)
                return wording.keys([], self.tables.query(query))
            if not keys:
                return ""
            return wording.keys(names, self.tables.query(aggregation.bad_keys(self._from(source, [rule]), rule, keys)))
        except UnreadableTable:
            return ""


def _key(check: RequireTable, tables: Tables) -> tuple[list[str], list[str]]:
    """The names of the columns that distinguish rows, and their expressions."""
    paths = [(name,) for name in check.key_columns]
    if not paths:
        unique = [column.path for column in check.columns() for rule in column.rules if type(rule).__name__ == "Unique"]
        paths = unique[:1]
    return [".".join(path) for path in paths], [tables.dialect.field(row_rules.ALIAS, path) for path in paths]


def _count(tables: Tables, table: OpenTable) -> int:
    if table.columns is None:
        return 0
    rows: Sequence[tuple[Any, ...]] = tables.query(f"SELECT count(*) FROM {table.view}")
    return int(rows[0][0])


Recorded = Mapping[str, Measured]
"""By table: what the input commit says about its own checks."""
