"""Closed schemas of random models: no reference, no title, every object closed, and equivalent to the model."""

import json
import math
from collections.abc import Iterator
from dataclasses import make_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, cast
from uuid import UUID

import jsonschema
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pydantic import Base64Bytes, BaseModel, ConfigDict, Field, ValidationError, computed_field, create_model
from typing_extensions import TypedDict

from perago.declare import schema
from perago.declare.contract import Contract
from perago.declare.signature import WorkspaceKind


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


FIELD_NAMES = ["a", "title", "b_c", "properties", "ref", "default", "x1"]

scalars = st.sampled_from(
    [
        int,
        str,
        bool,
        float,
        date,
        datetime,
        Decimal,
        UUID,
        Base64Bytes,
        Colour,
        Literal["x", 1, True],
        Annotated[int, Field(ge=-5, lt=100)],
        Annotated[float, Field(gt=-1.5, allow_inf_nan=False)],
        Annotated[str, Field(min_length=1, max_length=5)],
    ]
)


@st.composite
def fields(draw: st.DrawFn, kinds: st.SearchStrategy[Any]) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(FIELD_NAMES), min_size=0, max_size=3, unique=True))
    made: dict[str, Any] = {}
    for name in names:
        kind = draw(kinds)
        alias = draw(st.sampled_from([None, f"{name}Alias", f"$ref-{name}"]))
        optional = draw(st.booleans())
        ways: list[dict[str, Any]] = [{}, {"exclude": True}, {"serialization_alias": f"{name}-out"}]
        written = draw(st.sampled_from(ways)) if optional else {}
        made[name] = (kind | None if optional else kind, Field(default=None if optional else ..., alias=alias, **written))
    return made


@st.composite
def models(draw: st.DrawFn, kinds: st.SearchStrategy[Any]) -> type[BaseModel]:
    config = draw(st.sampled_from([ConfigDict(extra="allow"), ConfigDict(extra="ignore"), ConfigDict(extra="forbid")]))
    made = create_model("Model", __config__=config, **draw(fields(kinds)))
    return made if draw(st.booleans()) else _with_computed(made)


def _with_computed(base: type[BaseModel]) -> type[BaseModel]:
    class Model(base):
        @computed_field
        @property
        def computed(self) -> dict[str, int]:
            return {"one": 1}

    return Model


@st.composite
def others(draw: st.DrawFn, kinds: st.SearchStrategy[Any]) -> Any:
    """Typed dictionaries and dataclasses."""
    inner = {name: draw(kinds) for name in draw(st.lists(st.sampled_from(FIELD_NAMES), min_size=1, max_size=2, unique=True))}
    if draw(st.booleans()):
        return TypedDict("Typed", inner, total=draw(st.booleans()))  # pyright: ignore[reportArgumentType, reportGeneralTypeIssues]
    return make_dataclass("Data", list(inner.items()))


def composed(kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        kinds.map(lambda k: list[k]),
        kinds.map(lambda k: dict[str, k]),
        kinds.map(lambda k: dict[date, k]),
        kinds.map(lambda k: tuple[int, k]),
        kinds.map(lambda k: k | None),
        st.tuples(kinds, kinds).map(lambda pair: pair[0] | pair[1]),
        models(kinds),
        others(kinds),
    )


any_model = models(st.recursive(scalars, composed, max_leaves=4))


def contract(model: type[BaseModel]) -> Contract:
    made = {"params": schema.of(model, "validation"), "result": schema.of(model, "serialization")}
    closed = [schema.closed_object({name: one}) for name, one in made.items()]
    return Contract(WorkspaceKind.NONE, model, model, *closed)


def schemas_in(node: Any) -> Iterator[dict[str, Any]]:
    """Every place that JSON Schema reads as a schema, found by the words that hold them."""
    if not isinstance(node, dict):
        return
    yield cast("dict[str, Any]", node)
    for word, value in cast("dict[str, Any]", node).items():
        if word in {"properties", "patternProperties"}:
            nested = list(value.values())
        elif word in {"anyOf", "oneOf", "allOf", "prefixItems"}:
            nested = value
        elif word in {"items", "additionalProperties", "propertyNames"}:
            nested = [value]
        else:
            continue
        for one in nested:
            yield from schemas_in(one)


@st.composite
def values(draw: st.DrawFn, wanted: dict[str, Any]) -> Any:
    """A JSON value that the schema allows, drawn from the schema alone."""
    if "default" in wanted and draw(st.booleans()):
        return wanted["default"]
    for word in ("anyOf", "oneOf"):
        if word in wanted:
            return draw(values(draw(st.sampled_from(wanted[word]))))
    if "const" in wanted or "enum" in wanted:
        return draw(st.sampled_from(wanted.get("enum", [wanted.get("const")])))
    return draw(BY_TYPE[wanted["type"]](wanted))


