"""The decorator itself: its arguments, the signature, inputs and results, and what it leaves alone."""

import subprocess
import sys
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel, Field, ValidationError
from tests.support.pipeline_tasks import Nested, Numbers, plain, write

from perago import Flow, TaskDefinitionError, pipeline, task
from perago.pipelines import compiler, graph
from perago.pipelines.flow import pipeline_of, pipelines_in

EMAIL = "a@example.com"
untyped: Any = pipeline


class Given(BaseModel):
    n: int = 3


class Total(BaseModel):
    total: int


def declared(function: Callable[..., Any]) -> graph.Pipeline:
    found = pipeline_of(function)
    assert found is not None
    return found


def refusal(decorate: Callable[[], object]) -> str:
    with pytest.raises(TaskDefinitionError) as refused:
        decorate()
    return str(refused.value).removeprefix("tests.pipeline.test_declaration: ").removeprefix("pipeline 'p': ")


def steps(flow: Flow) -> None:
    flow.step(plain)


def without_result(flow: Flow):  # noqa: ANN201  # pyright: ignore[reportUnknownParameterType]
    flow.step(plain)


def without_type(flow: Flow, inputs) -> None:  # noqa: ANN001  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
    flow.step(plain)


def wrong_name(flow: Flow, given: Given) -> None:
    flow.step(plain)


def wrong_types(flow: Flow, inputs: int) -> list[int]:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("decorate", "said"),
    [
        (lambda: untyped(steps), "name, owner_email: required; write @pipeline(name='...', owner_email='...')"),
        (lambda: untyped("p")(steps), "@pipeline takes no positional values; write name=..., owner_email=..., not 'p'"),
        (lambda: untyped(name="p", owner_email=EMAIL, descripton="")(steps), "descripton: unknown; did you mean 'description'?"),
        (
            lambda: untyped(name="p", owner_email="x")(steps),
            "owner_email: must be an e-mail address such as 'team@example.com', not 'x'",
        ),
        (lambda: untyped(name="p", owner_email=EMAIL, description=3)(steps), "description: must be a str, not 3"),
        (lambda: untyped(name="p", owner_email=EMAIL)(3), "@pipeline goes on a function, not on 3"),
        (
            lambda: untyped(name="p", owner_email=EMAIL)(wrong_name),
            "signature: parameters are (flow, given); write (flow: Flow, inputs: Inputs) -> Result, or (flow: Flow)",
        ),
        (
            lambda: untyped(name="p", owner_email=EMAIL)(without_result),
            "signature.return: has no annotation; write -> Result, a Pydantic model, or -> None",
        ),
        (
            lambda: untyped(name="p", owner_email=EMAIL)(without_type),
            "signature.inputs: has no annotation; write inputs: Inputs, a Pydantic model",
        ),
    ],
)
def test_arguments_and_signature(decorate: Callable[[], object], said: str) -> None:
    assert said in refusal(decorate)


def test_inputs_and_result_are_models() -> None:
    found = refusal(lambda: untyped(name="p", owner_email=EMAIL)(wrong_types)).splitlines()
    assert found == [
        "2 problems",
        "  - signature.inputs: must be a Pydantic model (class X(BaseModel)), not int",
        "  - signature.return: must be a Pydantic model (class X(BaseModel)), not list",
    ]


class WithWorkspace(BaseModel):
    workspace: str = ""


class WithDefaults(BaseModel):
    today: date = Field(default_factory=date.today)
    names: list[str] = Field(default_factory=list)
    maybe: int | None = 8
    number: int = "x"  # pyright: ignore[reportAssignmentType]


def takes_a_workspace(flow: Flow, inputs: WithWorkspace) -> None:
    flow.step(plain)


def takes_defaults(flow: Flow, inputs: WithDefaults) -> None:
    flow.step(plain)


def test_names_and_defaults_of_inputs() -> None:
    reserved = refusal(lambda: untyped(name="p", owner_email=EMAIL)(takes_a_workspace))
    assert reserved == "inputs.workspace: the workspace has this name in the workflow; write another, such as 'folder'"
    replaced = "accepts None, which Conductor would replace by the default; make None the default, or do not accept it"
    assert refusal(lambda: untyped(name="p", owner_email=EMAIL)(takes_defaults)).splitlines() == [
        "3 problems",
        "  - inputs.today: its default is computed anew each time; write a constant default",
        f"  - inputs.maybe: {replaced}",
        "  - inputs.number, default: 'x' is not valid: Input should be a valid integer, unable to parse string as an integer",
    ]


