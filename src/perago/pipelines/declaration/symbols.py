"""References to values that only a run knows: an editor sees the declared type, the declaration records their use."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn, cast

from perago.declare.problems import Problem
from perago.errors import TaskDefinitionError
from perago.pipelines import graph
from perago.pipelines.declaration import comparisons, model_fields, type_rules
from perago.pipelines.declaration.blocks import Block
from perago.pipelines.declaration.model_fields import Form
from perago.pipelines.graph import Comparison

if TYPE_CHECKING:
    from perago.pipelines.declaration.state import Declaration


_PROBLEM = "perago_problem"


@dataclass(frozen=True, slots=True)
class Known:
    """What is known about a symbol."""

    declaration: "Declaration"
    reference: graph.Reference
    label: str
    """As the author would name it: `ingest.orders`."""
    home: Block
    form: Form
    leaves_block: bool = True


def known(symbol: "Symbol") -> Known:
    return cast("Known", object.__getattribute__(symbol, "_perago"))


def refuse(label: str, what: str) -> NoReturn:
    """For a use after which the function cannot go on. The decorator reports it with the other problems."""
    problem = Problem(label, what)
    error = TaskDefinitionError(str(problem))
    setattr(error, _PROBLEM, problem)
    raise error


def refused_problem(error: TaskDefinitionError) -> Problem | None:
    """What `refuse` was called for; None if the error has another origin."""
    return getattr(error, _PROBLEM, None)


def _refused(what: str) -> Any:
    def operator(self: "Symbol", *_others: object) -> NoReturn:
        refuse(known(self).label, f"{what}; its value is only known when the pipeline runs")

    return operator


def _compared(comparison: Comparison) -> Any:
    def operator(self: "Symbol", other: object) -> "ConditionSymbol":
        return compare(comparison, self, other)

    return operator


_USE_WHEN = "cannot be used with if, and, or, not: use flow.when, and & or | to combine conditions"
_NO_ARITHMETIC = "cannot be calculated with: let a task calculate it"
_NO_ITEMS = "cannot be iterated over, indexed or measured: use flow.each, or let a task return what is needed"
_NO_TEXT = "cannot be made into text: pass it to a task as a parameter"


class Symbol:
    """A reference. Has no attributes of its own beside the fields of the value's type."""

    __slots__ = ("_perago",)

    def __init__(self, what: Known) -> None:
        object.__setattr__(self, "_perago", what)

    def __getattr__(self, name: str) -> "Symbol":
        if name.startswith("__"):
            raise AttributeError(name)
        return Symbol(_field(known(self), name))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        refuse(known(self).label, f"{name} cannot be set: a result is what its task returned")

    def __repr__(self) -> str:
        return f"<reference {known(self).label}>"

    def __and__(self, other: object) -> "ConditionSymbol":
        return condition(self) & other

    def __or__(self, other: object) -> "ConditionSymbol":
        return condition(self) | other

    __rand__ = __and__
    __ror__ = __or__
    __eq__ = _compared(Comparison.EQUAL)
    __ne__ = _compared(Comparison.NOT_EQUAL)
    __lt__ = _compared(Comparison.LESS)
    __le__ = _compared(Comparison.AT_MOST)
    __gt__ = _compared(Comparison.GREATER)
    __ge__ = _compared(Comparison.AT_LEAST)
    __hash__ = object.__hash__
    __bool__ = _refused(_USE_WHEN)
    __iter__ = __len__ = __getitem__ = __contains__ = __reversed__ = _refused(_NO_ITEMS)
    __str__ = __format__ = __fspath__ = __bytes__ = _refused(_NO_TEXT)
    __call__ = _refused("cannot be called")
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refused(_NO_ARITHMETIC)
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __divmod__ = __rdivmod__ = _refused(_NO_ARITHMETIC)
    __matmul__ = __rmatmul__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __xor__ = __rxor__ = _refused(_NO_ARITHMETIC)
    __neg__ = __pos__ = __abs__ = __int__ = __float__ = __complex__ = __index__ = __round__ = _refused(_NO_ARITHMETIC)
    __trunc__ = __floor__ = __ceil__ = _refused(_NO_ARITHMETIC)
    __invert__ = _refused("cannot be negated with ~: write == False, or use branch.otherwise()")


