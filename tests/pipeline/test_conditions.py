"""Conductor answers every condition as Python answers the same comparison of the same values."""

import operator
from collections.abc import Callable
from datetime import date
from typing import Any

from pydantic import BaseModel
from tests.support.compiled_runs import own_name
from tests.support.pipeline_tasks import Colour, plain
from tests.support.workflow_driver import WorkflowDriver

from perago import Flow, pipeline
from perago.pipelines.compiled import javascript
from perago.pipelines.compiled.conductor_tasks import inline
from perago.pipelines.compiled.expressions import Expressions
from perago.pipelines.declaration import symbols
from perago.pipelines.flow import pipeline_of

ORDER = [operator.lt, operator.le, operator.gt, operator.ge]
EQUALITY = [operator.eq, operator.ne]


class Given(BaseModel):
    whole: int
    large: int
    half: float
    three: float
    text: str
    high: str
    astral: str
    yes: bool
    no: bool
    null: int | None
    number: int | None
    day: date
    colour: Colour
    anything: Any
    mixed: bool | int


GIVEN = Given(
    whole=3,
    large=2**53,
    half=0.5,
    three=3.0,
    text="it's",
    high="\ue000",
    astral="\U00010000",
    yes=True,
    no=False,
    null=None,
    number=7,
    day=date(2026, 3, 1),
    colour=Colour.BLUE,
    anything=True,
    mixed=True,
)

Use = Callable[[Any], Any]


def pairs() -> list[tuple[Callable[[Any, Any], Any], Use, Use]]:
    numbers: list[Use] = [lambda g: g.whole, lambda g: g.three, lambda g: g.half, lambda g: g.large, lambda _: 3, lambda _: 2.5]
    texts: list[Use] = [lambda g: g.text, lambda g: g.high, lambda g: g.astral, lambda _: "it's", lambda _: "\U00010000a"]
    days: list[Use] = [lambda g: g.day, lambda _: date(2026, 2, 28), lambda _: date(2026, 3, 1)]
    booleans: list[Use] = [lambda g: g.yes, lambda g: g.no, lambda _: True]
    loose: list[Use] = [lambda g: g.null, lambda g: g.number, lambda g: g.anything, lambda _: 1, lambda _: None]
    mixed: list[Use] = [lambda g: g.mixed, lambda _: 1, lambda _: True, lambda _: 2]
    groups = [(numbers[:4], numbers), (texts[:3], texts), (days[:1], days), (booleans[:2], booleans)]
    found = [(test, a, b) for left, right in groups for test in ORDER + EQUALITY for a in left for b in right]
    found += [
        (test, a, b) for left, right in [(loose[:3], loose), (mixed[:1], mixed)] for test in EQUALITY for a in left for b in right
    ]
    colours: list[Use] = [lambda _: Colour.RED, lambda _: Colour.BLUE, lambda _: "blue"]
    return [*found, *((test, lambda g: g.colour, b) for test in ORDER + EQUALITY for b in colours)]


def scripts(uses: list[Callable[[Any], Any]]) -> list[javascript.Script]:
    """The conditions, recorded and compiled."""
    found: list[javascript.Script] = []

    @pipeline(name="conditions", owner_email="tests@example.com")
    def conditions(flow: Flow, inputs: Given) -> None:
        flow.step(plain)
        found.extend(javascript.of(symbols.condition(use(inputs)).condition, Expressions({})) for use in uses)

    assert pipeline_of(conditions) is not None
    return found


def answers(driver: WorkflowDriver, made: list[javascript.Script]) -> list[bool]:
    """One task evaluates them all, with the evaluator that SWITCH and DO_WHILE use."""
    expression = ", ".join(f"!!({script.expression})" for script in made)
    given = {name: value for script in made for name, value in script.inputs.items()}
    task = inline("all", f"(function() {{ return [{expression}].join(); }})()", given)
    workflow = {"name": own_name(), "version": 1, "schemaVersion": 2, "ownerEmail": "tests@example.com", "tasks": [task]}
    run = driver.run(workflow | {"timeoutSeconds": 0}, GIVEN.model_dump(mode="json"), lambda _: {})
    return [answer == "true" for answer in run["output"]["result"].split(",")]


def test_every_comparison_has_pythons_answer(driver: WorkflowDriver) -> None:
    tests = pairs()
    uses: list[Use] = [lambda g, t=test, a=left, b=right: t(a(g), b(g)) for test, left, right in tests]
    found = answers(driver, scripts(uses))
    wanted = [bool(use(GIVEN)) for use in uses]
    assert len(wanted) > 200
    assert [number for number, answer in enumerate(found) if answer != wanted[number]] == []


def test_combinations_and_boolean_fields(driver: WorkflowDriver) -> None:
    uses: list[Use] = [
        lambda g: g.yes & (g.whole > 2),
        lambda g: (g.whole > 3) | g.no,
        lambda g: (g.yes | g.no) & (g.half < 1) & (g.colour == Colour.BLUE),
        lambda g: g.no | ((g.half < 1) & (g.whole == 4)),
    ]
    assert answers(driver, scripts(uses)) == [True, False, True, False]
