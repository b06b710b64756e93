"""Every refusal of a declaration, with its text."""
# ruff: noqa: E501  a refusal is one line

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, SecretStr, field_validator, model_validator
from tests.support.pipeline_tasks import Colour, Nested, Numbers, one, plain, read, write

from perago import Flow, TaskDefinitionError, WorkspaceSpec, pipeline, task

Body = Callable[[Any, Any], Any]


class Shade(Enum):
    DARK = "dark"


class Given(BaseModel):
    n: int = 3
    text: str = ""
    flag: bool = False
    maybe: int | None = None
    day: date = date(2026, 1, 1)
    moment: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    amount: Decimal = Decimal(1)
    shade: Shade = Shade.DARK
    items: list[int] = []
    names: list[str] = []
    nested: Nested = Nested(name="")
    anything: Any = None
    size: Literal["s", "m"] = "s"


class Total(BaseModel):
    total: int


class Hidden(BaseModel):
    key: SecretStr


HUMAN = "write flow.human('review', Question, Decision, workspace=WorkspaceSpec(...), field=...)"


def declare(body: Body) -> None:
    """Runs the body in a pipeline without a result; the flow is untyped, so that mistakes can be written."""

    @pipeline(name="p", owner_email="a@example.com")
    def declared(flow: Flow, inputs: Given) -> None:
        body(flow, inputs)


def refusal(body: Body) -> str:
    with pytest.raises(TaskDefinitionError) as refused:
        declare(body)
    return str(refused.value).removeprefix("tests.pipeline.test_refusals: pipeline 'p': ")


