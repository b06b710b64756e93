"""The form of a human step: what travels as JSON, and how answers are checked against it without the model."""

import datetime as dt
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from perago import WorkspaceSpec, forbid_glob, require_dir, require_file, require_glob
from perago.declare import check_json, human_form, schema, schema_values
from perago.errors import TaskInputError, TaskResultError

WORKSPACE = {"repository": "r", "branch": "main", "ref_type": "commit", "ref": "c"}


class Colour(StrEnum):
    RED = "red"


class Line(BaseModel):
    name: Annotated[str, Field(min_length=1, max_length=5, pattern="^[a-z]+$")]
    amount: Annotated[float, Field(ge=0, lt=10, multiple_of=0.5)] = 1.5


class Answer(BaseModel):
    verdict: Literal["yes", "no"]
    lines: Annotated[list[Line], Field(max_length=2)] = []
    day: dt.date | None = None
    price: Decimal = Decimal("1.50")
    colour: Colour = Colour.RED
    counts: dict[str, int] = {}
    pair: tuple[int, str] = (1, "a")


def form(**workspace: Any) -> human_form.HumanForm:
    return human_form.of(Answer, WorkspaceSpec(**workspace) if workspace else None)


def test_an_answer_gets_the_defaults_at_every_depth() -> None:
    assert form().answer({"verdict": "yes", "lines": [{"name": "a"}]}) == {
        "verdict": "yes",
        "lines": [{"name": "a", "amount": 1.5}],
        "day": None,
        "price": "1.50",
        "colour": "red",
        "counts": {},
        "pair": [1, "a"],
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "result.verdict: missing"),
        ([], "result: must be object"),
        ({"verdict": "maybe"}, 'result.verdict: must be one of "yes", "no"'),
        ({"verdict": "yes", "more": 1}, "result.more: unknown field"),
        ({"verdict": "yes", "lines": [{"name": "A"}]}, "result.lines[0].name: must match the pattern ^[a-z]+$"),
        ({"verdict": "yes", "lines": [{"name": "a", "amount": 10}]}, "result.lines[0].amount: must be less than 10"),
        ({"verdict": "yes", "lines": [{"name": "a"}] * 3}, "result.lines: must have at most 2 items"),
        ({"verdict": "yes", "day": "tomorrow"}, "result.day: must have the format date"),
        ({"verdict": "yes", "counts": {"a": True}}, "result.counts.a: must be integer"),
        ({"verdict": "yes", "colour": "blue"}, 'result.colour: must be one of "red"'),
    ],
)
def test_an_answer_that_the_form_does_not_allow_is_refused_with_the_field(given: Any, said: str) -> None:
    with pytest.raises(TaskResultError) as refused:
        form().answer(given)
    assert said in str(refused.value)
    assert 'the result has verdict ("yes" or "no"), lines (array, [] if left out)' in str(refused.value)


TEXTS = ["yes", "no", "red", "a", "abcdef", "", "2026-01-01", "2026-13-01", "1.5"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 12) | st.sampled_from([0.5, 1.5, 3.0, 10.5, *TEXTS]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["verdict", "lines", "name", "amount", "day", "counts", "pair"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(VALUES)
def test_a_value_is_valid_exactly_if_it_is_for_another_validator_of_json_schema(value: Any) -> None:
    made = schema.of(Answer, "serialization")
    checker = jsonschema.Draft202012Validator(made, format_checker=jsonschema.FormatChecker(["date"]))
    for part in (made, made["properties"]["lines"], made["properties"]["day"], made["properties"]["pair"]):
        expected = checker.evolve(schema=part).is_valid(value)
        assert (not [*schema_values.problems(part, value, "result")]) == expected


@given(st.builds(Answer, verdict=st.just("no"), lines=st.lists(st.builds(Line, name=st.just("ab")), max_size=2)))
def test_what_the_model_writes_satisfies_the_form_and_stays_as_it_is(answer: Answer) -> None:
    written = answer.model_dump(mode="json", by_alias=True)
    assert form().answer(written) == written


def test_checks_go_through_json_and_back() -> None:
    every = (require_file("a/b"), require_dir("c/"), require_glob("**/*.csv", min_count=0, max_count=4), forbid_glob("*.tmp"))
    assert check_json.read(check_json.write(every)) == every


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "the task is no human step of Perago: its input has no form"),
        ({"form": {"version": 2, "result": {}, "more": 1}}, "the form has version 2, and this Perago knows 1; update Perago"),
        ({"form": {"version": 1, "result": {}, "more": 1}}, "the form of the human step cannot be read: it has no more"),
        ({"form": {"version": 1, "result": []}}, "its result is not a schema"),
        ({"form": {"version": 1, "result": {}, "workspace": {}}}, "its workspace must have exactly post, pre, prefix, read_only"),
        ({"form": form(prefix="a/../b").as_json()}, "its workspace cannot be used: prefix"),
        ({"form": form().as_json(), "question": 1}, "the question is not an object"),
        ({"form": form().as_json(), "question": {}, "workspace": WORKSPACE}, "exactly form, question, not form, question, work"),
        ({"form": form(prefix="/").as_json(), "question": {}, "workspace": None}, "workspace is null"),
    ],
)
def test_an_input_that_is_not_understood_is_refused_as_a_whole(given: Any, said: str) -> None:
    with pytest.raises(TaskInputError) as refused:
        human_form.read(given)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "checks", [1, ["x"], [{"require": "x"}], [{"require_file": "x", "min_count": 1}], [{"require_file": "/x"}]]
)
def test_a_check_that_is_not_understood_is_refused(checks: Any) -> None:
    given = form(prefix="/").as_json()
    given["workspace"]["pre"] = checks
    with pytest.raises(TaskInputError, match="the form of the human step cannot be read: "):
        human_form.read({"form": given, "question": {}, "workspace": WORKSPACE})
