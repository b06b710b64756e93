"""Models from JSON Schemas: they accept what the schema accepts, and a schema that a contract cannot have is refused."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from perago.declare import schema, schema_model

Json = dict[str, Any]


def closed(required: list[str] | None = None, /, **properties: object) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }


def problems(document: object) -> list[str]:
    return [str(problem) for problem in schema_model.make(document, "params")[1]]


def accepts(document: Json, value: object) -> bool:
    model, wrong = schema_model.make(document, "params")
    assert model is not None, wrong
    try:
        model.model_validate_json(json.dumps(value), extra="forbid", by_alias=True, by_name=False)
    except ValidationError:
        return False
    return True


texts = st.sampled_from(["", "a", "abc", "1", "true", "long enough"])
numbers = st.sampled_from([-3, 0, 1, 2, 7, 1.0, 1.5, -0.5])
scalars: st.SearchStrategy[Any] = st.one_of(texts, numbers, st.booleans(), st.none())
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "json", "b-c", "d"]), inner, max_size=3),
    max_leaves=6,
)
scalar_schemas: st.SearchStrategy[Any] = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "minLength": 2, "pattern": "^[a-z]*$"},
        {"type": "integer"},
        {"type": "integer", "minimum": 0, "exclusiveMaximum": 7},
        {"type": "number"},
        {"type": "number", "exclusiveMinimum": -0.5, "maximum": 2},
        {"type": "boolean"},
        {"type": "null"},
        {"type": ["string", "null"]},
        {"enum": ["a", 1, True, None]},
        {"const": "abc"},
        {"$ref": "#/$defs/short"},
    ]
)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    objects = st.dictionaries(st.sampled_from(["a", "json", "b-c"]), inner, max_size=2).map(lambda found: closed(**found))
    return st.one_of(
        inner.map(lambda one: {"type": "array", "items": one, "maxItems": 2}),
        inner.map(lambda one: {"type": "object", "additionalProperties": one}),
        st.lists(inner, min_size=1, max_size=2).map(lambda some: {"anyOf": some}),
        objects,
    )


schemas: st.SearchStrategy[Any] = st.recursive(scalar_schemas, nested, max_leaves=4)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schemas, values)
def test_a_model_accepts_what_its_schema_accepts(inner: Json, value: Any) -> None:
    document = {**closed(field=inner), "$defs": {"short": {"type": "string", "maxLength": 3}}}
    is_valid = jsonschema.Draft202012Validator(document).is_valid({"field": value})
    assert accepts(document, {"field": value}) == is_valid


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schemas, values)
def test_the_schema_of_the_model_accepts_what_the_schema_accepts(inner: Json, value: Any) -> None:
    """It is what Conductor gets."""
    document = {**closed(field=inner), "$defs": {"short": {"type": "string", "maxLength": 3}}}
    model, _ = schema_model.make(document, "params")
    assert model is not None
    registered = schema.of(model, "validation")
    assert "$ref" not in json.dumps(registered)
    is_valid = jsonschema.Draft202012Validator(document).is_valid({"field": value})
    assert jsonschema.Draft202012Validator(registered).is_valid({"field": value}) == is_valid


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("integer", "1"),
        ("integer", True),
        ("integer", 1.5),
        ("number", "1"),
        ("number", True),
        ("string", 1),
        ("boolean", 1),
        ("boolean", "true"),
        ("null", 0),
        ("null", ""),
    ],
)
def test_values_are_not_converted(name: str, value: object) -> None:
    assert not accepts(closed(a={"type": name}), {"a": value})


def test_defaults_are_filled_in() -> None:
    row = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
    document = closed([], title={"type": "string", "default": "T"}, row={**row, "default": {"n": 1}})
    model, _ = schema_model.make(document, "params")
    assert model is not None
    assert model.model_validate_json("{}").model_dump(by_alias=True) == {"title": "T", "row": {"n": 1}}


@pytest.mark.parametrize("name", ["json", "model_x", "class", "page-title", "_a", "ä", "", "1", "copy", "a b"])
def test_fields_may_have_any_name(name: str) -> None:
    document = closed(**{name: {"type": "integer"}, "field": {"type": "integer"}})
    model, _ = schema_model.make(document, "params")
    assert model is not None
    given = {name: 1, "field": 2}
    assert model.model_validate_json(json.dumps(given), by_alias=True, by_name=False).model_dump(by_alias=True) == given


LOOP = {**closed(x={"$ref": "#/$defs/tree"}), "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([], "params: must be a schema, which is an object, not []"),
        (closed(a=True), "params.a: must be a schema, which is an object, not True"),
        ({"type": "string"}, 'params: must be an object with named fields; write "type": "object" and "properties"'),
        ({"type": "object", "properties": {}}, 'params: accepts unknown fields; write "additionalProperties": false'),
        (
            closed(a={"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}),
            'params.a: accepts unknown fields; write "additionalProperties": false',
        ),
        (
            closed(a={"type": "object", "additionalProperties": True}),
            (
                'params.a: may have any fields; write "properties" and "additionalProperties": false, '
                'or the schema of its values as "additionalProperties"'
            ),
        ),
        (closed(a={"type": "array"}), 'params.a: has no "items", so its items may be anything; write their schema'),
        (
            closed(a={}),
            'params.a: has no "type", so it accepts anything; write one of object, array, string, integer, number, boolean, null',
        ),
        (
            LOOP,
            "params.x[]: '#/$defs/tree' contains itself; a contract has no recursive schemas: write the depth that is needed",
        ),
        (
            closed(a={"$ref": "#"}),
            "params.a: '#' contains itself; a contract has no recursive schemas: write the depth that is needed",
        ),
        (closed(a={"$ref": "#/$defs/none"}), "params.a: '#/$defs/none' is not in the document"),
        (
            closed(a={"$ref": "https://example.com/x.json"}),
            (
                "params.a: \"$ref\" 'https://example.com/x.json' leaves the document; "
                'write the schema into its "$defs" and refer to it there'
            ),
        ),
        (
            closed(a={"type": "text"}),
            "params.a: type must be one of object, array, string, integer, number, boolean, null, not 'text'",
        ),
        (
            closed(a={"type": "string", "minLenght": 1}),
            "params.a: the keyword 'minLenght' is not supported in a contract: unknown; did you mean 'minLength'?",
        ),
        (
            closed(a={"type": "string", "format": "date"}),
            "params.a: the keyword 'format' is not supported in a contract: write a pattern",
        ),
        (closed(a={"oneOf": []}), "params.a: the keyword 'oneOf' is not supported in a contract: write anyOf"),
        (
            closed(a={"type": "string", "minimum": 1}),
            "params.a: minimum does not apply here; accepted are type, minLength, maxLength, pattern",
        ),
        (closed(a={"type": "string", "minLength": "1"}), "params.a: minLength must be a number, not '1'"),
        (closed(a={"type": "string", "minLength": -1}), "params.a: minLength must be at least 0, not -1"),
        (
            closed(a={"type": "string", "pattern": "(?=x)"}),
            "params.a: pattern '(?=x)' cannot be used: look-around, including look-ahead and look-behind, is not supported",
        ),
        (closed(["a", "b"], a={"type": "null"}), 'params: "required" names \'b\', which is not in "properties"'),
        (closed([], a={"type": "null"}), 'params.a: is not in "required" and has no "default"; write one of them'),
        (closed(a={"type": "null", "default": None}), 'params.a: is in "required" and has a "default"; keep one of them'),
        (
            closed([], a={"type": "integer", "default": "x"}),
            "params.a: its default 'x' is not valid: Input should be a valid integer",
        ),
        (closed(a={"enum": [1.5]}), "params.a: the value 1.5 cannot be a fixed one; write text, integers, booleans or null"),
        (closed(a={"type": "string", "enum": [1]}), "params.a: the value 1 is not of type string"),
        (closed(a={"anyOf": []}), "params.a: anyOf must be a list of schemas"),
    ],
)
def test_a_schema_that_a_contract_cannot_have_is_refused(document: object, said: str) -> None:
    assert problems(document) == [said]


def test_references_that_grow_without_end_are_refused() -> None:
    """Each level refers to the next one twice: 2 to the power of 40 schemas."""
    levels: Json = {f"l{n}": closed(a={"$ref": f"#/$defs/l{n + 1}"}, b={"$ref": f"#/$defs/l{n + 1}"}) for n in range(40)}
    document = {**closed(x={"$ref": "#/$defs/l0"}), "$defs": {**levels, "l40": {"type": "null"}}}
    (said,) = problems(document)
    assert said.endswith("has more than 20,000 parts after all references are inlined; write a flatter schema")