LATER = "; its value is only known when the pipeline runs"
WHEN = "cannot be used with if, and, or, not: use flow.when, and & or | to combine conditions"
ARITHMETIC = "cannot be calculated with: let a task calculate it"
ITEMS = "cannot be iterated over, indexed or measured: use flow.each, or let a task return what is needed"
TEXT = "cannot be made into text: pass it to a task as a parameter"


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda x: 1 if x.flag else 2, f"inputs.flag: {WHEN}"),
        (lambda x: x.flag and x.n, f"inputs.flag: {WHEN}"),
        (lambda x: x.flag or x.n, f"inputs.flag: {WHEN}"),
        (lambda x: not x.flag, f"inputs.flag: {WHEN}"),
        (lambda x: x.n + 1, f"inputs.n: {ARITHMETIC}"),
        (lambda x: 2 * x.n, f"inputs.n: {ARITHMETIC}"),
        (lambda x: -x.n, f"inputs.n: {ARITHMETIC}"),
        (lambda x: int(x.n), f"inputs.n: {ARITHMETIC}"),
        (lambda x: round(x.n), f"inputs.n: {ARITHMETIC}"),
        (lambda x: range(x.n), f"inputs.n: {ARITHMETIC}"),
        (lambda x: len(x.items), f"inputs.items: {ITEMS}"),
        (lambda x: list(x.items), f"inputs.items: {ITEMS}"),
        (lambda x: x.items[0], f"inputs.items: {ITEMS}"),
        (lambda x: 3 in x.items, f"inputs.items: {ITEMS}"),
        (lambda x: f"{x.text}!", f"inputs.text: {TEXT}"),
        (lambda x: str(x.text), f"inputs.text: {TEXT}"),
    ],
)
def test_a_reference_is_no_value(use: Callable[[Any], object], said: str) -> None:
    assert refusal(lambda flow, inputs: use(inputs)) == said + LATER


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda x: 0 < x.n < 9, f"condition: {WHEN}; comparisons are not chained (write (0 < a) & (a < 9))"),
        (lambda x: ~(x.n > 1), "condition: cannot be negated with ~: write the opposite comparison, or use branch.otherwise()"),
        (lambda x: ~x.flag, f"inputs.flag: cannot be negated with ~: write == False, or use branch.otherwise(){LATER}"),
        (
            lambda x: (x.n > 1) & True,
            "condition: must compare a result or an input, not be True; write == None in place of 'is None'",
        ),
        (lambda x: x.n & x.flag, "inputs.n: is int, not a boolean; compare it with something"),
        (
            lambda x: x.moment > x.moment,
            "inputs.moment: is datetime, which has several forms in JSON and cannot be compared; let a task return a boolean or a number",
        ),
        (
            lambda x: x.amount == 1,
            "inputs.amount: is Decimal, which has several forms in JSON and cannot be compared; let a task return a boolean or a number",
        ),
        (lambda x: x.items == [], "inputs.items: cannot be compared with []; compare numbers, texts, booleans, dates or None"),
        (
            lambda x: x.nested == x.nested,
            "inputs.nested: is Nested, which cannot be compared; compare one of its fields, or let a task return a number, text or boolean",
        ),
        (lambda x: x.n == "3", "inputs.n: is int, which never equals '3'"),
        (lambda x: x.flag == 1, "inputs.flag: is bool, which never equals 1"),
        (lambda x: x.day == "2026-01-01", "inputs.day: is date, which never equals '2026-01-01'"),
        (lambda x: x.shade == Colour.RED, "inputs.shade: is Shade, which never equals <Colour.RED: 'red'>"),
        (lambda x: x.n is None, None),
        (lambda x: x.maybe > 1, "inputs.maybe: is int | None: it has no order with 1, since one of them may be None"),
        (lambda x: x.text < 3, "inputs.text: is str: it has no order with 3"),
        (lambda x: x.shade < Shade.DARK, "inputs.shade: is Shade: it has no order with <Shade.DARK: 'dark'>"),
        (lambda x: x.anything < 3, "inputs.anything: is Any: it has no order with 3"),
        (lambda x: x.n == float("inf"), "inputs.n: cannot be compared with inf: JSON has no such number"),
        (lambda x: x.n < 2**60, f"inputs.n: cannot be compared with {2**60}: Conductor compares whole numbers up to 2^53"),
        (lambda x: x.n < x.text, "inputs.n: is int: it has no order with inputs.text"),
        (
            lambda x: x.n == x.nested,
            "inputs.n: cannot be compared with inputs.nested, which is Nested, which cannot be compared; compare one of its fields, or let a task return a number, text or boolean",
        ),
    ],
)
def test_comparisons_that_conductor_would_answer_otherwise(use: Callable[[Any], Any], said: str | None) -> None:
    def body(flow: Any, inputs: Any) -> None:
        with flow.when(use(inputs)):
            flow.step(plain)

    assert refusal(body) == (
        said or "condition: must compare a result or an input, not be False; write == None in place of 'is None'"
    )


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda x: x.nn, "inputs: Given has no field 'nn'; did you mean 'n'?"),
        (lambda x: x.nested.nmae, "inputs.nested: Nested has no field 'nmae'; did you mean 'name'?"),
        (
            lambda x: x.text.upper(),
            "inputs.text: is str, which has no field 'upper' to refer to; let a task return what is needed",
        ),
        (lambda x: setattr(x, "n", 3), "inputs: n cannot be set: a result is what its task returned"),
        (lambda x: x.anything.b(), f"inputs.anything.b: cannot be called{LATER}"),
    ],
)
def test_fields_that_do_not_exist(use: Callable[[Any], object], said: str) -> None:
    def body(flow: Any, inputs: Any) -> None:
        flow.step(plain)
        use(inputs)

    assert refusal(body) == said


class Checked(BaseModel):
    n: int = Field(0, ge=0)
    word: str = ""
    low: int = 0
    high: int = 9

    @field_validator("word")
    @classmethod
    def _short(cls, value: str) -> str:
        if len(value) > 3:
            raise ValueError("too long")
        return value

    @model_validator(mode="after")
    def _ordered(self) -> "Checked":
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


class Unlike(BaseModel):
    name: str = Field(serialization_alias="title")


class Unliked(BaseModel):
    unlike: Unlike


class Secret(BaseModel):
    secret: SecretStr


