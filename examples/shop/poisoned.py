"""A part of the shop on orders that can be parsed and are wrong: the check of `clean` fails, so its lane publishes nothing."""

from examples.shop import clean, ingest
from pydantic import BaseModel

from perago import Flow, pipeline


class Inputs(BaseModel):
    scale: float = 1.0


class Summary(BaseModel):
    clean: int


@pipeline(name="shop.poisoned", owner_email="data@example.com", description="Wrong orders in, which the check of clean refuses.")
def poisoned(flow: Flow, inputs: Inputs) -> Summary:
    with flow.fork() as fork, fork.lane("orders"):
        flow.step(ingest.ingest, scale=inputs.scale, poisoned=True)
        rows = flow.step(clean.clean)
    return Summary(clean=rows.clean)
