"""Whether every value of one declared type is accepted where another is declared, once it is JSON.

Bounds and patterns (`ge`, `max_length`) cannot be decided from a declaration; the worker checks them.
"""

import collections.abc
import datetime as dt
import typing
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pydantic import BaseModel

from perago.declare.schema_model import SchemaModel
from perago.pipelines.declaration import model_fields
from perago.pipelines.declaration.model_fields import Form

_ARRAYS = frozenset(
    {list, set, frozenset, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection, collections.abc.Set}
)
_OBJECTS = frozenset({dict, collections.abc.Mapping})


@dataclass(frozen=True, slots=True)
class Forms:
    """In which form the models inside the given value are, and in which the receiver declares them."""

    given: Form
    wanted: Form = Form.READ


def fits(given: object, wanted: object, forms: Forms) -> bool:
    return all(
        any(_one_fits(one, other, forms) for other in model_fields.alternatives(wanted))
        for one in model_fields.alternatives(given)
    )


def shown(annotation: object) -> str:
    """A type as an author writes it."""
    return " | ".join(_shown_one(one) for one in model_fields.alternatives(annotation))


def element_type(annotation: object) -> Any:
    """The type of the elements of a list; None if the type is no list."""
    for one in model_fields.alternatives(annotation):
        if one is Any:
            return Any
        if (elements := _elements(one)) is not None:
            return typing.Union[elements] if elements else Any  # noqa: UP007  of types that are only known here
    return None


def entry_type(annotation: object) -> Any:
    """The type of the values of a dict; None if the type is no dict."""
    for one in model_fields.alternatives(annotation):
        if one is Any:
            return Any
        if (entries := _entries(one)) is not None:
            return entries[1]
    return None


def _one_fits(given: Any, wanted: Any, forms: Forms) -> bool:
    if given is Any or wanted is Any or wanted is object:
        return True
    if given is None or wanted is None:
        return given is wanted
    if typing.get_origin(given) is typing.Literal or typing.get_origin(wanted) is typing.Literal:
        return _literal_fits(given, wanted)
    if _elements(wanted) is not None or _elements(given) is not None:
        return _array_fits(given, wanted, forms)
    if _entries(wanted) is not None or _entries(given) is not None:
        return _object_fits(given, wanted, forms)
    return isinstance(given, type) and isinstance(wanted, type) and _class_fits(given, wanted, forms)


def _class_fits(given: type, wanted: type, forms: Forms) -> bool:
    if issubclass(given, BaseModel):
        # A model that was made from a JSON Schema has no name of its own: only its fields count.
        is_same = issubclass(given, wanted) or issubclass(wanted, SchemaModel) or issubclass(given, SchemaModel)
        return is_same and issubclass(wanted, BaseModel) and _model_fits(given, wanted, forms)
    if issubclass(given, dt.datetime) and not issubclass(wanted, dt.datetime):
        return False  # a moment is a date for Python, but not in JSON
    if wanted is float:
        return issubclass(given, int | float)
    return issubclass(given, wanted)


def _model_fits(given: type[BaseModel], wanted: type[BaseModel], forms: Forms) -> bool:
    """A subclass with more fields does not fit: unknown fields are refused. Nor does one that is not written as it is read."""
    sent, read = model_fields.fields(given, forms.given), model_fields.fields(wanted, forms.wanted)
    accepted = {field.json_name: field for field in read.values()}
    if any(field.json_name not in accepted for field in sent.values()):
        return False
    have = {field.json_name for field in sent.values()}
    if any(field.required and field.json_name not in have for field in accepted.values()):
        return False
    return given is wanted or all(fits(field.annotation, accepted[field.json_name].annotation, forms) for field in sent.values())


def _literal_fits(given: Any, wanted: Any) -> bool:
    if typing.get_origin(given) is not typing.Literal:
        members = _enum_values(given)
        return bool(members) and members <= _typed(_plain(typing.get_args(wanted)))
    values = _plain(typing.get_args(given))
    if typing.get_origin(wanted) is typing.Literal:
        return _typed(values) <= _typed(_plain(typing.get_args(wanted)))
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return all(isinstance(value, wanted) for value in typing.get_args(given))
    return isinstance(wanted, type) and all(_class_fits(type(value), wanted, Forms(Form.READ)) for value in values)


def _plain(values: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(value.value if isinstance(value, Enum) else value for value in values)


def _typed(values: tuple[object, ...]) -> set[tuple[type, object]]:
    """True and 1 are equal in Python, but not in JSON."""
    return {(type(value), value) for value in values}


def _enum_values(annotation: Any) -> set[tuple[type, object]]:
    return _typed(_plain(tuple(annotation))) if isinstance(annotation, type) and issubclass(annotation, Enum) else set()


def _elements(annotation: Any) -> tuple[Any, ...] | None:
    """The types of the elements of an array; None for other types."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is tuple or annotation in _ARRAYS:
        return (Any,)
    if origin is tuple:
        return (arguments[0],) if len(arguments) == 2 and arguments[1] is Ellipsis else arguments  # noqa: PLR2004
    return arguments if origin in _ARRAYS else None


def _is_fixed(annotation: Any) -> bool:
    return typing.get_origin(annotation) is tuple and Ellipsis not in typing.get_args(annotation)


def _array_fits(given: Any, wanted: Any, forms: Forms) -> bool:
    sent, read = _elements(given), _elements(wanted)
    if sent is None or read is None:
        return False
    if _is_fixed(wanted):
        return _is_fixed(given) and len(sent) == len(read) and all(map(fits, sent, read, [forms] * len(sent)))
    return all(fits(one, read[0], forms) for one in sent)


def _entries(annotation: Any) -> tuple[Any, Any] | None:
    if annotation in _OBJECTS:
        return (Any, Any)
    return typing.get_args(annotation) if typing.get_origin(annotation) in _OBJECTS else None  # pyright: ignore[reportReturnType]


def _object_fits(given: Any, wanted: Any, forms: Forms) -> bool:
    sent, read = _entries(given), _entries(wanted)
    return sent is not None and read is not None and fits(sent[0], read[0], forms) and fits(sent[1], read[1], forms)


def _shown_one(one: Any) -> str:
    if one is None:
        return "None"
    arguments = typing.get_args(one)
    if typing.get_origin(one) is typing.Literal:
        return f"Literal[{', '.join(map(repr, _plain(arguments)))}]"
    name = getattr(typing.get_origin(one) or one, "__name__", str(one))
    inside = ", ".join("..." if argument is Ellipsis else shown(argument) for argument in arguments)
    return f"{name}[{inside}]" if arguments else str(name)