@task(name="tests.checked", owner_email="a@example.com")
def checked(params: Checked) -> Unliked:
    raise NotImplementedError


@task(name="tests.unliked", owner_email="a@example.com")
def unliked(params: Unliked) -> Numbers:
    raise NotImplementedError


@task(name="tests.secret", owner_email="a@example.com")
def secret(params: Secret) -> Numbers:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda f, x: f.step(plain, nn=1), "step plain, params: unknown parameter 'nn'; did you mean 'n'?"),
        (
            lambda f, x: f.step(plain, zzz=1),
            "step plain, params: unknown parameter 'zzz'; accepted are n, text, day, colour, maybe, ratio, flag, nested, numbers, texts",
        ),
        (lambda f, x: f.step(one), "step one, params.item: missing; it takes int"),
        (
            lambda f, x: f.step(plain, n="x"),
            "step plain, params.n: 'x' is not valid: Input should be a valid integer, unable to parse string as an integer",
        ),
        (lambda f, x: f.step(plain, n=lambda: 1, ref="a"), None),
        (lambda f, x: f.step(plain, ratio=float("inf")), "step plain, params.ratio: inf has no JSON form"),
        (lambda f, x: f.step(plain, text=x.n), "step plain, params.text: takes str; inputs.n is int"),
        (lambda f, x: f.step(plain, n=x.maybe), "step plain, params.n: takes int; inputs.maybe is int | None"),
        (lambda f, x: f.step(plain, colour=x.shade), "step plain, params.colour: takes Colour; inputs.shade is Shade"),
        (lambda f, x: f.step(plain, colour=x.text), "step plain, params.colour: takes Colour; inputs.text is str"),
        (lambda f, x: f.step(plain, day=x.moment), "step plain, params.day: takes date; inputs.moment is datetime"),
        (lambda f, x: f.step(plain, nested=x), "step plain, params.nested: takes Nested | None; inputs is Given"),
        (lambda f, x: f.step(plain, numbers=x.names), "step plain, params.numbers: takes list[int]; inputs.names is list[str]"),
        (lambda f, x: f.step(plain, numbers=[x.n, x.text]), "step plain, params.numbers[1]: takes int; inputs.text is str"),
        (
            lambda f, x: f.step(plain, numbers=[x.n, "b"]),
            "step plain, params.numbers[1]: 'b' is not valid: Input should be a valid integer, unable to parse string as an integer",
        ),
        (lambda f, x: f.step(plain, texts={"a": x.n}), "step plain, params.texts.a: takes str; inputs.n is int"),
        (lambda f, x: f.step(plain, texts=[x.text]), "step plain, params.texts: takes dict[str, str], not a list"),
        (lambda f, x: f.step(plain, numbers={"a": x.n}), "step plain, params.numbers: takes list[int], not a dict"),
        (
            lambda f, x: f.step(plain, numbers={x.n}),
            "step plain, params.numbers: references cannot stand inside a set; pass a model, a list or a dict",
        ),
        (lambda f, x: f.step(plain, nested=Nested(name=x.n)), "step plain, params.nested.name: takes str; inputs.n is int"),
        (
            lambda f, x: f.step(plain, nested=Nested(name=x.text, siz=2)),  # pyright: ignore[reportCallIssue]
            "step plain, params.nested: unknown parameter 'siz'; did you mean 'size'?",
        ),
        (lambda f, x: f.step(plain, nested={"size": x.n}), "step plain, params.nested.name: missing; it takes str"),
        (lambda f, x: f.step(plain, nested=Total(total=x.n)), "step plain, params.nested: takes Nested | None, not Total"),
        (
            lambda f, x: f.step(plain, flag=x.n > 1),
            "step plain, params.flag: takes a value, not a condition; use flow.when, or let a task compare",
        ),
        (
            lambda f, x: f.step(plain, n=f.item),
            "step plain, params.n: flow.item is the item of flow.each and has no meaning elsewhere",
        ),
        (
            lambda f, x: f.step(checked, n=-1, high=x.n),
            "step checked, params.n: -1 is not valid: Input should be greater than or equal to 0",
        ),
        (lambda f, x: f.step(checked, word="long"), "step checked, params.word: 'long' is not valid: Value error, too long"),
        (lambda f, x: f.step(checked, low=10), "step checked, params: Value error, low is above high"),
        (
            lambda f, x: f.step(unliked, unlike=f.step(checked).unlike),
            "step unliked, params.unlike: takes Unlike; checked.unlike is Unlike, whose JSON has other fields than the parameter reads",
        ),
        (
            lambda f, x: f.step(secret, secret=SecretStr("s")),
            "step secret, params.secret: a secret must not be part of a workflow; let the task read it where it runs",
        ),
        (lambda f, x: f.step(plain, Total, n=1), "step plain: the second argument must be Options, the params model of the task"),
        (lambda f, x: f.step(plain, optional="yes"), "step plain: optional must be True or False, not 'yes'"),
        (lambda f, x: f.step(print), "flow.step: takes a function with @task, not 'print', which has none"),
        (lambda f, x: f.step("plain"), "flow.step: takes a function with @task, not 'plain'"),
        (
            lambda f, x: f.step(plain, n=f.step(read, optional=True).n),
            "step plain, params.n: takes int; read.n is int | None, since the step is optional",
        ),
    ],
)
def test_parameters(use: Callable[[Any, Any], object], said: str | None) -> None:
    found = refusal(use)
    assert found == said if said is not None else found.endswith("has no JSON form")


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (
            lambda f: (f.step(plain), f.step(plain)),
            "step plain: the reference name is used twice; give one of them another with ref='...'",
        ),
        (lambda f: f.step(plain, ref="a b"), "step a b: 'a b' is not a reference name; use letters, digits and _"),
        (lambda f: f.step(plain, ref=3), "ref: must be text such as 'clean_orders', not 3"),
        (
            lambda f: f.step(plain, ref="a__1"),
            "step a__1: 'a__1' contains '__', by which Conductor separates the number of an iteration; use one _",
        ),
        (
            lambda f: f.step(plain, ref="workflow"),
            "step workflow: 'workflow' is reserved by Conductor; give another name with ref='...'",
        ),
        (
            lambda f: (f.step(plain, ref="a"), f.step(plain, ref="a_end")),
            "step a_end: the name is needed for a part of a; give another with ref='...'",
        ),
        (
            lambda f: f.human(3, Total, Total),
            f"flow.human: the first argument is the name of the step, such as 'review', not 3; {HUMAN}",
        ),
        (
            lambda f: f.human("x", dict, Total),
            f"human x: question: must be a Pydantic model (class X(BaseModel)), not dict; {HUMAN}",
        ),
        (
            lambda f: f.human("x", Total, Total, workspace=WorkspaceSpec(prefix="")),
            "2 problems\n  - human x: workspace.prefix: must not be empty; write '/' for the whole repository\n  - human x, question.total: missing; it takes int",
        ),
        (
            lambda f: f.human("x", Total, Hidden, total=1),
            "human x: result.key: a secret is written as asterisks; write str, or exclude the field from the result",
        ),
        (lambda f: f.wait(), "wait wait: takes seconds=... or until=..., one of the two"),
        (lambda f: f.wait(seconds=0), "wait wait: seconds: must be at least 1, not 0"),
        (
            lambda f: f.wait(until=datetime(2026, 1, 1)),  # noqa: DTZ001
            "wait wait: until must have a time zone, such as datetime(..., tzinfo=UTC)",
        ),
        (
            lambda f: f.wait(until="soon"),
            "wait wait, until: 'soon' is not valid: Input should be a valid datetime or date, input is too short",
        ),
        (lambda f: f.call(plain), "flow.call: takes a function with @pipeline, not 'plain', which has none"),
        (lambda f: None, "has no steps; write flow.step(...)"),
    ],
)
def test_names_and_steps(use: Callable[[Any], object], said: str) -> None:
    assert refusal(lambda flow, inputs: use(flow)) == said


