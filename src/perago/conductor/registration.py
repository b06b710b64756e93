"""Registers task definitions in Conductor: created, updated or unchanged, and which fields differ."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeGuard

from perago.conductor import port
from perago.declare import taskdef
from perago.errors import ConductorRejected
from perago.model import TaskType

Definition = Mapping[str, Any]


class Verdict(StrEnum):
    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A dotted path into the definition; None on the side that does not have it."""

    field: str
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class Registration:
    name: TaskType
    verdict: Verdict
    changes: tuple[FieldChange, ...] = ()


def register(conductor: port.Conductor, wanted: Definition) -> Registration:
    """Write the definition only if it differs, then read it back: Conductor drops unknown fields without an error.

    Raises `ConductorRejected` if Conductor serves other values than it was sent.
    """
    name = TaskType(wanted["name"])
    held = conductor.task_definition(name)
    changes = () if held is None else differences(held, wanted)
    if held is not None and not changes:
        return Registration(name, Verdict.UNCHANGED)
    conductor.put_task_definition(wanted)
    left = differences(conductor.task_definition(name) or {}, wanted)
    if left:
        fields = ", ".join(change.field for change in left)
        raise ConductorRejected(f"Conductor accepted the definition of {name} but serves other values for: {fields}")
    return Registration(name, Verdict.CREATED if held is None else Verdict.UPDATED, changes)


def differences(held: Definition, wanted: Definition) -> tuple[FieldChange, ...]:
    """What an update would change, down to the fields of a schema. Conductor's own bookkeeping does not count."""
    found = taskdef.differences(wanted, held)
    if template := held.get("inputTemplate"):
        # No task declares one; left in place it would add values to the input that the contract does not know.
        found = {**found, "inputTemplate": (template, None)}
    return tuple(change for name, (before, after) in found.items() for change in compare(name, before, after))


def compare(path: str, before: object, after: object) -> Iterator[FieldChange]:
    """The differences of two JSON values, down to the fields of objects."""
    if before == after:
        return
    if not _is_object(before) or not _is_object(after):
        yield FieldChange(path, before, after)
        return
    for key in [*after, *(key for key in before if key not in after)]:
        yield from compare(f"{path}.{key}", before.get(key), after.get(key))


def _is_object(value: object) -> TypeGuard[Definition]:
    return isinstance(value, Mapping)
