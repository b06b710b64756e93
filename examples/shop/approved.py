"""The same shop with an approval: a person looks at the report before it reaches the branch.

The report is made in a lane, on a branch of its own. Only when the person has approved it, the join publishes what the lane has:
exactly what was approved, with what the person edited. A rejection ends the run, and the branch never shows the report.
"""

from typing import Literal

from examples.shop import clean, features, gate, ingest, report, summarise
from examples.shop.pipeline import Inputs
from pydantic import BaseModel

from perago import Flow, WorkspaceSpec, pipeline, require_file


class Question(BaseModel):
    page: str
    orders: int
    quarantined: int


class Decision(BaseModel):
    verdict: Literal["as it is", "edited"]
    note: str = ""


class Approval(BaseModel):
    page: str
    verdict: str
    note: str


@pipeline(name="shop.approved", owner_email="data@example.com", description="Orders in, a report out that a person approved.")
def approved(flow: Flow, inputs: Inputs) -> Approval:
    raw = flow.step(ingest.ingest, scale=inputs.scale)
    rows = flow.step(clean.clean, first_day=inputs.first_day)
    flow.step(features.features)
    flow.step(summarise.summarise)
    flow.step(gate.gate, orders=raw.orders, clean=rows.clean, quarantined=rows.quarantined)
    with flow.fork() as fork, fork.lane("draft"):
        page = flow.step(report.report, title="The shop, day by day")
        decision = flow.human(
            "approve",
            Question,
            Decision,
            workspace=WorkspaceSpec(prefix="/shop/report", post=[require_file("index.html")]),
            page=page.page,
            orders=raw.orders,
            quarantined=rows.quarantined,
        )
    return Approval(page=page.page, verdict=decision.verdict, note=decision.note)
