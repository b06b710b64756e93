from typing import Any

from pydantic import BaseModel
from tests.support.pipeline_tasks import Nested, one, plain, read, write

from perago import Flow, pipeline
from perago.pipelines import tree
from perago.pipelines.flow import pipeline_of


class Given(BaseModel):
    n: int = 3
    items: list[int] = []


class Total(BaseModel):
    total: int


@pipeline(name="inner", owner_email="a@example.com")
def inner(flow: Flow) -> Total:
    return Total(total=flow.step(plain).n)


@pipeline(name="drawn", owner_email="a@example.com")
def drawn(flow: Flow, inputs: Given) -> Total:
    raw = flow.step(write, n=inputs.n, text="a text that is too long to be shown in one line")
    with flow.fork() as fork:
        with fork.lane("audio"):
            flow.step(write, ref="audio", optional=True)
        with fork.lane("video"):
            flow.step(read, nested=Nested(name=raw.text, size=inputs.n), numbers=[raw.n, 2], day=raw.day, flag=raw.flag)
    with flow.when((raw.n > 3) & raw.flag) as branch:
        flow.each(inputs.items, one)
    with branch.otherwise():
        flow.wait(seconds=30)
    with flow.repeat(at_most=5) as loop:
        done = flow.step(plain, n=loop.iteration)
        loop.until(done.n >= inputs.n)
    return Total(total=flow.call(inner).total)


DRAWN = """\
drawn
├─ write (task tests.write, writes): n = inputs.n, text = "a text that is too long to be…
├─ fork: lanes side by side, joined in one commit
│  ├─ lane audio (own branch)
│  │  └─ audio (task tests.write, writes), optional
│  └─ lane video
│     └─ read (task tests.read, reads): nested = {name = write.text, size = inputs.n}, numbers =
│             [write.n, 2], day = write.day, flag = write.flag
├─ when (write.n > 3) & (write.flag)
│  └─ each one (task tests.one, no workspace): over inputs.items; item = item
├─ otherwise
│  └─ wait 30 s
├─ repeat: until plain.n >= inputs.n, at most 5 times
│  └─ plain (task tests.plain, no workspace): n = repeat.iteration
├─ call inner (pipeline inner)
└─ result: total = inner.total"""


def test_a_pipeline_is_drawn_as_a_tree_of_at_most_100_columns() -> None:
    declared: Any = pipeline_of(drawn)
    lines = tree.lines(declared)
    assert "\n".join(lines) == DRAWN
    assert max(map(len, lines)) <= tree.WIDTH
