"""The pipeline: the days are recomputed side by side, each on a branch of its own, and published as one commit."""

from datetime import date

from examples.backfill.recompute import recompute
from examples.backfill.select_days import select_days
from examples.backfill.summarise import summarise
from pydantic import BaseModel

from perago import Flow, pipeline


class Inputs(BaseModel):
    first_day: date = date(2013, 1, 1)
    count: int = 90


class Summary(BaseModel):
    partitions: int
    departures: int
    worst_day: date


@pipeline(name="backfill", owner_email="data@example.com", description="Recompute days of flights, all of them or none.")
def backfill(flow: Flow, inputs: Inputs) -> Summary:
    chosen = flow.step(select_days, first_day=inputs.first_day, count=inputs.count)
    recomputed = flow.each(chosen.days, recompute)
    total = flow.step(summarise, recomputed=recomputed)
    return Summary(partitions=total.partitions, departures=total.departures, worst_day=total.worst_day)
