"""Checks of files as JSON, for what travels with a task: `{"require_glob": "raw/*.csv", "min_count": 2}`, and back."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, cast

from perago.declare import relative_path
from perago.declare.checks import FILE_CHECKS, FILE_CHECKS_BY_NAME, Check, FileCheck

Json = dict[str, Any]


def write(given: Sequence[Check]) -> list[Json]:
    """Of checks of files only: the code of other ones cannot travel."""
    return [_written(one) for one in given if isinstance(one, FILE_CHECKS)]


def read(given: object) -> tuple[FileCheck, ...]:
    """`ValueError` for what is not a list of checks as `write` makes it."""
    if not isinstance(given, list):
        raise ValueError("the checks are not a list")  # noqa: TRY004  a caller has one case for a form that it does not know
    return tuple(_read(one) for one in cast("list[object]", given))


def _written(check: FileCheck) -> Json:
    name = next(name for name, kind in FILE_CHECKS_BY_NAME.items() if isinstance(check, kind))
    first, *rest = (one for one in fields(check) if one.init)
    others = {one.name: getattr(check, one.name) for one in rest if getattr(check, one.name) != one.default}
    return {name: relative_path.as_text(getattr(check, first.name)), **others}


def _read(given: object) -> FileCheck:
    table = cast("Json", given) if isinstance(given, dict) else {}
    names = [name for name in table if name in FILE_CHECKS_BY_NAME]
    if len(names) != 1:
        raise ValueError(f"{given!r} is not a check that this version of Perago knows")
    kind = FILE_CHECKS_BY_NAME[names[0]]
    first, *rest = (one.name for one in fields(kind) if one.init)
    if unknown := [name for name in table if name not in {names[0], *rest}]:
        raise ValueError(f"the check {names[0]} has no {', '.join(unknown)}")
    check = kind(**{first: table[names[0]], **{name: table[name] for name in rest if name in table}})
    if wrong := list(check.problems()):
        raise ValueError(f"the check {names[0]} cannot be used: {wrong[0]}")
    return check
