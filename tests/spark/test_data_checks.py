"""Data checks of Spark tasks: every rule on Spark itself, and attempts whose staging branch is checked before it is published."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import table_cases
from tests.support.table_cases import CASES, Case

from perago.spark import session
from perago.spark.driver import Driver
from perago.spark.tables import SETTINGS, SparkTables


@pytest.fixture
def opened(driver: Driver) -> Iterator[session.AttemptSession]:
    made = driver.session(SETTINGS)
    yield made
    made.close()


def run_cases(made: session.AttemptSession, tmp_path: Path) -> None:
    """All in one test: the first query of a driver takes longer than all the others."""
    for number, case in enumerate(CASES):
        if case.only in {"", "spark"}:
            require_case(case, made, tmp_path / str(number))


def require_case(case: Case, made: session.AttemptSession, root: Path) -> None:
    table_cases.prepare(root, case)
    tables = SparkTables(lambda: made, f"file://{root}/", table_cases.sizes(root), lambda _path: False)
    table_cases.require_expected(case, table_cases.measure(case, tables))


def test_every_rule_on_spark(opened: session.AttemptSession, tmp_path: Path) -> None:
    run_cases(opened, tmp_path)
