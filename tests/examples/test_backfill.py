"""The tasks of the backfill and its pipelines, on three days, without servers."""

from datetime import date

import pytest
from examples.backfill import one_by_one, pipeline, recompute, select_days, summarise
from tests.examples import flights

from perago.testing import run_pipeline, run_task


def test_days_are_named_in_order_and_each_must_have_flights() -> None:
    run = run_task(select_days, files=flights.files(), params={"count": 3})
    assert run.result == {"days": list(flights.DAYS)}, run.report()
    run = run_task(select_days, files=flights.files(), params={"first_day": "2013-01-02", "count": 4})
    assert run.reason.startswith("2 of 4 days have no flights, the first is 2013-01-04"), run.report()


def test_a_partition_joins_the_five_tables() -> None:
    run = run_task(recompute, files=flights.files(), params={"day": "2013-01-01", "plus_days": 1})
    assert run.result == {"day": "2013-01-02", "departures": 2, "cancelled": 1}, run.report()
    assert run.added == ["daily/2013-01-02.csv"]
    header, *rows = run.text("daily/2013-01-02.csv").splitlines()
    assert header.startswith("carrier,airline,departures,cancelled,")
    assert rows == ["AA,American,1,1,2.00,10.00,100.00,,0,Miami", "B6,JetBlue,1,0,0.00,,,12.50,1,XXX"]


def test_summary_refuses_a_partition_that_does_not_hold_what_its_lane_reported() -> None:
    made = run_task(recompute, files=flights.files(), params={"day": "2013-01-01"})
    assert made.result is not None, made.report()
    run = run_task(summarise, files=made.files, params={"recomputed": [made.result]})
    assert run.result == {
        "partitions": 1,
        "departures": 3,
        "cancelled": 0,
        "worst_day": "2013-01-01",
        "busiest_airline": "American",
    }, run.report()
    run = run_task(summarise, files=made.files, params={"recomputed": [made.result, {**made.result, "day": "2013-01-02"}]})
    assert run.reason.startswith("2013-01-02 has 0 departures, but its lane reported 3"), run.report()


@pytest.fixture(scope="module")
def partitions() -> list[str]:
    return [f"flights/daily/{day}.csv" for day in flights.DAYS]


def test_days_are_recomputed_in_lanes_and_joined(partitions: list[str]) -> None:
    run = run_pipeline(pipeline.backfill, files=flights.files("flights/"), inputs={"count": 3})
    assert run.ok, run.report()
    assert run.added == partitions
    assert run.changed == run.deleted == []
    assert run.result == pipeline.Summary(partitions=3, departures=8, worst_day=date(2013, 1, 2))


def test_the_loop_makes_the_same_partitions(partitions: list[str]) -> None:
    lanes = run_pipeline(pipeline.backfill, files=flights.files("flights/"), inputs={"count": 3})
    loop = run_pipeline(one_by_one.one_by_one, files=flights.files("flights/"), inputs={"count": 3})
    assert loop.ok, loop.report()
    assert loop.result.last_day == date(2013, 1, 3)
    assert [loop.text(path) for path in partitions] == [lanes.text(path) for path in partitions]


def test_a_day_without_flights_ends_the_pipeline_before_any_lane() -> None:
    run = run_pipeline(pipeline.backfill, files=flights.files("flights/"), inputs={"count": 4})
    assert run.reason.startswith("select_days: 1 of 4 days have no flights, the first is 2013-01-04"), run.report()
    assert run.added == []
