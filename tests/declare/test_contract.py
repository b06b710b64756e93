"""The contract at run time: validation of input and result, without unknown fields at any depth."""

import json
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import jsonschema
import pytest
from pydantic import (
    Base64Bytes,
    BaseModel,
    ConfigDict,
    Field,
    SerializeAsAny,
    computed_field,
    field_serializer,
    field_validator,
    model_validator,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import TypedDict

from perago import TaskInputError, TaskResultError
from perago.declare import contract_builder
from perago.declare.contract import MAX_OUTPUT_BYTES, Contract
from perago.model import BranchName, CommitId, Repository, WorkspaceRef


class Empty(BaseModel):
    pass


def contract(params: type[BaseModel] = Empty, result: type[BaseModel] = Empty, *, workspace: bool = False) -> Contract:
    def free(params): ...  # noqa: ANN001, ANN202
    def with_workspace(workspace, params): ...  # noqa: ANN001, ANN202

    function = with_workspace if workspace else free
    function.__annotations__ = {"params": params, "return": result, **({"workspace": Path} if workspace else {})}
    derived = contract_builder.build_contract(function, has_workspace=workspace)
    assert derived.problems == ()
    assert derived.contract is not None
    return derived.contract


REF = {"repository": "r", "branch": "main", "ref_type": "commit", "ref": "abc"}


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int = 1


class Total(TypedDict):
    a: int


class OpenDict(TypedDict):
    __pydantic_config__ = ConfigDict(extra="allow")  # pyright: ignore[reportGeneralTypeIssues]
    a: int


@dataclass
class Plain:
    a: int = 1


@pydantic_dataclass(config=ConfigDict(extra="allow"))
class OpenClass:
    a: int = 1


class Deep(BaseModel):
    model: Open = Open()
    items: list[Open] = []
    named: dict[str, Open] = {}
    either: Open | int = 1
    pair: tuple[int, Open] = (1, Open())
    total: Total = {"a": 1}
    open_dict: OpenDict = {"a": 1}
    plain: Plain = Plain()
    open_class: OpenClass = OpenClass()


UNKNOWN: list[tuple[dict[str, Any], str]] = [
    ({"zz": 1}, "zz"),
    ({"model": {"zz": 1}}, "model.zz"),
    ({"items": [{}, {"zz": 1}]}, "items[1].zz"),
    ({"named": {"k": {"zz": 1}}}, "named.k.zz"),
    ({"either": {"zz": 1}}, "either.Open.zz"),
    ({"pair": [1, {"zz": 1}]}, "pair[1].zz"),
    ({"total": {"a": 1, "zz": 1}}, "total.zz"),
    ({"open_dict": {"a": 1, "zz": 1}}, "open_dict.zz"),
    ({"plain": {"zz": 1}}, "plain.zz"),
    ({"open_class": {"zz": 1}}, "open_class.zz"),
]


@pytest.mark.parametrize(("value", "where"), UNKNOWN)
def test_unknown_fields_are_refused_in_params_at_every_depth(value: dict[str, Any], where: str) -> None:
    with pytest.raises(TaskInputError, match=f"params.{where.replace('[', '.').replace(']', '.')}: unknown field"):
        contract(Deep).parse_input({"params": value})


@pytest.mark.parametrize(("value", "where"), UNKNOWN)
def test_unknown_fields_are_refused_in_a_returned_mapping_at_every_depth(value: dict[str, Any], where: str) -> None:
    with pytest.raises(TaskResultError, match=f"result.{where.replace('[', '.').replace(']', '.')}: unknown field"):
        contract(result=Deep).result_json(value)


HIDDEN: list[tuple[Deep, str]] = [
    (Deep(model=Open.model_validate({"zz": 1})), "model.zz"),
    (Deep(items=[Open(), Open.model_validate({"zz": 1})]), "items[1].zz"),
    (Deep(named={"k": Open.model_validate({"zz": 1})}), "named.k.zz"),
    (Deep(either=Open.model_validate({"zz": 1})), "either.zz"),
    (Deep(pair=(1, Open.model_validate({"zz": 1}))), "pair[1].zz"),
    (Deep.model_validate({"open_dict": {"a": 1, "zz": 1}}), "open_dict.zz"),
]


@pytest.mark.parametrize(("value", "where"), HIDDEN)
def test_unknown_fields_are_refused_in_a_returned_model_that_allowed_them(value: Deep, where: str) -> None:
    with pytest.raises(TaskResultError) as caught:
        contract(result=Deep).result_json(value)
    assert str(caught.value) == f"result does not satisfy the contract: result.{where}: unknown field"


def test_what_a_dataclass_allowed_beside_its_fields_is_not_written() -> None:
    value = Deep(open_class=OpenClass(zz=1))  # pyright: ignore[reportCallIssue]
    assert contract(result=Deep).result_json(value)["open_class"] == {"a": 1}


def test_a_mapping_that_holds_models_is_looked_through_as_well() -> None:
    with pytest.raises(TaskResultError, match=r"result.model.zz: unknown field"):
        contract(result=Deep).result_json({"model": Open.model_validate({"zz": 1})})


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Shared(BaseModel):
    title: str


class Rich(BaseModel):
    aliased: int = Field(alias="Aliased")
    read_as: int = Field(validation_alias="readAs")
    colour: Colour
    level: Level
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    either: int | str | None
    day: date
    moment: datetime
    span: timedelta
    amount: Decimal
    id: UUID
    blob: Base64Bytes
    tags: set[str]
    one: Shared
    two: Shared
    by_day: dict[date, Decimal]
    strict_day: date = Field(strict=True)
    path: Path
    later: int = 7


RICH: dict[str, Any] = {
    "Aliased": 1,
    "readAs": 2,
    "colour": "red",
    "level": 1,
    "pet": {"kind": "dog", "name": "Rex"},
    "either": None,
    "day": "2026-01-02",
    "moment": "2026-01-02T03:04:05Z",
    "span": "P1DT2H",
    "amount": "12.30",
    "id": "12345678-1234-5678-1234-567812345678",
    "blob": "AP8=",
    "tags": ["a"],
    "one": {"title": "x"},
    "two": {"title": "y"},
    "by_day": {"2026-01-02": "1E+5"},
    "strict_day": "2026-01-03",
    "path": "a/b",
}


def test_rich_params_are_read_from_their_json_form() -> None:
    made = contract(Rich)
    jsonschema.validate({"params": RICH}, made.input_schema)
    params = made.parse_input({"params": RICH}).params
    assert isinstance(params, Rich)
    assert params.aliased == 1
    assert params.read_as == 2
    assert params.colour is Colour.RED
    assert params.pet == Dog(kind="dog", name="Rex")
    assert params.moment == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert params.span == timedelta(days=1, hours=2)
    assert params.amount == Decimal("12.30")
    assert params.blob == b"\x00\xff"
    assert params.by_day == {date(2026, 1, 2): Decimal("1E+5")}
    assert params.strict_day == date(2026, 1, 3)
    assert params.later == 7


def test_rich_results_are_written_in_a_json_form_that_fits_the_schema() -> None:
    made = contract(Rich, Rich)
    params = made.parse_input({"params": RICH}).params
    written = made.result_json(params)
    assert json.loads(json.dumps(written, allow_nan=False)) == written
    assert written == {**{k: v for k, v in RICH.items() if k != "readAs"}, "later": 7, "read_as": 2}
    jsonschema.validate({"result": written}, made.output_schema)


class Written(BaseModel):
    secret: str = Field(exclude=True)
    out: int = Field(serialization_alias="OUT")
    even: int | None = Field(default=None, exclude_if=lambda v: v is None)

    @computed_field(alias="Double")
    @property
    def double(self) -> int:
        return self.out * 2


def test_excluded_computed_and_aliased_fields_of_a_result() -> None:
    made = contract(result=Written)
    schema = made.output_schema["properties"]["result"]
    assert sorted(schema["properties"]) == ["Double", "OUT", "even"]
    assert sorted(schema["required"]) == ["Double", "OUT"]
    assert made.result_json(Written(secret="s", out=2)) == {"OUT": 2, "Double": 4}
    assert made.result_json({"secret": "s", "out": 2, "even": 4}) == {"OUT": 2, "even": 4, "Double": 4}


class ByName(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    n: int = Field(alias="N")


def test_params_are_read_by_the_names_of_the_schema_alone() -> None:
    made = contract(ByName)
    assert made.parse_params({"N": 1}) == ByName(N=1)
    with pytest.raises(TaskInputError, match=r"params\.N: Field required; params\.n: unknown field"):
        made.parse_params({"n": 1})


class Limits(BaseModel):
    name: str = Field(min_length=2)
    n: int = Field(ge=1)

    @field_validator("name")
    @classmethod
    def _lower(cls, value: str) -> str:
        if value != value.lower():
            raise ValueError("write it in lower case")
        return value


FOUND_NOTHING = (
    "the expression in the workflow's inputParameters found nothing; check the names of the step or input that it refers to"
)
WRONG_INPUT: list[tuple[Any, str]] = [
    ({}, "input.params: missing"),
    ({"params": {"name": "ab", "n": 1}, "more": 1}, "input.more: unknown field; input has exactly params"),
    ({"params": {"name": "ab", "n": 1}, "workspace": REF}, "input.workspace: unknown field; input has exactly params"),
    ({"params": None}, f"params is null: {FOUND_NOTHING}"),
    (
        {"params": {"name": "ab", "n": None}},
        "params.n: Input should be a valid integer, not null; in a workflow, an expression in ",
    ),
    ({"params": []}, "params: Input should be an object"),
    ({"params": {"n": 0}}, "params.name: Field required; params.n: Input should be greater than or equal to 1"),
    ({"params": {"name": "AB", "n": 1}}, "params.name: Value error, write it in lower case"),
    ({"params": {"name": "ab", "n": 1.5}}, "params.n: Input should be a valid integer, got a number with a fractional part"),
    ({"params": {"name": "ab", "n": math.nan}}, "params: not JSON: Out of range float values are not JSON compliant"),
    ({"params": {"name": "ab", "n": object}}, "params: not JSON: Object of type type is not JSON serializable"),
]


@pytest.mark.parametrize(("given", "message"), WRONG_INPUT)
def test_input_that_is_refused(given: Any, message: str) -> None:
    with pytest.raises(TaskInputError) as caught:
        contract(Limits).parse_input(given)
    assert str(caught.value).startswith(f"input does not satisfy the contract: {message}")


def test_the_value_of_a_wrong_field_is_not_told() -> None:
    with pytest.raises(TaskInputError) as caught:
        contract(Limits).parse_params({"name": "ab", "n": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_many_problems_are_cut() -> None:
    with pytest.raises(TaskInputError) as caught:
        contract(Empty).parse_params({f"x{i}": 1 for i in range(13)})
    assert str(caught.value).endswith("params.x9: unknown field; and 3 more")


WRONG_WORKSPACE: list[tuple[Any, str]] = [
    (None, f"workspace is null: {FOUND_NOTHING}"),
    ({**REF, "ref_type": None}, f"workspace.ref_type is null: {FOUND_NOTHING}"),
    ({**REF, "ref_type": "branch"}, "workspace.ref_type: must be 'commit': only a commit id never changes"),
    ({**REF, "ref": ""}, "workspace.ref: must be text that is not empty"),
    ({**REF, "branch": 3}, "workspace.branch: must be text that is not empty"),
    ({k: v for k, v in REF.items() if k != "repository"}, "workspace.repository: missing"),
    ({**REF, "endpoint": "x"}, "workspace.endpoint: unknown field; workspace has exactly repository, branch, ref_type, ref"),
]


@pytest.mark.parametrize(("given", "message"), WRONG_WORKSPACE)
def test_workspace_input_that_is_refused(given: Any, message: str) -> None:
    with pytest.raises(TaskInputError) as caught:
        contract(workspace=True).parse_input({"workspace": given, "params": {}})
    assert str(caught.value) == f"input does not satisfy the contract: {message}"


def test_workspace_and_params_are_refused_together() -> None:
    with pytest.raises(TaskInputError) as caught:
        contract(Limits, workspace=True).parse_input({"params": {"n": 1}})
    assert str(caught.value).endswith("input.workspace: missing; params.name: Field required")


def test_workspace_input_and_output() -> None:
    made = contract(workspace=True)
    call = made.parse_input({"workspace": REF, "params": {}})
    assert call.workspace == WorkspaceRef(Repository("r"), BranchName("main"), CommitId("abc"))
    assert made.output({}, call.workspace) == {"workspace": REF, "result": {}}
    assert contract().output({"n": 1}) == {"result": {"n": 1}}
    with pytest.raises(ValueError, match="a workspace task has a workspace output"):
        made.output({})


class Number(BaseModel):
    x: float = 0
    anything: Any = None


class Derived(Number):
    more: int = 1


class Loose(BaseModel):
    inner: SerializeAsAny[Number]


class Unannotated(BaseModel):
    n: int

    @field_serializer("n")
    def _as_text(self, value: int):  # noqa: ANN202
        return {"text": str(value)}


class Refusing(BaseModel):
    n: int

    @model_validator(mode="after")
    def _never(self) -> "Refusing":
        if self.n > 1:
            raise ValueError("n is too large")
        return self


WRONG_RESULT: list[tuple[type[BaseModel], Any, str]] = [
    (Number, None, "the body returned NoneType; return Number or a mapping"),
    (Number, [1], "the body returned list; return Number or a mapping"),
    (Number, Empty(), "the body returned Empty; return Number or a mapping"),
    (Number, {"x": "high"}, "result.x: Input should be a valid number, unable to parse string as a number"),
    (Number, Number(x=math.inf), "result.x: inf is not a JSON number; write None or text instead"),
    (Number, Number(anything=[{"a": math.nan}]), "result.anything[0].a: nan is not a JSON number; write None or text instead"),
    (Number, Number(anything=object()), "result cannot be written as JSON: Unable to serialize unknown type: <class 'object'>"),
    (Number, Number(anything="\ud800"), "result cannot be written as JSON: "),
    (Number, Derived(), "result.more: unknown field"),
    (Number, Number.model_construct(x="high"), "result cannot be written as JSON: "),
    (Shared, Shared.model_construct(), "result.title: missing"),
    (Loose, Loose(inner=Derived()), "result.inner.more: unknown field"),
    (Refusing, {"n": 2}, "result: Value error, n is too large"),
]


@pytest.mark.parametrize(("model", "returned", "message"), WRONG_RESULT)
def test_results_that_are_refused(model: type[BaseModel], returned: Any, message: str) -> None:
    with pytest.raises(TaskResultError) as caught:
        contract(result=model).result_json(returned)
    assert str(caught.value).removeprefix("result does not satisfy the contract: ").startswith(message)


def test_a_serializer_without_annotation_writes_what_it_likes() -> None:
    made = contract(result=Unannotated)
    assert made.result_json({"n": 1}) == {"n": {"text": "1"}}
    jsonschema.validate({"result": {"n": {"text": "1"}}}, made.output_schema)


def test_whole_numbers_of_any_size_are_carried() -> None:
    assert contract(result=Number).result_json({"anything": 2**70}) == {"x": 0.0, "anything": 2**70}


def test_a_result_as_large_as_conductor_takes_passes_and_one_byte_more_is_refused() -> None:
    made = contract(result=Shared)
    room = MAX_OUTPUT_BYTES - len('{"title":""}')
    assert made.result_json({"title": "x" * room})
    with pytest.raises(TaskResultError) as caught:
        made.result_json({"title": "x" * (room - 1) + "é"})
    assert str(caught.value) == (
        "result is 3,000,001 bytes as JSON, and Conductor accepts at most 3,000,000; "
        "write large data into the workspace and return its path"
    )
