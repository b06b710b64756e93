"""Registers workflow definitions in Conductor: a new version where the definition differs from the latest one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from perago.conductor.registration import FieldChange, Verdict, compare
from perago.errors import ConductorRejected

Definition = Mapping[str, Any]

_BOOKKEEPING = frozenset({"version", "createTime", "updateTime", "createdBy", "updatedBy", "ownerApp", "accessPolicy"})
_DEFAULTS: Mapping[str, object] = {"enforceSchema": True, "restartable": True}
"""Conductor's values for fields that a definition may leave out; it leaves out empty values and zeros otherwise."""
_NESTED = ("defaultCase", "loopOver")


class WorkflowDefinitions(Protocol):
    """What `perago.conductor.client.ConductorClient` offers."""

    def workflow_definition(self, name: str) -> Definition | None: ...
    def create_workflow_definition(self, definition: Definition) -> None: ...


@dataclass(frozen=True, slots=True)
class WorkflowRegistration:
    """`version` is the one that has the wanted definition."""

    name: str
    verdict: Verdict
    version: int
    changes: tuple[FieldChange, ...] = ()


def register(conductor: WorkflowDefinitions, wanted: Definition) -> WorkflowRegistration:
    """Store the definition under a new version if it differs from the latest one, then read it back.

    Raises `ConductorRejected` if Conductor serves another definition than it was sent.
    """
    name = str(wanted["name"])
    held = conductor.workflow_definition(name)
    changes = () if held is None else differences(held, wanted)
    if held is not None and not changes:
        return WorkflowRegistration(name, Verdict.UNCHANGED, held["version"])
    version = 1 if held is None else held["version"] + 1
    conductor.create_workflow_definition({**wanted, "version": version})
    left = differences(conductor.workflow_definition(name) or {}, wanted)
    if left:
        fields = ", ".join(change.field for change in left)
        raise ConductorRejected(f"Conductor accepted the definition of the workflow {name} but serves other values for: {fields}")
    return WorkflowRegistration(name, Verdict.CREATED if held is None else Verdict.UPDATED, version, changes)


def register_all(conductor: WorkflowDefinitions, wanted: Sequence[Definition]) -> list[WorkflowRegistration]:
    """Register definitions that call each other, the called ones first.

    A call names the version that was just registered: a run keeps the version that it began with, also of what it calls later.
    """
    registered: list[WorkflowRegistration] = []
    for definition in wanted:
        versions = {one.name: one.version for one in registered}
        registered.append(register(conductor, _calling(definition, versions)))
    return registered


def _calling(value: Any, versions: Mapping[str, int]) -> Any:
    """The definition, or a part of it, with the versions of the workflows that it calls."""
    if isinstance(value, list):
        return [_calling(one, versions) for one in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    fields = {name: _calling(one, versions) for name, one in cast("dict[str, Any]", value).items()}
    called = fields.get("subWorkflowParam")
    if called and called["name"] in versions and "workflowDefinition" not in called:
        fields["subWorkflowParam"] = {**called, "version": versions[called["name"]]}
    return fields


def differences(held: Definition, wanted: Definition) -> tuple[FieldChange, ...]:
    """What a new version would change, by task. Versions, Conductor's bookkeeping and its default values do not count."""
    before, after = comparable(held), comparable(wanted)
    names = [*after, *(name for name in before if name not in after)]
    return tuple(change for name in names for change in compare(name, before.get(name), after.get(name)))


def comparable(definition: Definition) -> dict[str, Any]:
    """A definition in one form, with its tasks by reference name."""
    fields = {
        name: value
        for name, value in definition.items()
        if name not in _BOOKKEEPING and name != "tasks" and not _is_empty(value) and _DEFAULTS.get(name) is not value
    }
    tasks: dict[str, Any] = {}
    order = list(_flattened(definition.get("tasks", ()), tasks))
    return {**fields, "steps": order, "tasks": tasks}


def _flattened(given: object, found: dict[str, Any]) -> Iterator[str]:
    """The reference names of a list of tasks; puts the tasks themselves, and those inside them, into `found`."""
    for task in cast("list[dict[str, Any]]", given):
        inside: dict[str, object] = {name: list(_flattened(task[name], found)) for name in _NESTED if task.get(name)}
        if cases := task.get("decisionCases"):
            inside["decisionCases"] = {name: list(_flattened(one, found)) for name, one in cases.items()}
        if lanes := task.get("forkTasks"):
            inside["forkTasks"] = [list(_flattened(lane, found)) for lane in lanes]
        flat = {name: value for name, value in task.items() if not _is_empty(value)}
        found[task["taskReferenceName"]] = {**flat, **inside}
        yield task["taskReferenceName"]


def _is_empty(value: object) -> bool:
    return value is None or value is False or value == 0 or value in ("", [], {})
