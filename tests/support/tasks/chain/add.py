"""A task without a workspace."""

from pydantic import BaseModel
from tests.support.tasks.chain.controls import CONTROLS, OWNER, PREFIX, fail_if_asked

from perago import task


class Params(BaseModel):
    left: int
    right: int = 1
    text: str | None = None
    flag: bool = False
    fail: str = ""


class Sum(BaseModel):
    total: int
    items: list[int]
    text: str
    negative: bool
    half: float
    nothing: int | None


@task(name=f"{PREFIX}.add", owner_email=OWNER, controls=CONTROLS)
def add(params: Params) -> Sum:
    fail_if_asked(params.fail)
    total = params.left + params.right
    return Sum(
        total=total,
        items=list(range(total % 4)),
        text=f"{params.text}-{total}",
        negative=total < 0,
        half=total / 2,
        nothing=total if params.flag else None,
    )