def test_the_function_is_returned_and_the_module_knows_its_pipelines() -> None:
    def body(flow: Flow) -> None:
        flow.step(plain)

    assert pipeline(name="p", owner_email=EMAIL)(body) is body
    assert declared(body) in pipelines_in(body.__globals__)
    assert pipeline_of(steps) is None


def test_a_result_or_the_inputs_can_be_passed_as_a_whole() -> None:
    class Whole(BaseModel):
        given: Given
        nested: Nested

    @task(name="tests.whole", owner_email=EMAIL)
    def whole(params: Whole) -> Nested:
        raise NotImplementedError

    @pipeline(name="p", owner_email=EMAIL)
    def passing(flow: Flow, inputs: Given) -> Nested:
        first = flow.step(plain)
        return flow.step(whole, given=inputs, nested=first.nested)

    made = compiler.workflow(declared(passing))
    given = {"given": {"n": "${workflow.input.n}"}, "nested": "${plain.output.result.nested}"}
    assert made["tasks"][1]["inputParameters"] == {"params": given}
    assert made["outputParameters"] == {"name": "${whole.output.result.name}", "size": "${whole.output.result.size}"}


def test_parameters_named_as_arguments_of_step() -> None:
    class Odd(BaseModel):
        ref: str
        optional: int = Field(alias="opt-ional")

    @task(name="tests.odd", owner_email=EMAIL)
    def odd(params: Odd) -> Odd:
        raise NotImplementedError

    @pipeline(name="p", owner_email=EMAIL)
    def passing(flow: Flow) -> None:
        first = flow.step(odd, ref_="a", optional_=3)
        flow.step(odd, ref="b", ref_=first.ref, optional_=first.optional)

    tasks = compiler.workflow(declared(passing))["tasks"]
    assert tasks[0]["inputParameters"]["params"] == {"ref": "a", "opt-ional": 3}
    assert tasks[1]["inputParameters"]["params"] == {
        "ref": "${odd.output.result.ref}",
        "opt-ional": "${odd.output.result['opt-ional']}",
    }


def test_models_are_validated_as_always_inside_and_outside_a_declaration() -> None:
    inside: list[Exception] = []

    @pipeline(name="p", owner_email=EMAIL)
    def declaring(flow: Flow) -> Total:
        with pytest.raises(ValidationError) as refused:
            Nested(name=3)  # pyright: ignore[reportArgumentType]
        inside.append(refused.value)
        return Total(total=flow.step(write, nested=Nested(name="a")).n)

    assert inside
    with pytest.raises(ValidationError):
        Total(total="x")  # pyright: ignore[reportArgumentType]
    assert declared(declaring).result is Total


def test_a_pipeline_without_writers_passes_the_workspace_on() -> None:
    @pipeline(name="p", owner_email=EMAIL)
    def nothing(flow: Flow) -> Numbers:
        return flow.step(plain)

    made = compiler.workflow(declared(nothing))
    assert "workspace" not in made["inputParameters"]
    assert "workspace" not in made["outputParameters"]
    assert made["outputParameters"]["otherName"] == "${plain.output.result.otherName}"


@pytest.mark.parametrize("first", ["import perago.pipelines.graph", "from perago import pipeline", "import perago"])
def test_the_decorator_and_its_package_have_one_name(first: str) -> None:
    code = f"""
{first}
import perago.pipelines.graph as graph
from perago import Flow, pipeline, task
from pydantic import BaseModel
class P(BaseModel):
    n: int = 0
@task(name="t", owner_email="a@example.com")
def t(params: P) -> P: ...
@pipeline(name="p", owner_email="a@example.com")
def p(flow: Flow) -> None:
    flow.step(t)
from perago.pipelines.flow import pipeline_of
print(isinstance(pipeline_of(p), graph.Pipeline))
"""
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "True\n"