def test_values_that_may_be_missing() -> None:
    def after_when(flow: Any, inputs: Any) -> None:
        with flow.when(inputs.n > 1) as branch:
            inside = flow.step(plain, ref="a")
            flow.step(plain, ref="b", n=inside.n)
        with branch.otherwise():
            flow.step(plain, ref="c", n=inside.n)

    text = "a.n cannot be used here: it may not have run: it is inside flow.when (when); use it inside that block"
    assert refusal(after_when) == f"step c, params.n: {text}"

    def other_lane(flow: Any, inputs: Any) -> None:
        with flow.fork() as fork:
            with fork.lane("x"):
                first = flow.step(plain, ref="a")
            with fork.lane("y"):
                flow.step(plain, ref="b", n=first.n)
        flow.step(plain, ref="c", n=first.n)

    assert (
        refusal(other_lane) == "step b, params.n: a.n cannot be used here: it runs in another lane of fork; use it after the fork"
    )

    def after_optional(flow: Any, inputs: Any) -> None:
        with flow.repeat(at_most=2) as loop:
            maybe = flow.step(plain, ref="a", optional=True, n=loop.iteration)
            flow.step(plain, ref="b", maybe=maybe.n)
        flow.step(plain, ref="c", maybe=maybe.n)
        flow.step(plain, ref="d", n=loop.iteration)

    found = refusal(after_optional).splitlines()
    assert found == [
        "2 problems",
        "  - step c, params.maybe: a.n cannot be used here: it is only known inside its block (repeat)",
        "  - step d, params.n: repeat.iteration cannot be used here: it is only known inside its block (repeat)",
    ]


