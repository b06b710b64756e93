from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Annotated, Any, Literal, NewType

import pytest
from pydantic import BaseModel, Field

from perago.pipelines.declaration import type_rules
from perago.pipelines.declaration.model_fields import Form
from perago.pipelines.declaration.type_rules import Forms


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Shade(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Base(BaseModel):
    n: int


class Same(Base):
    """No more fields than its base."""


class More(Base):
    m: int = 0


class Renamed(BaseModel):
    n: int = Field(serialization_alias="number")


UserId = NewType("UserId", int)

FITS = [
    (int, int),
    (bool, int),
    (int, float),
    (Level, int),
    (Colour, str),
    (UserId, int),
    (Annotated[int, Field(ge=0)], Annotated[int, Field(ge=5)]),
    (int, int | None),
    (None, int | None),
    (int | str, str | int | None),
    (int, Any),
    (Any, int),
    (dict[str, Any], dict[str, int]),
    (list[int], list[float]),
    (list[int], Sequence[int]),
    (set[int], list[int]),
    (tuple[int, ...], list[int]),
    (tuple[int, str], tuple[int, str]),
    (tuple[int, int], list[int]),
    (dict[str, int], Mapping[str, float]),
    (list[int], list[Any]),
    (Literal["a"], Literal["a", "b"]),
    (Literal["a"], str),
    (Literal[1, 2], int),
    (Colour, Literal["red", "blue", "green"]),
    (Colour, Colour),
    (Base, Base),
    (Same, Base),
    (list[Base], list[Base | None]),
    (Decimal, Decimal),
]

DOES_NOT_FIT = [
    (int, str),
    (str, int),
    (float, int),
    (int | None, int),
    (int | str, int),
    (datetime, date),
    (date, str),
    (Colour, Shade),
    (str, Colour),
    (Literal["a", "b"], Literal["a"]),
    (str, Literal["a"]),
    (Literal[1], Literal[True]),
    (Literal["red"], Colour),
    (Colour, Literal["red"]),
    (list[int], list[str]),
    (list[int], int),
    (int, list[int]),
    (list[int], tuple[int, int]),
    (tuple[int, str], tuple[int, int]),
    (tuple[int, int], tuple[int]),
    (dict[str, int], dict[str, str]),
    (dict[str, int], list[int]),
    (list[int | None], list[int]),
    (More, Base),
    (Base, More),
    (Base, Renamed),
    (Renamed, Renamed),
    (Base, int),
    (dict[str, int], Base),
]


@pytest.mark.parametrize(("given", "wanted"), FITS)
def test_fits(given: Any, wanted: Any) -> None:
    assert type_rules.fits(given, wanted, Forms(Form.WRITTEN))


@pytest.mark.parametrize(("given", "wanted"), DOES_NOT_FIT)
def test_does_not_fit(given: Any, wanted: Any) -> None:
    assert not type_rules.fits(given, wanted, Forms(Form.WRITTEN))


def test_a_model_that_is_read_and_read_again_has_one_form() -> None:
    assert type_rules.fits(Renamed, Renamed, Forms(Form.READ))


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (int | None, "int | None"),
        (list[dict[str, Base]], "list[dict[str, Base]]"),
        (tuple[int, ...], "tuple[int, ...]"),
        (Literal["a", 1], "Literal['a', 1]"),
        (Annotated[int, Field(ge=0)], "int"),
        (Any, "Any"),
    ],
)
def test_types_are_shown_as_they_are_written(annotation: Any, text: str) -> None:
    assert type_rules.shown(annotation) == text
