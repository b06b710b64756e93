"""Step 3: a read-only task that reads all partitions after the join, and compares them with what the lanes reported."""

import csv
from collections import Counter
from datetime import date
from pathlib import Path

from examples.backfill.controls import QUICK_RETRY
from examples.backfill.recompute import Output as Recomputed
from pydantic import BaseModel

from perago import TaskTerminalError, WorkspaceSpec, require_glob, task


class Params(BaseModel):
    recomputed: list[Recomputed]


class Output(BaseModel):
    partitions: int
    departures: int
    cancelled: int
    worst_day: date
    busiest_airline: str


@task(
    name="backfill.summarise",
    owner_email="data@example.com",
    description="Total the partitions and check that none is missing.",
    workspace=WorkspaceSpec(prefix="/flights", read_only=True, pre=[require_glob("daily/*.csv")]),
    controls=QUICK_RETRY,
)
def summarise(workspace: Path, params: Params) -> Output:
    airlines: Counter[str] = Counter()
    for day in params.recomputed:
        partition = workspace / "daily" / f"{day.day}.csv"
        counted = departures_by_airline(partition) if partition.exists() else Counter[str]()
        if counted.total() != day.departures:
            raise TaskTerminalError(f"{day.day} has {counted.total()} departures, but its lane reported {day.departures}")
        airlines += counted
    worst = max(params.recomputed, key=lambda day: (day.cancelled, day.day))
    busiest = min(airlines, key=lambda name: (-airlines[name], name))
    return Output(
        partitions=len(params.recomputed),
        departures=airlines.total(),
        cancelled=sum(day.cancelled for day in params.recomputed),
        worst_day=worst.day,
        busiest_airline=busiest,
    )


def departures_by_airline(partition: Path) -> Counter[str]:
    with partition.open(newline="", encoding="utf-8") as file:
        return Counter({row["airline"]: int(row["departures"]) for row in csv.DictReader(file)})