def test_a_reference_of_another_pipeline() -> None:
    leaked: list[Any] = []

    def first(flow: Any, inputs: Any) -> None:
        leaked.append(flow.step(plain))

    declare(first)
    found = refusal(lambda flow, inputs: flow.step(plain, n=leaked[0].n))
    assert found == "step plain, params.n: plain.n belongs to the pipeline 'p'; pass it as an input"


def test_blocks() -> None:
    def body(flow: Any, inputs: Any) -> None:
        with flow.fork() as fork:
            flow.step(plain, ref="stray")
            with fork.lane("x"):
                pass
            with fork.lane("x"):
                flow.step(plain, ref="a")
        with flow.fork():
            pass
        with flow.when(inputs.flag) as branch:
            pass
        flow.step(plain, ref="between")
        with branch.otherwise():
            pass
        with flow.repeat(at_most=0) as loop:
            pass
        loop.until(inputs.flag)
        with flow.repeat(at_most=10_001), flow.repeat(at_most=2, ref="inner"):
            flow.step(plain, ref="b")

    nested = "inner: is a loop inside a loop, which Conductor does not support"
    assert refusal(body).splitlines() == [
        "12 problems",
        "  - step stray: stands in fork outside its lanes; put it into a lane or after the fork",
        "  - fork, lane x: has no steps; remove it",
        "  - fork, lane x: the name is used twice",
        "  - fork_2: the fork has no lanes; write with fork.lane('name'):",
        "  - when: the block of flow.when has no steps",
        "  - when: otherwise() must directly follow the block of its flow.when",
        "  - when: the block of otherwise() has no steps; remove it",
        "  - repeat: at_most: must be from 1 to 10000, not 0",
        "  - repeat: the block of flow.repeat has no steps",
        "  - repeat: until() stands directly inside the block of its flow.repeat",
        "  - repeat_2: at_most: must be from 1 to 10000, not 10001",
        f"  - {nested}; put the inner loop into a pipeline of its own and flow.call it",
    ]