def _field(what: Known, name: str) -> Known:
    """The reference to a field of a value."""
    annotation = what.reference.annotation
    model = model_fields.model_of(annotation)
    if any(one is Any for one in model_fields.alternatives(annotation)):
        return _below(what, name, name, Any)
    if model is None:
        refuse(
            what.label,
            f"is {type_rules.shown(annotation)}, which has no field {name!r} to refer to; let a task return what is needed",
        )
    found = model_fields.fields(model, what.form)
    if name not in found:
        what.declaration.problem(what.label, f"{model.__name__} has no field {name!r}; {_near(name, found)}")
        return _below(what, name, name, Any)
    of_field = found[name].annotation
    return _below(what, name, found[name].json_name, of_field | None if model_fields.may_be_null(annotation) else of_field)


def _below(what: Known, name: str, json_name: str, annotation: Any) -> Known:
    if "}" in json_name:
        what.declaration.problem(
            what.label, f"the field {json_name!r} cannot be referred to: Conductor's expressions end at '}}'"
        )
    reference = graph.Reference(what.reference.source, (*what.reference.path, json_name), annotation)
    return replace(what, reference=reference, label=f"{what.label}.{name}")


def _near(name: str, names: Iterable[str]) -> str:
    listed = list(names)
    near = difflib.get_close_matches(name, listed, n=1)
    return f"did you mean {near[0]!r}?" if near else f"it has {', '.join(listed) or 'no fields'}"


@dataclass(frozen=True, slots=True, eq=False)
class ConditionSymbol:
    """What a comparison of references gives."""

    condition: graph.Condition
    symbols: tuple[Symbol, ...]

    def __and__(self, other: object) -> "ConditionSymbol":
        right = condition(other)
        return ConditionSymbol(graph.AllOf((self.condition, right.condition)), (*self.symbols, *right.symbols))

    def __or__(self, other: object) -> "ConditionSymbol":
        right = condition(other)
        return ConditionSymbol(graph.AnyOf((self.condition, right.condition)), (*self.symbols, *right.symbols))

    __rand__ = __and__
    __ror__ = __or__

    def __bool__(self) -> bool:
        return refuse("condition", f"{_USE_WHEN}; comparisons are not chained (write (0 < a) & (a < 9))")

    def __invert__(self) -> NoReturn:
        refuse("condition", "cannot be negated with ~: write the opposite comparison, or use branch.otherwise()")

    def __eq__(self, other: object) -> bool:
        refuse("condition", "a comparison cannot be compared; put parentheses around each comparison that & or | combine")

    __hash__ = object.__hash__


def condition(given: object) -> ConditionSymbol:
    """What `flow.when`, `loop.until`, `&` and `|` take: a comparison or a boolean field."""
    if isinstance(given, ConditionSymbol):
        return given
    if not isinstance(given, Symbol):
        refuse("condition", f"must compare a result or an input, not be {given!r}; write == None in place of 'is None'")
    what = known(given)
    if wrong := comparisons.boolean_problem(what.reference.annotation):
        refuse(what.label, wrong)
    return ConditionSymbol(graph.IsTrue(what.reference), (given,))


def compare(comparison: Comparison, left: Symbol, right: object) -> ConditionSymbol:
    what = known(left)
    other = known(right).reference if isinstance(right, Symbol) else comparisons.constant(right)
    if isinstance(other, str):
        refuse(what.label, other)
    if wrong := comparisons.problem(comparison, what.reference, other, right):
        refuse(what.label, wrong.format(other=known(right).label if isinstance(right, Symbol) else repr(right)))
    return ConditionSymbol(
        graph.Compare(comparison, what.reference, other), (left, right) if isinstance(right, Symbol) else (left,)
    )
