"""Models that Conductor's JSON cannot carry, or that no closed schema can describe, are refused with the field's name."""

from collections.abc import Callable, Iterable
from enum import Enum
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

import pytest
from pydantic import (
    AliasChoices,
    AliasPath,
    Base64Bytes,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    RootModel,
    SecretStr,
    WithJsonSchema,
    create_model,
    field_serializer,
    model_serializer,
)

from perago.declare import contract_builder, schema


class Empty(BaseModel):
    pass


class Thing:
    pass


class Tuples(Enum):
    A = (1, 2)


class Numbers(Enum):
    A = 1


class Words(Enum):
    A = "a"


class Leaf(BaseModel):
    leaf: "Tree | None" = None


class Tree(BaseModel):
    children: list["Leaf"] = []


class Rooted(RootModel[list[int]]):
    pass


class Hexed(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    raw: bytes


T = TypeVar("T")


class Page(BaseModel, Generic[T]):
    items: list[T]


def problems(params: type[BaseModel] = Empty, result: type[BaseModel] = Empty) -> list[str]:
    def body(params): ...  # noqa: ANN001, ANN202

    body.__annotations__ = {"params": params, "return": result}
    return [str(problem) for problem in contract_builder.build_contract(body, has_workspace=False).problems]


def holding(kind: Any, default: Any = ...) -> type[BaseModel]:
    return create_model("Holder", __config__=ConfigDict(arbitrary_types_allowed=True), f=(kind, default))


NO_FORM = "cannot be represented in JSON; write a type that can, such as str or a model"
KEYS = "JSON keys are strings, not {}; write dict[str, ...]"

NEITHER: list[tuple[Any, str]] = [
    (Thing, f"f: a type without a JSON form {NO_FORM}"),
    (list[Thing], f"f[]: a type without a JSON form {NO_FORM}"),
    (Thing | int, f"f: a type without a JSON form {NO_FORM}"),
    (Callable[[], int], f"f: a callable {NO_FORM}"),
    (Callable[[], int] | int, f"f: a callable {NO_FORM}"),
    (type[int], f"f: a class {NO_FORM}"),
    (Iterable[int], f"f: an iterator {NO_FORM}"),
    (dict[int, str], f"f: {KEYS.format('int')}"),
    (dict[str, dict[float, str]], f"f[]: {KEYS.format('float')}"),
    (dict[tuple[int, int], str], f"f: {KEYS.format('tuple')}"),
    (dict[bytes, str], f"f: {KEYS.format('bytes')}"),
    (dict[str | int, str], f"f: {KEYS.format('int')}"),
    (dict[Numbers, str], f"f: {KEYS.format('int')}"),
    (dict[Literal[1], str], f"f: {KEYS.format('int')}"),
    (Tuples, "f: the value (1, 2) has no JSON form of its own; write text, whole numbers or booleans"),
    (Literal[b"x"], "f: the value b'x' has no JSON form of its own; write text, whole numbers or booleans"),
    (Tree, "f.children[].leaf: Tree contains itself; a contract has no recursive models: write the depth that is needed"),
]


@pytest.mark.parametrize(("kind", "message"), NEITHER)
def test_what_json_cannot_carry_is_refused_in_both_directions(kind: Any, message: str) -> None:
    assert problems(params=holding(kind)) == [f"params.{message}"]
    assert problems(result=holding(kind)) == [f"result.{message}"]


BOTH: list[Any] = [
    Any,
    JsonValue,
    dict,
    dict[str, Any],
    dict[Words, int],
    dict[Literal["a"], int],
    list[tuple[int, str]],
    frozenset[int],
    Rooted,
    Base64Bytes,
    Page[int],
    None,
    complex,
    Words | Numbers | None,
]


@pytest.mark.parametrize("kind", BOTH)
def test_what_json_can_carry_is_accepted_in_both_directions(kind: Any) -> None:
    assert problems(holding(kind), holding(kind)) == []


def test_bytes_are_read_as_text_but_written_only_with_an_encoding() -> None:
    assert problems(params=holding(bytes)) == []
    assert problems(result=holding(list[bytes])) == [
        "result.f[]: bytes that are not UTF-8 text have no JSON form; write pydantic.Base64Bytes, or a file in the workspace"
    ]
    assert problems(result=Hexed) == []


def test_a_serializer_or_a_validator_can_give_a_foreign_type_its_json_form() -> None:
    written = Annotated[Thing, PlainSerializer(lambda _: "thing", return_type=str)]
    assert problems(result=holding(written)) == []
    read = Annotated[Thing, BeforeValidator(lambda _: Thing(), json_schema_input_type=str)]
    assert problems(params=holding(read)) == []


def test_excluded_fields_do_not_travel() -> None:
    assert problems(result=holding(Thing, Field(exclude=True))) == []


def test_aliases_that_a_closed_schema_cannot_say_are_refused_in_params() -> None:
    message = "params.f: AliasPath and AliasChoices cannot be expressed in a closed schema; write one validation_alias"
    for alias in (AliasChoices("a", "b"), AliasPath("a", 0)):
        model = holding(int, Field(validation_alias=alias))
        assert problems(params=model) == [message]
        assert problems(result=model) == []


def test_a_model_that_mentions_an_unknown_name_is_refused() -> None:
    class Broken(BaseModel):
        f: "Nowhere"  # pyright: ignore[reportUndefinedVariable]  # noqa: F821

    assert problems(params=Broken) == ["params: Broken mentions 'Nowhere', which is not defined; define it above the task"]


def test_a_result_that_is_no_object_in_json_is_refused() -> None:
    class AsText(BaseModel):
        @model_serializer
        def _text(self) -> str:
            return "x"

    assert problems(result=AsText) == ["result: is not an object with named fields in JSON; remove its own serializer"]


def test_a_type_whose_schema_cannot_be_made_is_refused() -> None:
    class Odd(BaseModel):
        f: Annotated[Thing, BeforeValidator(lambda _: Thing()), WithJsonSchema({"type": "string"})]

        model_config = ConfigDict(arbitrary_types_allowed=True)

    assert problems(params=Odd) == [f"params.f: a type without a JSON form {NO_FORM}"]


def test_a_serializer_without_a_return_annotation_warns_for_results_alone() -> None:
    class Model(BaseModel):
        n: int

        @field_serializer("n")
        def _text(self, value: int):  # noqa: ANN202
            return str(value)

    def body(params): ...  # noqa: ANN001, ANN202

    body.__annotations__ = {"params": Model, "return": Model}
    assert contract_builder.build_contract(body, has_workspace=False).warnings == (
        "result.n: serializer _text has no return annotation, so the output schema allows anything there; annotate it.",
    )


def test_serializers_without_annotation_are_open_in_the_schema_and_pydantics_own_are_not() -> None:
    class Model(BaseModel):
        n: int
        wrapped: int
        path: Path
        address: IPv4Address

        @field_serializer("n")
        def _text(self, value: int):  # noqa: ANN202
            return str(value)

        @field_serializer("wrapped", mode="wrap")
        def _handled(self, value: int, handler: Any):  # noqa: ANN202
            return str(handler(value))

    assert schema.of(Model, "serialization")["properties"] == {
        "n": {},
        "wrapped": {},
        "path": {"type": "string", "format": "path"},
        "address": {"type": "string", "format": "ipv4"},
    }


def test_a_result_whose_serializer_hides_its_fields_is_refused() -> None:
    class Hidden(BaseModel):
        n: int

        @model_serializer(mode="wrap")
        def _more(self, handler: Any):  # noqa: ANN202
            return handler(self) | {"more": 1}

    assert problems(result=Hidden) == ["result: is not an object with named fields in JSON; remove its own serializer"]
    assert problems(params=Hidden) == []


def test_secrets_are_read_but_not_written() -> None:
    assert problems(params=holding(SecretStr)) == []
    assert problems(result=holding(list[SecretStr])) == [
        "result.f[]: a secret is written as asterisks; write str, or exclude the field from the result"
    ]


def test_models_that_double_at_every_level_are_refused_in_good_time() -> None:
    model: type[BaseModel] = Empty
    for level in range(20):
        model = create_model(f"Level{level}", left=(model, ...), right=(model, ...))
    assert problems(params=model) == ["signature: has more than 20,000 parts after all models are inlined; write flatter models"]


def test_problems_of_params_and_result_come_together() -> None:
    assert len(problems(holding(Thing), holding(bytes))) == 2
