"""`Table` and `require_table`: what is wrong in a declaration is named, all at once, and nothing is loaded or read."""

import importlib.util
import subprocess
import sys
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from perago import (
    Between,
    In,
    Matches,
    OneOf,
    Table,
    TaskDefinitionError,
    Unique,
    WorkspaceSpec,
    require_file,
    require_table,
    task,
)
from perago.declare import module_loader
from perago.declare.tables import patterns, table
from perago.declare.task import declaration_of


class Nothing(BaseModel):
    pass


def one(annotation: Any) -> type[Table]:
    return type("One", (Table,), {"__annotations__": {"c": annotation}})


class Recursive(Table):
    inner: "Recursive"


class Unresolved(Table):
    c: "NotThere"  # pyright: ignore[reportUndefinedVariable]  # noqa: F821


class Empty(Table):
    pass


refused: Any = require_table
"""For calls that a type checker refuses."""

REFUSED: list[tuple[Any, str]] = [
    (require_table("/a"), "path: '/a' is absolute; write it relative to the workspace root: 'a'"),
    (require_table("a/../b"), "path: 'a/../b' leaves the root through '..'"),
    (require_table("a", dict), "schema: must be a class that is derived from perago.Table"),
    (require_table("a", Table), "schema: must be a class of your own"),
    (require_table("a", Empty), "schema: Empty declares no column"),
    (require_table("a", Unresolved), "schema: annotation 'NotThere' of Unresolved cannot be resolved"),
    (require_table("a", Recursive), "schema.inner: Recursive contains itself"),
    (require_table("a", one(set[int])), "schema.c: no column has the type set[int]; write one of int,"),
    (require_table("a", one(int | str)), "schema.c: no column has the type int | str"),
    (require_table("a", one(Annotated[int, Unique])), "schema.c: has the class Unique; write Unique(...)"),
    (require_table("a", one(Annotated[int, require_file("a")])), "schema.c: must be Unique, In, Between, OneOf or Matches"),
    (require_table("a", one(Annotated[list[int], Unique()])), "schema.c: Unique needs a single value, not list"),
    (require_table("a", one(Annotated[int, Between(None, None)])), "schema.c.Between: needs low or high"),
    (require_table("a", one(Annotated[int, Between(2, 1)])), "schema.c.Between.low: 2 is above high=1; exchange them"),
    (require_table("a", one(Annotated[int, Between("a", 1)])), "schema.c.Between: low='a' and high=1 cannot be compared"),
    (
        require_table("a", one(Annotated[int, Between(0.5, 1)])),
        "schema.c: Between has 0.5, which is no value of a column of type int",
    ),
    (require_table("a", one(Annotated[float, Between(float("nan"), None)])), "schema.c.Between: NaN is no bound"),
    (
        require_table("a", one(Annotated[bool, Between(False, True)])),
        "schema.c.Between.low: must be a number, str, date or datetime",
    ),
    (
        require_table("a", one(Annotated[date, Between(datetime.fromisoformat("2026-01-01"), None)])),
        "schema.c: Between has datetime",
    ),
    (require_table("a", one(Annotated[str, OneOf()])), "schema.c.OneOf: needs values"),
    (
        require_table("a", one(Annotated[str, OneOf("a", None)])),
        "schema.c.OneOf.[1]: must not be None; write the column as 'str | None'",
    ),
    (require_table("a", one(Annotated[str, OneOf(1)])), "schema.c: OneOf has 1, which is no value of a column of type str"),
    (require_table("a", one(Annotated[int, Matches("a")])), "schema.c: Matches needs a str column, not int"),
    (require_table("a", one(Annotated[str, Matches("(")])), "schema.c.Matches.pattern: '(' is not a regular expression"),
    (require_table("a", one(Annotated[int, In("/a", "")])), "schema.c.In.path: '/a' is absolute"),
    (refused("a", rows=5), "rows: must be (least, most) such as (1, None), not 5"),
    (refused("a", rows=(0.5, None)), "rows: must have whole numbers"),
    (require_table("a", rows=(-1, None)), "rows: must not be negative"),
    (require_table("a", rows_change=(None, None)), "rows_change: has no bound"),
    (refused("a", where="x > 1"), "where: must be a dict of SQL expressions by name"),
    (require_table("a", where={"x": ""}), "where['x']: must be an SQL expression"),
    (require_table("a", where={"x": "1; drop"}), "where['x']: must be one expression, without ';' and '--'"),
    (require_table("a", max_bad=1.0), "max_bad: must be a share of the rows from 0 to below 1"),
    (require_table("a", key=[]), "key: must be a column or several"),
    (require_table("a", key=["x", "x"]), "key: names a column twice"),
    (require_table("a", extra=False), "extra: needs a schema"),
    (require_table("a", format="avro"), "format: must be one of 'parquet', 'csv', 'json', 'orc', 'delta', not 'avro'"),
    (refused("a", colums=3), "colums: unknown; accepted are path, schema"),
]


