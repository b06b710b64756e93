"""Turns what a pipeline function returns into the fields of its result."""

from collections.abc import Mapping

from pydantic import BaseModel

from perago.pipelines import graph
from perago.pipelines.declaration import model_fields, symbols, type_rules
from perago.pipelines.declaration.model_fields import Form
from perago.pipelines.declaration.state import Declaration
from perago.pipelines.declaration.symbols import Symbol
from perago.pipelines.declaration.type_rules import Forms
from perago.pipelines.declaration.values import Converter


def convert(declaration: Declaration, returned: object, model: type[BaseModel] | None) -> Mapping[str, graph.Value]:
    """By JSON name; problems are recorded."""
    if model is None:
        if returned is not None:
            declaration.problem("return", f"the function is annotated -> None and returns {_described(returned)}")
        return {}
    if isinstance(returned, Symbol):
        return _of_symbol(declaration, returned, model)
    if not isinstance(returned, model):
        declaration.problem("return", f"must be {model.__name__}(...), not {_described(returned)}")
        return {}
    given = {**_defaults(model), **returned.__dict__}
    return Converter(declaration).model_fields(given, model, "return", Form.WRITTEN)


def _of_symbol(declaration: Declaration, returned: Symbol, model: type[BaseModel]) -> Mapping[str, graph.Value]:
    """A result that is returned as it is: each of its fields."""
    what = symbols.known(returned)
    if not type_rules.fits(what.reference.annotation, model, Forms(what.form, Form.WRITTEN)):
        shown = type_rules.shown(what.reference.annotation)
        declaration.problem("return", f"must be {model.__name__}; {what.label} is {shown}")
        return {}
    names = model_fields.fields(model, Form.WRITTEN)
    return Converter(declaration).model_fields({name: getattr(returned, name) for name in names}, model, "return", Form.WRITTEN)


def _defaults(model: type[BaseModel]) -> dict[str, object]:
    return {
        name: info.get_default(call_default_factory=True, validated_data={})
        for name, info in model.model_fields.items()
        if not info.is_required() and not info.exclude
    }


def _described(value: object) -> str:
    if isinstance(value, Symbol):
        return symbols.known(value).label
    return "nothing" if value is None else type(value).__name__
