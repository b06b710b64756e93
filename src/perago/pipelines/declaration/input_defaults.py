"""The defaults of a pipeline's inputs as JSON: Conductor puts them into a run's input, so they must be constants."""

from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from perago.pipelines.declaration.model_fields import Form, fields, may_be_null
from perago.pipelines.declaration.state import Declaration
from perago.pipelines.declaration.values import Converter


def check(declaration: Declaration, model: type[BaseModel]) -> None:
    for field in fields(model, Form.READ).values():
        info = model.model_fields[field.name]
        if field.required:
            continue
        if info.default_factory is not None and not _is_constant(info.default_factory):
            declaration.problem(f"inputs.{field.name}", "its default is computed anew each time; write a constant default")
        else:
            default = info.get_default(call_default_factory=True, validated_data={})
            Converter(declaration).literal(default, field.annotation, f"inputs.{field.name}, default")
            if default is not None and may_be_null(field.annotation):
                what = "accepts None, which Conductor would replace by the default; make None the default, or do not accept it"
                declaration.problem(f"inputs.{field.name}", what)


def template(model: type[BaseModel]) -> dict[str, object]:
    """By JSON name, for the definition's `inputTemplate`."""
    found = {field.json_name: model.model_fields[field.name] for field in fields(model, Form.READ).values() if not field.required}
    return {
        name: to_jsonable_python(info.get_default(call_default_factory=True, validated_data={}), by_alias=True)
        for name, info in found.items()
    }


def _is_constant(factory: Any) -> bool:
    return factory in {list, dict, set, tuple} or (isinstance(factory, type) and issubclass(factory, BaseModel))