@pytest.mark.parametrize(("check", "text"), REFUSED, ids=[text for _, text in REFUSED])
def test_refused(check: Any, text: str) -> None:
    found = [str(problem) for problem in check.problems()]
    assert any(line.startswith(text) for line in found), found


WRONG: list[Any] = [require_table, lambda: ()]


def test_all_problems_are_named_with_their_place() -> None:
    spec = WorkspaceSpec(pre=[require_table("/a", rows_change=(1, 2), compatible=True)], post=WRONG)
    assert [problem.field for problem in spec.problems()] == [
        "pre[0].path",
        "pre[0].rows_change",
        "pre[0].compatible",
        "post[0]",
        "post[1]",
    ]


def test_columns_and_their_fields_in_order() -> None:
    class Inner(Table):
        y: Annotated[int, Between(1, None)]

    class Outer(Table):
        a: Annotated[int | None, Unique()]
        b: Inner | None
        c: list[str]

    columns, problems = table.read(Outer)
    assert problems == []
    assert [(column.name, column.nullable, len(column.rules)) for column in columns] == [
        ("a", True, 1),
        ("b", True, 0),
        ("b.y", False, 1),
        ("c", False, 0),
    ]


@pytest.mark.parametrize("pattern", ["[a-z]+", "^a|b$", r"\d{3}\.\w*", "(?:a|b)?", r"[\[\]]", "[^'\"]*", r"a\$"])
def test_patterns_that_all_engines_read_alike(pattern: str) -> None:
    assert patterns.problem(pattern) is None


@pytest.mark.parametrize(
    "pattern", [r"(a)\1", "(?=a)", "(?i)a", "(?P<n>a)", "a++", r"\bx", r"\p{L}", "[a[b]]", "a{2000}", "a^b", "("]
)
def test_patterns_that_are_refused(pattern: str) -> None:
    assert patterns.problem(pattern) is not None


def test_declaring_loads_no_engine() -> None:
    code = (
        "import sys, perago; perago.require_table('a', type('T', (perago.Table,), {'__annotations__': {'a': int}}), key='a');"
        "print([name for name in ('duckdb', 'pyspark', 'pandera', 'pandas', 'pyarrow') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_task_whose_checks_need_duckdb_is_refused_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    @task(name="t", owner_email="a@example.com", workspace=WorkspaceSpec(post=[require_table("a", rows=(1, None))]))
    def declared(workspace: Path, params: Nothing) -> Nothing:
        del workspace
        return params

    declaration = declaration_of(declared)
    assert declaration is not None
    module_loader.require_packages("shop.clean", [declaration])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "duckdb" else object())
    with pytest.raises(
        TaskDefinitionError,
        match=r"^shop\.clean: uses require_table, and duckdb is not installed; run: pip install 'duckdb>=1\.4'$",
    ):
        module_loader.require_packages("shop.clean", [declaration])
