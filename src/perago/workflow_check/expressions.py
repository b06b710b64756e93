"""The `${…}` expressions in a JSON value: where they are, and which step, input or variable each of them reads."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

_STEP = re.compile(r"\.?([^.\[\]'\"()\s]+)|\[\s*'([^']*)'\s*\]|\[\s*\"([^\"]*)\"\s*\]|\[\s*(\d+)\s*\]")
_ITERATION = re.compile(r"__\d+$")
SCRIPT_FIELDS = frozenset({"expression", "scriptExpression", "queryExpression", "loopCondition", "caseExpression"})
"""Program text, in which `${` may belong to the other language."""


@dataclass(frozen=True, slots=True)
class Expression:
    """`path` has the names that were understood; `complete` says whether they are all of it."""

    text: str
    path: tuple[str, ...]
    complete: bool = True

    @property
    def root(self) -> str:
        """The step's reference name, or `workflow`."""
        return self.path[0] if self.path else ""

    @property
    def is_workflow(self) -> bool:
        return self.root == "workflow"

    @property
    def variable(self) -> str | None:
        """The workflow variable that it reads."""
        return self.path[2] if self.path[:2] == ("workflow", "variables") and len(self.path) > 2 else None  # noqa: PLR2004

    @property
    def workflow_input(self) -> str | None:
        return self.path[2] if self.path[:2] == ("workflow", "input") and len(self.path) > 2 else None  # noqa: PLR2004

    def __str__(self) -> str:
        return f"${{{self.text}}}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value is, as `params.table[0]`; `in_script`: in program text."""

    path: tuple[str | int, ...] = ()

    def below(self, step: str | int) -> "Place":
        return Place((*self.path, step))

    @property
    def in_script(self) -> bool:
        return any(step in SCRIPT_FIELDS for step in self.path)

    def __str__(self) -> str:
        text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return text.removeprefix(".")


def found_in(value: Any, place: Place | None = None) -> Iterator[tuple[Place, Expression]]:
    """Every expression in a JSON value, in its order."""
    here = place or Place()
    if isinstance(value, str):
        yield from ((here, one) for one in in_text(value))
    elif isinstance(value, Mapping):
        for name, one in cast("Mapping[str, Any]", value).items():
            yield from found_in(one, here.below(name))
    elif isinstance(value, list):
        for index, one in enumerate(cast("list[Any]", value)):
            yield from found_in(one, here.below(index))


def whole(value: object) -> Expression | None:
    """The expression that is the whole text, so that the value has the type of what it refers to."""
    if not isinstance(value, str):
        return None
    text = value.strip()
    end = _end(text, 0) if text.startswith("${") else None
    return parse(text[2 : end - 1]) if end == len(text) and end is not None else None


def in_text(text: str) -> Iterator[Expression]:
    """The expressions in a text; `$${` is Conductor's way to write a literal `${`."""
    start = text.find("${")
    while start >= 0:
        end = _end(text, start)
        if end is None:
            return
        inside = text[start + 2 : end - 1]
        if "${" in inside:
            # The inner one is a part of the path, which only a run knows.
            yield from in_text(inside)
        elif not (start > 0 and text[start - 1] == "$"):
            yield parse(inside)
        start = text.find("${", end)


def parse(text: str) -> Expression:
    """Of what stands between the braces. Filters, functions and other parts of JsonPath end the path."""
    rest, path = text.strip().removeprefix("$."), list[str]()
    while rest:
        match = _STEP.match(rest)
        if match is None or (match[1] is not None and match[1] in {"*", "$", "@"}):
            return Expression(text, tuple(path), complete=False)
        path.append(next(group for group in match.groups() if group is not None))
        rest = rest[match.end() :]
        if rest.startswith("("):
            # The name of a function, such as length(), is not a field.
            return Expression(text, tuple(path[:-1]), complete=False)
    return Expression(text, tuple(path))


def without_iteration(ref: str) -> str:
    """`train` for `train__2`, which is how Conductor names the second iteration of a step in a loop."""
    return _ITERATION.sub("", ref)


def _end(text: str, start: int) -> int | None:
    """The position after the brace that closes the expression that begins at `start`."""
    depth = 0
    for position in range(start + 1, len(text)):
        if text[position] == "{":
            depth += 1
        elif text[position] == "}":
            depth -= 1
            if depth == 0:
                return position + 1
    return None
