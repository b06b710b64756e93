"""A task that takes a list of results, in their order."""

import json
from typing import Any

from pydantic import BaseModel
from tests.support.tasks.chain.controls import CONTROLS, OWNER, PREFIX

from perago import task


class Params(BaseModel):
    given: list[Any]


class Collected(BaseModel):
    count: int
    text: str


@task(name=f"{PREFIX}.collect", owner_email=OWNER, controls=CONTROLS)
def collect(params: Params) -> Collected:
    return Collected(count=len(params.given), text=json.dumps(params.given, sort_keys=True))
