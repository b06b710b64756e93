"""Step 2, once per day: joins the day's flights with the four other tables and writes one partition."""

import csv
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from examples.backfill.controls import QUICK_RETRY
from pydantic import BaseModel, Field

from perago import WorkspaceSpec, require_file, require_glob, task

Row = Mapping[str, str]
TABLES = ("airlines", "airports", "planes", "weather")


class CarrierRow(NamedTuple):
    """A line of a partition."""

    carrier: str
    airline: str
    departures: int
    cancelled: int
    mean_departure_delay: str
    mean_arrival_delay: str
    mean_seats: str
    mean_wind_speed: str
    wet_departures: int
    most_frequent_destination: str


class Params(BaseModel):
    day: date
    plus_days: int = Field(
        default=0, ge=0, description="Added to the day: the number of an iteration, in a pipeline with a loop."
    )


class Output(BaseModel):
    day: date
    departures: int
    cancelled: int


@task(
    name="backfill.recompute",
    owner_email="data@example.com",
    description="Departures and delays of one day by carrier, with planes and weather.",
    workspace=WorkspaceSpec(
        prefix="/flights",
        pre=[*(require_file(f"raw/{table}.csv") for table in TABLES), require_glob("raw/flights/*.csv")],
        post=[require_glob("daily/*.csv")],
    ),
    controls=QUICK_RETRY,
)
def recompute(workspace: Path, params: Params) -> Output:
    day = params.day + timedelta(days=params.plus_days)
    raw = workspace / "raw"
    flights = list(rows_of(raw / "flights" / f"{day}.csv"))
    partition = workspace / "daily" / f"{day}.csv"
    partition.parent.mkdir(exist_ok=True)
    with partition.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(CarrierRow._fields)
        writer.writerows(by_carrier(flights, raw, day))
    cancelled = sum(is_missing(flight["dep_time"]) for flight in flights)
    return Output(day=day, departures=len(flights) - cancelled, cancelled=cancelled)


def by_carrier(flights: Sequence[Row], raw: Path, day: date) -> Iterator[CarrierRow]:
    """One row for each carrier of the day, in alphabetical order."""
    airlines = {row["carrier"]: row["name"] for row in rows_of(raw / "airlines.csv")}
    airports = {row["faa"]: row["name"] for row in rows_of(raw / "airports.csv")}
    seats = {row["tailnum"]: row["seats"] for row in rows_of(raw / "planes.csv")}
    weather = weather_around(raw / "weather.csv", day)
    groups: defaultdict[str, list[Row]] = defaultdict(list)
    for flight in flights:
        groups[flight["carrier"]].append(flight)
    for carrier, group in sorted(groups.items()):
        departed = [flight for flight in group if not is_missing(flight["dep_time"])]
        conditions = [weather.get((flight["origin"], flight["time_hour"]), {}) for flight in departed]
        destination = most_frequent(flight["dest"] for flight in group)
        yield CarrierRow(
            carrier=carrier,
            airline=airlines[carrier],
            departures=len(departed),
            cancelled=len(group) - len(departed),
            mean_departure_delay=mean(flight["dep_delay"] for flight in departed),
            mean_arrival_delay=mean(flight["arr_delay"] for flight in departed),
            mean_seats=mean(seats.get(flight["tailnum"], "") for flight in departed),
            mean_wind_speed=mean(hour.get("wind_speed", "") for hour in conditions),
            wet_departures=sum(float(hour.get("precip") or 0) > 0 for hour in conditions),
            most_frequent_destination=airports.get(destination, destination),
        )


def weather_around(table: Path, day: date) -> Mapping[tuple[str, str], Row]:
    """By airport and hour. The hours are in UTC, so a day in New York ends on the next day of the table."""
    wanted = tuple(str(day + timedelta(days=number)) for number in (0, 1))
    return {(row["origin"], row["time_hour"]): row for row in rows_of(table) if row["time_hour"].startswith(wanted)}


def rows_of(table: Path) -> Iterator[Row]:
    with table.open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def is_missing(value: str) -> bool:
    return value in {"", "NA"}


def mean(values: Iterator[str]) -> str:
    """With two decimals; empty if no value is known."""
    known = [float(value) for value in values if not is_missing(value)]
    return f"{fmean(known):.2f}" if known else ""


def most_frequent(values: Iterator[str]) -> str:
    """Ties are broken alphabetically, so that a retry gives the same result."""
    counted = Counter(values)
    return min(counted, key=lambda value: (-counted[value], value))
