from pydantic import BaseModel
from tests.support.pipeline_tasks import plain, write

from perago import Flow, pipeline
from perago.pipelines import compiler, graph
from perago.pipelines.flow import pipeline_of


class Inputs(BaseModel):
    n: int = 3


class Summary(BaseModel):
    total: int


def test_steps_are_recorded_and_the_workspace_is_passed_on() -> None:
    @pipeline(name="p", owner_email="a@example.com")
    def shop(flow: Flow, inputs: Inputs) -> Summary:
        raw = flow.step(write, n=inputs.n)
        again = flow.step(write, ref="again", n=raw.n)
        flow.step(plain, text="x")
        return Summary(total=again.n)

    declared = pipeline_of(shop)
    assert declared is not None
    assert [node.ref for node in declared.nodes] == ["write", "again", "plain"]
    assert declared.outputs == {"total": graph.Reference(graph.NodeResult("again"), ("n",), int)}
    made = compiler.workflow(declared)
    assert [task["inputParameters"] for task in made["tasks"]] == [
        {"workspace": "${workflow.input.workspace}", "params": {"n": "${workflow.input.n}"}},
        {"workspace": "${write.output.workspace}", "params": {"n": "${write.output.result.n}"}},
        {"params": {"text": "x"}},
    ]
    assert made["outputParameters"] == {"workspace": "${again.output.workspace}", "total": "${again.output.result.n}"}
    assert made["inputTemplate"] == {"n": 3}


def test_models_are_constructed_as_before_once_a_pipeline_is_declared() -> None:
    before = BaseModel.__init__

    @pipeline(name="p", owner_email="a@example.com")
    def outer(flow: Flow) -> Summary:
        assert BaseModel.__init__ is not before

        @pipeline(name="q", owner_email="a@example.com")
        def inner(flow: Flow) -> None:
            flow.step(plain, text="x")

        assert pipeline_of(inner) is not None
        return Summary(total=flow.step(write, n=1).n)

    assert pipeline_of(outer) is not None
    assert BaseModel.__init__ is before
