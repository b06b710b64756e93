"""Adds `flow.each`: which parameter takes the item, and whether the items' type fits it."""

from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel

from perago.pipelines import graph
from perago.pipelines.declaration import model_fields, steps, symbols, type_rules
from perago.pipelines.declaration.model_fields import Form
from perago.pipelines.declaration.recorded_models import has_references
from perago.pipelines.declaration.state import Declaration
from perago.pipelines.declaration.symbols import Known, Symbol
from perago.pipelines.declaration.values import Converter


def each(declaration: Declaration, items: object, task: object, params: Mapping[str, object], *, ref: object) -> Symbol:
    found = steps.declared_task(task)
    name = declaration.take_ref(ref, steps.function_name(task))
    where = f"each {name}"
    given = steps.renamed(params, found.contract.params)
    direct = _item_parameter(declaration, where, found.contract.params, given)
    if direct is not None and direct not in given:
        given[direct] = _item_symbol(declaration)
    listed, item = _items(declaration, where, items, _wanted(found.contract.params, direct))
    converted = Converter(declaration, item).model_fields(given, found.contract.params, f"{where}, params")
    declaration.add(graph.Each(name, listed, found, converted))
    return declaration.result(name, list[found.contract.result])


def _item_symbol(declaration: Declaration) -> Symbol:
    return Symbol(Known(declaration, graph.Reference(graph.EachItem()), "flow.item", declaration.here, Form.READ))


def _item_parameter(declaration: Declaration, where: str, model: type[BaseModel], given: Mapping[str, object]) -> str | None:
    """The parameter that takes the whole item; None if `flow.item` is used otherwise."""
    whole = [name for name, value in given.items() if _is_item(value) and not symbols.known(cast("Symbol", value)).reference.path]
    if whole or any(_mentions_item(value) for value in given.values()):
        return whole[0] if whole else None
    fields = model_fields.fields(model, Form.READ)
    left = [name for name, field in fields.items() if field.required and name not in given and field.json_name not in given]
    if len(left) == 1:
        return left[0]
    candidates = f"{', '.join(left)} are left" if left else "no required parameter is left"
    declaration.problem(where, f"say which parameter takes the item, with flow.item: {candidates}")
    return None


def _is_item(value: object) -> bool:
    return isinstance(value, Symbol) and isinstance(symbols.known(value).reference.source, graph.EachItem)


def _mentions_item(value: object) -> bool:
    if _is_item(value):
        return True
    if isinstance(value, BaseModel):
        return any(_mentions_item(one) for one in value.__dict__.values())
    if isinstance(value, Mapping):
        return any(_mentions_item(one) for one in cast("Mapping[object, object]", value).values())
    return isinstance(value, list | tuple) and any(_mentions_item(one) for one in cast("list[object]", value))


def _wanted(model: type[BaseModel], parameter: str | None) -> Any:
    found = model_fields.fields(model, Form.READ).get(parameter or "")
    return Any if found is None else found.annotation


def _items(declaration: Declaration, where: str, items: object, wanted: object) -> tuple[graph.Value, Known]:
    """The list, and what `flow.item` stands for."""
    place, converter = f"{where}, items", Converter(declaration)
    form, element = Form.READ, wanted
    if isinstance(items, Symbol):
        what = symbols.known(items)
        form, element = what.form, type_rules.element_type(what.reference.annotation)
        if element is None or model_fields.may_be_null(what.reference.annotation):
            declaration.problem(place, f"must be a list; {what.label} is {type_rules.shown(what.reference.annotation)}")
            element = Any
        listed = converter.convert(items, Any, place)
    elif isinstance(items, list | tuple | set | frozenset | range):
        values = list(cast("list[object]", items))
        element = wanted if wanted is not Any else _common_type(values)
        listed = converter.convert(values, list[element], place) if values else graph.Constant([])
    else:
        symbols.refuse(place, f"must be a list or a reference to one, not {items!r}")
    reference = graph.Reference(graph.EachItem(), (), element)
    return listed, Known(declaration, reference, "flow.item", declaration.here, form)


def _common_type(values: list[object]) -> Any:
    kinds = {type(value) for value in values}
    return kinds.pop() if len(kinds) == 1 and not has_references(values) else Any
