"""Tasks for pipelines under test: without a body, since the tests themselves complete them."""

from datetime import date
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, Field

from perago import WorkspaceSpec, task

OWNER = "tests@example.com"


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Nested(BaseModel):
    name: str
    size: int = 0


class Options(BaseModel):
    n: int = 0
    text: str = ""
    day: date = date(2026, 1, 1)
    colour: Colour = Colour.RED
    maybe: int | None = None
    ratio: float = 0.0
    flag: bool = False
    nested: Nested | None = None
    numbers: list[int] = []
    texts: dict[str, str] = {}


class Numbers(BaseModel):
    n: int
    text: str = ""
    flag: bool = False
    maybe: int | None = None
    ratio: float = 0.0
    day: date = date(2026, 1, 1)
    colour: Colour = Colour.RED
    nested: Nested = Nested(name="")
    numbers: list[int] = []
    other: int = Field(default=0, serialization_alias="otherName", validation_alias="otherInput")


class Item(BaseModel):
    item: int
    text: str = ""


@task(name="tests.write", owner_email=OWNER, workspace=WorkspaceSpec())
def write(workspace: Path, params: Options) -> Numbers:
    raise NotImplementedError


@task(name="tests.read", owner_email=OWNER, workspace=WorkspaceSpec(read_only=True))
def read(workspace: Path, params: Options) -> Numbers:
    raise NotImplementedError


@task(name="tests.plain", owner_email=OWNER)
def plain(params: Options) -> Numbers:
    raise NotImplementedError


@task(name="tests.one", owner_email=OWNER)
def one(params: Item) -> Numbers:
    raise NotImplementedError


@task(name="tests.write_one", owner_email=OWNER, workspace=WorkspaceSpec())
def write_one(workspace: Path, params: Item) -> Numbers:
    raise NotImplementedError
