"""Data checks of Spark tasks: every rule on Spark itself, and attempts whose staging branch is checked before it is published."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import pytest
from hypothesis import HealthCheck, given, settings
from tests.support import table_cases
from tests.support.random_tables import RandomTable, random_tables
from tests.support.spark import SparkHarness
from tests.support.table_cases import CASES, Case

from perago import Between, In, SparkWorkspace, Table, Unique, events, require_table
from perago.attempt.port import DataChecks
from perago.data_checks import evaluate
from perago.errors import TaskStatus
from perago.spark import session
from perago.spark.driver import Driver
from perago.spark.tables import SETTINGS, SparkTables


@pytest.fixture(scope="module")
def opened(driver: Driver) -> Iterator[session.AttemptSession]:
    made = driver.session(SETTINGS)
    yield made
    made.close()


def tables_of(made: session.AttemptSession, root: Path) -> SparkTables:
    return SparkTables(lambda: made, f"file://{root}/", table_cases.sizes(root), lambda _path: False)


def run_cases(made: session.AttemptSession, tmp_path: Path) -> None:
    """All in one test: the first query of a driver takes longer than all the others."""
    for number, case in enumerate(CASES):
        if case.only in {"", "spark"}:
            require_case(case, made, tmp_path / str(number))


def require_case(case: Case, made: session.AttemptSession, root: Path) -> None:
    table_cases.prepare(root, case)
    table_cases.require_expected(case, table_cases.measure(case, tables_of(made, root)))


def require_same_as_python(table: RandomTable, made: session.AttemptSession, root: Path) -> None:
    table.write(root)
    measured = evaluate.evaluate([table.check()], tables_of(made, root))
    assert dict(measured.bad) == table.bad(), measured.violations
    assert measured.rows == len(table.rows)


def test_every_rule_on_spark(opened: session.AttemptSession, tmp_path: Path) -> None:
    run_cases(opened, tmp_path)


@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])
@given(table=random_tables())
def test_counts_are_those_of_plain_python(
    table: RandomTable, opened: session.AttemptSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    require_same_as_python(table, opened, tmp_path_factory.mktemp("random"))


@pytest.mark.chaos
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(table=random_tables())
def test_counts_of_many_tables_are_those_of_plain_python(
    table: RandomTable, opened: session.AttemptSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    require_same_as_python(table, opened, tmp_path_factory.mktemp("random"))


# attempts on a staging branch


class Row(Table):
    id: Annotated[int, Unique(), Between(0, 9)]
    kind: Annotated[str, In("kinds", "kind")]


CHECKS = DataChecks([require_table("out", Row, rows=(1, None)), require_table("out", rows_change=(0.5, 2))], prefix="in/")


def write(workspace: SparkWorkspace, form: str = "parquet", extra: int = 0) -> dict[str, int]:
    rows = workspace.spark.range(10 + extra).selectExpr("id", "if(id % 2 = 0, 'a', 'b') AS kind")
    rows.write.mode("overwrite").format(form).save(workspace.output("out"))
    rows.selectExpr("kind").distinct().write.mode("overwrite").csv(workspace.output("kinds"), header=True)
    return {"rows": 10 + extra}


def checked(harness: SparkHarness) -> list[events.TableChecked]:
    return [event for event in harness.scene.heard if isinstance(event, events.TableChecked)]


@pytest.mark.parametrize("form", ["parquet", "orc", "delta"])
def test_what_holds_is_published_with_its_figures_and_not_evaluated_again(harness: SparkHarness, form: str) -> None:
    outcome = harness.run(lambda workspace: write(workspace, form), data={"post": CHECKS})
    assert outcome.status is TaskStatus.COMPLETED, outcome.reason
    labels = json.loads(harness.head().metadata["perago.table.in/out"])
    assert (labels["rows"], "bad" in labels) == (10, False)
    (first,) = checked(harness)
    assert (first.rows, first.violations, first.unchanged) == (10, 0, False)

    harness.scene.a = harness.head().id
    held = {"pre": replace(CHECKS, tables=CHECKS.tables[:1]), "post": CHECKS}
    outcome = harness.run(lambda workspace: workspace.write_text("note", "x"), data=held)
    assert outcome.status is TaskStatus.COMPLETED, outcome.reason
    # The check before the body is another declaration: it has no comparison.
    assert [event.unchanged for event in checked(harness)[1:]] == [False, True]
    assert json.loads(harness.head().metadata["perago.table.in/out"])["rows"] == 10


def test_what_does_not_hold_is_not_published(harness: SparkHarness) -> None:
    a = harness.csv("raw/rows.csv")
    outcome = harness.run(lambda workspace: write(workspace, extra=3), data={"post": CHECKS})
    assert outcome.status is TaskStatus.FAILED
    assert outcome.reason == (
        "post guardrail require_table('out') 3 of 13 rows are not between 0 and 9 in column id: id 10, 11, 12"
    )
    assert harness.head().id == a
    assert checked(harness)[0].bad == {"id between": 3}


def test_data_that_the_body_has_cached_is_not_what_is_checked(harness: SparkHarness) -> None:
    """The body caches a table, then replaces its file without Spark's knowledge."""

    def body(workspace: SparkWorkspace) -> object:
        write(workspace)
        seen = workspace.spark.read.parquet(workspace.output("out")).cache().count()
        for path in workspace.list("out/**"):
            workspace.write_text(path, "no Parquet")
        return {"rows": seen}

    outcome = harness.run(body, data={"post": CHECKS})
    assert outcome.status is TaskStatus.FAILED
    assert "require_table('out') cannot be evaluated: " in str(outcome.reason)


def test_own_checks_get_what_the_body_gets(harness: SparkHarness) -> None:
    def few(workspace: SparkWorkspace) -> Iterator[str]:
        rows = workspace.spark.read.parquet(workspace.output("out")).count()
        if rows > 5:
            yield f"has {rows} rows"

    def broken(workspace: SparkWorkspace) -> list[str]:
        raise ValueError(workspace.read_text("kinds-of-rows"))

    outcome = harness.run(write, data={"post": DataChecks(custom=[few, broken])})
    assert outcome.status is TaskStatus.FAILED
    assert str(outcome.reason).startswith(
        "post guardrail few has 10 rows | post guardrail broken cannot be evaluated: FileNotFoundError: there is no file"
    )
    assert any("in broken" in line for line in outcome.log)
