"""The pipeline: six steps, each of which takes the workspace that the step before it left."""

from datetime import date

from examples.shop import clean, features, gate, ingest, report, summarise
from pydantic import BaseModel

from perago import Flow, pipeline


class Inputs(BaseModel):
    scale: float = 1.0
    first_day: date = date(2026, 1, 1)


class Summary(BaseModel):
    page: str


@pipeline(name="shop", owner_email="data@example.com", description="Orders in, a report out.")
def shop(flow: Flow, inputs: Inputs) -> Summary:
    raw = flow.step(ingest.ingest, scale=inputs.scale)
    rows = flow.step(clean.clean, first_day=inputs.first_day)
    flow.step(features.features)
    flow.step(summarise.summarise)
    flow.step(gate.gate, orders=raw.orders, clean=rows.clean, quarantined=rows.quarantined)
    page = flow.step(report.report, title="The shop, day by day")
    return Summary(page=page.page)
