"""Problems of a declaration as values, so that `@task` can report all of them in one `TaskDefinitionError`."""

import dataclasses
import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perago.errors import TaskDefinitionError


@dataclass(frozen=True, slots=True)
class Problem:
    """A field and what is wrong with it, including what to write instead."""

    field: str
    what: str

    def under(self, parent: str) -> "Problem":
        return Problem(f"{parent}.{self.field}" if self.field else parent, self.what)

    def __str__(self) -> str:
        return f"{self.field}: {self.what}" if self.field else self.what


def definition_error(module: str, name: str | None, problems: Sequence[Problem], what: str = "task") -> TaskDefinitionError:
    """One line for one problem; a heading and a line each for several."""
    where = f"{module}: {what} {name!r}" if name else module
    if len(problems) == 1:
        return TaskDefinitionError(f"{where}: {problems[0]}")
    lines = "".join(f"\n  - {problem}" for problem in problems)
    return TaskDefinitionError(f"{where}: {len(problems)} problems{lines}")


def unknown(name: str, known: Iterable[str]) -> Problem:
    """An unknown keyword, with the most similar known one."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"accepted are {', '.join(names)}"
    return Problem(name, f"unknown; {hint}")


class _RecordsArgumentProblems(type):
    """Constructors never raise: unknown, repeated and missing arguments are recorded for `problems()`."""

    if not TYPE_CHECKING:  # type checkers see the dataclass constructor and complain as they should

        def __call__(cls, *args: object, **given: object) -> Any:
            bound, problems = cls.bind_arguments(args, given)
            value = super().__call__(**bound)
            object.__setattr__(value, "argument_problems", tuple(problems))
            return value


def _bind(cls: Any, args: tuple[object, ...], given: dict[str, object]) -> tuple[dict[str, object], list[Problem]]:
    wanted = [f for f in dataclasses.fields(cls) if f.init]
    names = [f.name for f in wanted]
    bound = dict(zip(names, args, strict=False))
    argument_problems = (
        [Problem("", f"takes {len(names)} values ({', '.join(names)}), not {len(args)}")] if len(args) > len(names) else []
    )
    argument_problems += [unknown(name, names) for name in given if name not in names]
    argument_problems += [Problem(name, "given twice; give it once, by name") for name in given if name in bound]
    bound |= {name: value for name, value in given.items() if name in names}
    for f in wanted:
        if f.name not in bound and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            argument_problems.append(Problem(f.name, "required"))
            bound[f.name] = dataclasses.MISSING
    return bound, argument_problems


@dataclass(frozen=True, slots=True)
class DeclaredValue(metaclass=_RecordsArgumentProblems):
    """Base of every value in a declaration. A wrong value can be constructed; `@task` reports all its problems."""

    argument_problems: tuple[Problem, ...] = field(default=(), init=False, repr=False, compare=False)

    @classmethod
    def bind_arguments(cls, args: tuple[object, ...], given: dict[str, object]) -> tuple[dict[str, object], list[Problem]]:
        """The fields that the arguments of a call stand for, and what is wrong with the arguments."""
        return _bind(cls, args, given)

    def problems(self) -> Iterator[Problem]:
        missing = {p.field for p in self.argument_problems if p.what == "required"}
        yield from self.argument_problems
        yield from (p for p in self.value_problems() if p.field not in missing)

    def value_problems(self) -> Iterable[Problem]:
        """Problems of the values themselves."""
        return ()


def whole(name: str, value: object, *, least: int, most: int) -> Iterator[Problem]:
    """An integer within bounds; True and 3.0 are not integers."""
    if type(value) is not int:
        yield Problem(name, f"must be an integer, not {value!r}")
    elif not least <= value <= most:
        yield Problem(name, f"must be {_range(least, most)}, not {value}")


def _range(least: int, most: int) -> str:
    return f"at least {least}" if most >= JAVA_INT else f"from {least} to {most}"


JAVA_INT = 2**31 - 1
"""Conductor stores most numbers of a TaskDef in a Java int and answers 500 for larger ones."""


def bounded(name: str, value: object, *, least: int) -> Iterator[Problem]:
    """As `whole`, up to the largest number that Conductor can store."""
    if type(value) is int and value > JAVA_INT:
        yield Problem(name, f"must be at most {JAVA_INT} (Conductor stores no more), not {value}")
    else:
        yield from whole(name, value, least=least, most=JAVA_INT)