def _objects(wanted: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    if "properties" not in wanted:
        keys = st.dates().map(str) if "propertyNames" in wanted else st.text(max_size=3)
        return st.dictionaries(keys, values(wanted["additionalProperties"]), max_size=2)
    named = {name: values(one) for name, one in wanted["properties"].items()}
    required = {name: one for name, one in named.items() if name in wanted.get("required", ())}
    return st.fixed_dictionaries(required, optional={name: one for name, one in named.items() if name not in required})


def _arrays(wanted: dict[str, Any]) -> st.SearchStrategy[list[Any]]:
    if "prefixItems" in wanted:
        return st.tuples(*(values(one) for one in wanted["prefixItems"])).map(list)
    return st.lists(values(wanted["items"]), max_size=2)


def _numbers(wanted: dict[str, Any]) -> st.SearchStrategy[float]:
    low = wanted.get("exclusiveMinimum", wanted.get("minimum"))
    return st.floats(low, allow_nan=False, allow_infinity=False, exclude_min="exclusiveMinimum" in wanted)


def _integers(wanted: dict[str, Any]) -> st.SearchStrategy[int]:
    high = wanted.get("exclusiveMaximum")
    return st.integers(wanted.get("minimum"), None if high is None else high - 1)


def _texts(wanted: dict[str, Any]) -> st.SearchStrategy[str]:
    if "format" in wanted:
        return {
            "date": st.dates().map(str),
            "date-time": st.datetimes().map(datetime.isoformat),
            "uuid": st.uuids().map(str),
            "base64": st.sampled_from(["", "AP8=", "eHl6"]),
        }[wanted["format"]]
    if "pattern" in wanted:
        return st.from_regex(wanted["pattern"], fullmatch=True, alphabet="0123456789.+-eE")
    return st.text(min_size=wanted.get("minLength", 0), max_size=wanted.get("maxLength", 8))


BY_TYPE: dict[str, Any] = {
    "object": _objects,
    "array": _arrays,
    "number": _numbers,
    "integer": _integers,
    "string": _texts,
    "boolean": lambda _: st.booleans(),
    "null": lambda _: st.none(),
}

slow = settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)


@slow
@given(any_model)
def test_schemas_are_closed_and_self_contained(model: type[BaseModel]) -> None:
    for mode in ("validation", "serialization"):
        made = schema.of(model, mode)
        jsonschema.Draft202012Validator.check_schema(made)
        for one in schemas_in(made):
            assert not {"$ref", "$defs", "discriminator", "title"} & set(one)
            if one.get("type") == "object":
                assert one["additionalProperties"] is False or "properties" not in one
                assert "additionalProperties" in one
        assert json.loads(json.dumps(made, allow_nan=False)) == made


@slow
@given(any_model, st.data())
def test_what_the_schema_allows_the_model_reads_and_what_it_writes_fits_and_survives_json(
    model: type[BaseModel], data: st.DataObject
) -> None:
    made = contract(model)
    value = data.draw(values(made.input_schema["properties"]["params"]))
    jsonschema.validate({"params": value}, made.input_schema)
    params = made.parse_params(value)
    written = made.result_json(params)
    assert json.loads(json.dumps(written, allow_nan=False)) == written
    jsonschema.validate({"result": written}, made.output_schema)


json_values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-9, 9), st.floats(-2, 2), st.sampled_from(["", "x", "red", "2026-01-02", "1.5"])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from([*FIELD_NAMES, "aAlias", "zz"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def near_misses(draw: st.DrawFn, wanted: dict[str, Any]) -> Any:
    """A value that the schema allows, with a part of it replaced, added or removed."""
    value = draw(values(wanted))
    if isinstance(value, dict) and draw(st.booleans()):
        keys = [*wanted["properties"], "zz"]
        return {**value, draw(st.sampled_from(keys)): draw(json_values)}
    return draw(json_values)


@slow
@given(any_model, st.data())
def test_what_the_model_reads_without_coercion_the_schema_allows(model: type[BaseModel], data: st.DataObject) -> None:
    made = contract(model)
    wanted = made.input_schema["properties"]["params"]
    value = data.draw(near_misses(wanted))
    try:
        model.model_validate_json(json.dumps(value), strict=True, extra="forbid", by_alias=True, by_name=False)
    except ValidationError:
        return
    jsonschema.validate({"params": value}, made.input_schema)


class Title(BaseModel):
    title: str = Field(title="dropped", description="kept", default="x")
    lowest: float = Field(default=-math.inf, ge=-math.inf)
    anything: dict[str, Any] = {}


def test_titles_are_dropped_but_a_property_called_title_stays() -> None:
    assert schema.of(Title, "validation") == {
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "kept", "default": "x"},
            "lowest": {"type": "number"},
            "anything": {"type": "object", "additionalProperties": True, "default": {}},
        },
        "additionalProperties": False,
    }


class Amount(BaseModel):
    amount: Decimal


@pytest.mark.parametrize("mode", ["validation", "serialization"])
@pytest.mark.parametrize(
    ("text", "fits"),
    [("1", True), ("-1.50", True), ("1E+5", True), (".5", True), ("abc", False), ("", False), ("0E1000000000000000000", False)],
)
def test_decimals_travel_as_text_with_or_without_an_exponent(
    mode: Literal["validation", "serialization"], text: str, fits: bool
) -> None:
    assert jsonschema.Draft202012Validator(schema.of(Amount, mode)).is_valid({"amount": text}) is fits


class Outer:
    class Same(BaseModel):
        a: int


class Same(BaseModel):
    b: int


class Twins(BaseModel):
    one: Outer.Same
    two: Same


def test_models_that_share_a_name_are_kept_apart() -> None:
    made = schema.of(Twins, "validation")["properties"]
    assert list(made["one"]["properties"]) == ["a"]
    assert list(made["two"]["properties"]) == ["b"]


@pytest.mark.parametrize(
    ("wanted", "value", "misfits"),
    [
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"a": 1}, []),
        (
            {"type": "array", "prefixItems": [{"properties": {}, "additionalProperties": False}]},
            [{"a": 1}],
            ["v[0].a: unknown field"],
        ),
        ({"type": "object", "additionalProperties": {"required": ["x"]}}, {"k": {}}, ["v.k.x: missing"]),
        ({"type": "object", "patternProperties": {"^a": {}}, "additionalProperties": False}, {"ab": 1}, []),
    ],
)
def test_values_that_do_not_fit_the_schema_are_described(wanted: dict[str, Any], value: Any, misfits: list[str]) -> None:
    assert list(schema.violations(wanted, value, "v")) == misfits