def test_each() -> None:
    def body(flow: Any, inputs: Any) -> None:
        flow.each(inputs.names, one, ref="a")
        flow.each(inputs.items, plain, ref="b")
        flow.each(inputs.n, one, ref="c")
        flow.each([1, "x"], one, ref="d")
        flow.each([Nested(name="a")], plain, ref="e", n=flow.item.name)
        flow.each([Nested(name="a")], plain, ref="f", n=flow.item.nam)
        flow.each(inputs.items, one, ref="g", item=inputs.n)

    integer = "Input should be a valid integer, unable to parse string as an integer"
    assert refusal(body).splitlines() == [
        "7 problems",
        "  - each a, params.item: takes int; flow.item is str",
        "  - each b: say which parameter takes the item, with flow.item: no required parameter is left",
        "  - each c, items: must be a list; inputs.n is int",
        f"  - each d, items: [1, 'x'] is not valid: [1]: {integer}",
        "  - each e, params.n: takes int; flow.item.name is str",
        "  - flow.item: Nested has no field 'nam'; did you mean 'name'?",
        "  - each g: say which parameter takes the item, with flow.item: no required parameter is left",
    ]


def test_calls() -> None:
    @pipeline(name="inner", owner_email="a@example.com")
    def inner(flow: Flow, inputs: Total) -> None:
        flow.step(plain, n=inputs.total)

    @pipeline(name="bare", owner_email="a@example.com")
    def bare(flow: Flow) -> None:
        flow.step(plain)

    @pipeline(name="p", owner_email="a@example.com")
    def same(flow: Flow) -> None:
        flow.step(plain)

    def body(flow: Any, inputs: Any) -> None:
        flow.call(inner, totl=1)
        flow.call(bare, n=1)
        flow.call(same)
        flow.step(bare)

    assert refusal(body).splitlines() == [
        "5 problems",
        "  - call inner, inputs: unknown parameter 'totl'; did you mean 'total'?",
        "  - call inner, inputs.total: missing; it takes int",
        "  - call bare: the pipeline 'bare' takes no inputs, not n",
        "  - call same: the pipeline 'p' calls itself; use flow.repeat",
        "  - step bare: is a pipeline; use flow.call",
    ]


def test_two_tasks_of_one_name() -> None:
    @task(name="tests.plain", owner_email="a@example.com")
    def other(params: Checked) -> Numbers:
        raise NotImplementedError

    found = refusal(lambda flow, inputs: (flow.step(plain), flow.step(other)))
    assert found == "the task name 'tests.plain' is declared by tests.support.pipeline_tasks and by tests.pipeline.test_refusals"


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda x: Total(total=x.text), "return.total: takes int; inputs.text is str"),
        (lambda x: Total(total=x.n, more=1), "return: unknown parameter 'more'; accepted are total"),  # pyright: ignore[reportCallIssue]
        (
            lambda x: Total(totl=x.n),  # pyright: ignore[reportCallIssue]
            "2 problems\n  - return: unknown parameter 'totl'; did you mean 'total'?\n  - return.total: missing; it takes int",
        ),
        (lambda x: None, "return: must be Total(...), not nothing"),
        (lambda x: Nested(name=x.text), "return: must be Total(...), not Nested"),
        (lambda x: x.nested, "return: must be Total; inputs.nested is Nested"),
    ],
)
def test_results(use: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(TaskDefinitionError) as refused:

        @pipeline(name="p", owner_email="a@example.com")
        def declared(flow: Flow, inputs: Given) -> Total:
            flow.step(plain)
            return use(inputs)

    assert str(refused.value) == f"tests.pipeline.test_refusals: pipeline 'p': {said}"


def test_a_result_where_none_is_declared() -> None:
    with pytest.raises(TaskDefinitionError, match="annotated -> None and returns plain"):

        @pipeline(name="p", owner_email="a@example.com")
        def declared(flow: Flow) -> None:
            return flow.step(plain)  # pyright: ignore[reportReturnType]


def test_all_problems_of_a_declaration_are_in_one_error() -> None:
    def body(flow: Any, inputs: Any) -> None:
        raw = flow.step(write, n="x", text=inputs.n)
        flow.step(plain, nn=raw.orders)
        if raw.n > 3:
            flow.step(plain)

    assert len(refusal(body).splitlines()) == 6
