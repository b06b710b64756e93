"""What the compiler of pipelines makes passes without a finding, and a compiled workflow with one wrong workspace does not."""

import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import BaseModel
from tests.support.pipeline_tasks import Nested, Numbers, one, plain, read, write, write_one
from tests.support.workflow_json import EVERY_TASK, START, Json, declared, findings

from perago import Flow, pipeline
from perago.pipelines import compiler, graph
from perago.pipelines.flow import pipeline_of
from perago.workflow_check.definition import Task, definitions

OWNER = "tests@example.com"
WRITE, READ, PLAIN, ONE, WRITE_ONE = (declared(function)[0] for function in (write, read, plain, one, write_one))
N = graph.Reference(graph.PipelineInput(), ("n",), int)


class Given(BaseModel):
    n: int = 3
    items: list[int] = []
    text: str = "${not.an.expression}"


class Outcome(BaseModel):
    total: int
    fixed: str = "a ${b} $${c}"
    nested: Nested
    results: list[Numbers]


@dataclass(frozen=True)
class RandomPipelines:
    """Makes pipelines; `earlier` are the steps that have always run before."""

    draw: st.DrawFn
    numbers: Iterator[int]

    def pipeline(self, depth: int) -> graph.Pipeline:
        made = self._nodes(depth, [], in_loop=False)
        return graph.Pipeline(f"p{next(self.numbers)}", OWNER, None, Given, None, made, {}, "tests")

    def _nodes(self, depth: int, earlier: list[str], *, in_loop: bool) -> list[graph.Node]:
        return [self._node(depth, earlier, in_loop=in_loop) for _ in range(self.draw(st.integers(1, 3)))]

    def _node(self, depth: int, earlier: list[str], *, in_loop: bool) -> graph.Node:
        ref = f"t{next(self.numbers)}"
        if depth and self.draw(st.booleans()):
            return self._construct(ref, depth - 1, earlier, in_loop=in_loop)
        return self._leaf(ref, earlier)

    def _construct(self, ref: str, depth: int, earlier: list[str], *, in_loop: bool) -> graph.Node:
        def inside(*, in_loop: bool = in_loop) -> list[graph.Node]:
            return self._nodes(depth, list(earlier), in_loop=in_loop)

        match self.draw(st.sampled_from(["fork", "when", "call", *([] if in_loop else ["repeat"])])):
            case "fork":
                return graph.Fork(ref, [graph.Lane("x", inside()), graph.Lane("y", inside())])
            case "when":
                condition = graph.Compare(graph.Comparison.EQUAL, N, graph.Constant(1))
                return graph.When(ref, condition, inside(), inside() if self.draw(st.booleans()) else ())
            case "call":
                return graph.Call(ref, self.pipeline(depth), {"n": N, "items": graph.Constant([1])})
            case _:
                return graph.Repeat(ref, inside(in_loop=True), at_most=3)

    def _leaf(self, ref: str, earlier: list[str]) -> graph.Node:
        match self.draw(st.sampled_from(["step", "step", "step", "each", "wait"])):
            case "each":
                items = graph.Reference(graph.PipelineInput(), ("items",), list[int])
                task = self.draw(st.sampled_from([ONE, WRITE_ONE]))
                return graph.Each(ref, items, task, {"item": graph.Reference(graph.EachItem())})
            case "wait":
                return graph.Wait(ref, seconds=1)
            case _:
                return self._step(ref, earlier)

    def _step(self, ref: str, earlier: list[str]) -> graph.Step:
        task = self.draw(st.sampled_from([WRITE, WRITE, READ, PLAIN]))
        source = self.draw(st.sampled_from([*earlier, None]))
        value = N if source is None else graph.Reference(graph.NodeResult(source), ("n",), int)
        optional = self.draw(st.integers(0, 4)) == 0
        if not optional:
            earlier.append(ref)
        return graph.Step(ref, task, {"n": value}, optional)


@st.composite
def pipelines(draw: st.DrawFn) -> graph.Pipeline:
    return RandomPipelines(draw, itertools.count()).pipeline(3)


def compiled(pipeline: graph.Pipeline) -> list[Json]:
    return [compiler.workflow(one) for one in (*pipeline.called(), pipeline)]


@given(pipelines())
def test_a_compiled_pipeline_has_no_finding(pipeline: graph.Pipeline) -> None:
    assert findings(compiled(pipeline), EVERY_TASK) == []


@given(pipelines(), st.data())
def test_a_writer_that_starts_from_the_input_instead_is_found(pipeline: graph.Pipeline, data: st.DataObject) -> None:
    documents = copy.deepcopy(compiled(pipeline))
    later = [inputs for inputs in _writers(documents) if inputs["workspace"] != START]
    assume(later)
    data.draw(st.sampled_from(later))["workspace"] = START
    assert any(level == "error" for level, _, _ in findings(documents, EVERY_TASK))


def _writers(documents: list[Json]) -> Iterator[Json]:
    """The inputs of the steps that write."""
    for workflow in definitions(documents):
        yield from (_inputs(task) for task in workflow.walk() if task.name == "tests.write")


def _inputs(task: Task) -> Json:
    return task.raw["inputParameters"]


def test_values_of_every_kind_pass_through_a_compiled_pipeline() -> None:
    @pipeline(name="inner", owner_email=OWNER)
    def inner(flow: Flow, inputs: Given) -> Outcome:
        first = flow.step(write, n=inputs.n, text=inputs.text)
        return Outcome(total=first.other, nested=first.nested, results=flow.each(inputs.items, write_one))

    @pipeline(name="outer", owner_email=OWNER)
    def outer(flow: Flow, inputs: Given) -> Outcome:
        called = flow.call(inner, n=inputs.n)
        flow.step(
            read, text="cost: ${workflow.input.n} $$", nested=Nested(name=called.nested.name, size=4), numbers=[called.total, 2]
        )
        with flow.repeat(at_most=2) as loop:
            done = flow.step(write, ref="again", n=loop.iteration, day=flow.step(plain).day)
            loop.until(done.n >= inputs.n)
        results = flow.each(inputs.items, plain, ref="many", n=flow.item, text="x")
        return Outcome(total=done.n, nested=Nested(name="x", size=done.n), results=results)

    made = pipeline_of(outer)
    assert made is not None
    assert findings(compiled(made), EVERY_TASK) == []
