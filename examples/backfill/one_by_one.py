"""The same days one after another, each published as a commit of its own: what `perago demo backfill` compares with."""

from datetime import date

from examples.backfill.recompute import recompute
from pydantic import BaseModel

from perago import Flow, pipeline


class Inputs(BaseModel):
    day_before: date = date(2012, 12, 31)
    count: int


class Summary(BaseModel):
    last_day: date


@pipeline(name="backfill.one_by_one", owner_email="data@example.com", description="Recompute days of flights one by one.")
def one_by_one(flow: Flow, inputs: Inputs) -> Summary:
    with flow.repeat(at_most=365) as loop:
        last = flow.step(recompute, day=inputs.day_before, plus_days=loop.iteration)
        loop.until(loop.iteration >= inputs.count)
    return Summary(last_day=last.day)
