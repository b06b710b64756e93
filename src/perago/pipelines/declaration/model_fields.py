"""The fields of a Pydantic model as JSON names them, when the model is read from JSON and when it is written to JSON."""

import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo


class Form(Enum):
    """Aliases may differ between the two."""

    READ = "read"
    WRITTEN = "written"


@dataclass(frozen=True, slots=True)
class ModelField:
    name: str
    """As Python has it."""
    json_name: str
    annotation: Any
    required: bool


def fields(model: type[BaseModel], form: Form) -> Mapping[str, ModelField]:
    """By Python name. A written model has its computed fields too, and lacks the fields that are excluded."""
    found = {name: _field(name, info, form) for name, info in model.model_fields.items() if form is Form.READ or not info.exclude}
    if form is Form.WRITTEN:
        for name, computed in model.model_computed_fields.items():
            found[name] = ModelField(name, computed.alias or name, computed.return_type, required=True)
    return found


def _field(name: str, info: FieldInfo, form: Form) -> ModelField:
    alias = info.serialization_alias if form is Form.WRITTEN else info.validation_alias
    json_name = alias if isinstance(alias, str) else name
    annotation = typing.Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
    return ModelField(name, json_name, annotation, info.is_required())


def model_of(annotation: object) -> type[BaseModel] | None:
    """The one model that an annotation names, also if None or other types are allowed beside it."""
    models = [one for one in alternatives(annotation) if isinstance(one, type) and issubclass(one, BaseModel)]
    return models[0] if len(models) == 1 else None


def without_metadata(annotation: object) -> Any:
    """The type itself: without `Annotated`, `NewType` and names of aliases."""
    while True:
        if typing.get_origin(annotation) is typing.Annotated:
            annotation = typing.get_args(annotation)[0]
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = typing.cast("Any", annotation).__value__
        else:
            return annotation


def alternatives(annotation: object) -> tuple[Any, ...]:
    """The members of a union, or the type alone; None stands for the type of None."""
    plain = without_metadata(annotation)
    if typing.get_origin(plain) in {typing.Union, types.UnionType}:
        return tuple(one for member in typing.get_args(plain) for one in alternatives(member))
    return (None,) if plain is types.NoneType else (plain,)


def may_be_null(annotation: object) -> bool:
    return None in alternatives(annotation)
