"""Replaces a `$ref` of a JSON Schema by what it refers to in the same document."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

Json = dict[str, Any]


class BadReference(Exception):
    """A reference that cannot be inlined; the text says why."""


def inlined(document: object, schema: object, open_references: tuple[str, ...]) -> tuple[object, tuple[str, ...]]:
    """The schema without a reference, and the references that are being expanded inside it."""
    found = schema
    while isinstance(found, dict) and "$ref" in found:
        given = cast("Json", found)
        reference = given["$ref"]
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise BadReference(
                f'"$ref" {reference!r} leaves the document; write the schema into its "$defs" and refer to it there'
            )
        if reference in open_references or reference == "#":
            raise BadReference(
                f"{reference!r} contains itself; a contract has no recursive schemas: write the depth that is needed"
            )
        open_references = (*open_references, reference)
        target = _target(document, reference)
        beside = {key: value for key, value in given.items() if key != "$ref"}
        found = {**cast("Json", target), **beside} if isinstance(target, dict) else target
    return cast("object", found), open_references


def parts(document: object) -> Iterator[object]:
    """Every schema of a document after its references are inlined: there may be very many. Wrong references are left out."""
    return _parts(document, document, ())


def _parts(document: object, schema: object, open_references: tuple[str, ...]) -> Iterator[object]:
    try:
        found, open_references = inlined(document, schema, open_references)
    except BadReference:
        return
    yield found
    if isinstance(found, dict):
        for one in _inside(cast("Json", found)):
            yield from _parts(document, one, open_references)


def _inside(schema: Json) -> Iterator[object]:
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield schema[key]
    if isinstance(schema.get("properties"), dict):
        yield from schema["properties"].values()
    if isinstance(schema.get("anyOf"), list):
        yield from schema["anyOf"]


def _target(document: object, reference: str) -> object:
    """By JSON pointer."""
    at = document
    for step in reference.removeprefix("#").split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(at, Mapping) or name not in at:
            raise BadReference(f"{reference!r} is not in the document")
        at = cast("Mapping[str, object]", at)[name]
    return at
