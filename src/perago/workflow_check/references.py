"""Every `${…}` names something that exists and has run before."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from perago.workflow_check import expressions
from perago.workflow_check.definition import JOINS, LOOPS, SCRIPTS, SWITCHES, Task, Workflow
from perago.workflow_check.expressions import Expression, Place
from perago.workflow_check.findings import Finding, Level, did_you_mean
from perago.workflow_check.order import Order, variable

_OF_A_TASK = ("input", "output", "status")
_OF_A_WORKFLOW = ("input", "output", "variables", "status")
_SELECTING = SCRIPTS | SWITCHES | LOOPS | JOINS | {"SET_VARIABLE", "TERMINATE"}
"""Tasks for which a value that is absent on some paths is ordinary: they choose, keep or compare values."""


class References:
    """The references of one workflow. `contracts` says which tasks' params are checked by their schema, null included."""

    def __init__(self, workflow: Workflow, order: Order, known_tasks: frozenset[str]) -> None:
        self._workflow = workflow
        self._order = order
        self._known_tasks = known_tasks
        self._refs = {task.ref for task in workflow.walk()}
        self._variables = {name for one in workflow.walk() if one.type == "SET_VARIABLE" for name in one.inputs}
        self._variables |= set(workflow.variables)
        self._reported_inputs = set[str]()

    def findings(self) -> Iterator[Finding]:
        for task in self._workflow.walk():
            for place, expression in in_task(task):
                yield from self._of_task(task, place, expression)
        for place, expression in expressions.found_in(self._workflow.outputs):
            yield from self._existence(None, Place(("outputParameters", *place.path)), expression)

    def _of_task(self, task: Task, place: Place, expression: Expression) -> Iterator[Finding]:
        wrong = list(self._existence(task.ref, place, expression))
        yield from wrong
        name = self._name(expression)
        if wrong or name is None or place.in_script:
            return
        before = self._order.before[task.ref]
        if name not in before.maybe:
            yield Finding(task.ref, f"{place} takes {expression}, but {self._why(name, task)}")
        elif name not in before.always and self._needs_it(task, place):
            yield Finding(
                task.ref, f"{place} takes {expression}, which is null on some paths: {self._why(name, task)}", Level.WARNING
            )

    def _name(self, expression: Expression) -> str | None:
        if expression.variable is not None:
            return variable(expression.variable)
        return expression.root if expression.root in self._refs else None

    def _why(self, name: str, task: Task) -> str:
        if name in self._refs:
            return f"{name} does not run before it on every path: {self._order.why_not_before(name, task.ref)}"
        return f"no SET_VARIABLE sets {name.rpartition('.')[2]} before it on every path"

    def _needs_it(self, task: Task, place: Place) -> bool:
        """Workspaces, and params of known tasks, are looked at elsewhere."""
        if task.type in _SELECTING or place.path[:1] == ("workspace",):
            return False
        return task.name not in self._known_tasks

    def _existence(self, ref: str | None, place: Place, expression: Expression) -> Iterator[Finding]:
        level = Level.WARNING if place.in_script else Level.ERROR
        takes = f"{place} takes {expression}"
        if expression.is_workflow:
            yield from self._of_workflow(ref, takes, expression, level)
        elif expression.root in self._refs:
            attribute = expression.path[1] if len(expression.path) > 1 else "output"
            near = did_you_mean(attribute, _OF_A_TASK)
            if attribute not in _OF_A_TASK and near:
                yield Finding(ref, f"{takes}, but a task has no {attribute}{near}", level)
        elif expression.root and expressions.without_iteration(expression.root) not in self._refs:
            yield from self._unknown(ref, takes, expression, level)

    def _unknown(self, ref: str | None, takes: str, expression: Expression, level: Level) -> Iterator[Finding]:
        near = did_you_mean(expression.root, self._refs)
        if len(expression.path) > 1:
            yield Finding(ref, f"{takes}, but no task has the reference name {expression.root}{near}", level)
        elif expression.complete and near:
            # A single word may also be an environment variable of the server.
            yield Finding(ref, f"{takes}, but no task has the reference name {expression.root}{near}", Level.WARNING)

    def _of_workflow(self, ref: str | None, takes: str, expression: Expression, level: Level) -> Iterator[Finding]:
        attribute = expression.path[1] if len(expression.path) > 1 else "input"
        near = did_you_mean(attribute, _OF_A_WORKFLOW)
        if attribute not in _OF_A_WORKFLOW and near:
            yield Finding(ref, f"{takes}, but a workflow has no {attribute}{near}", level)
        given, name = expression.workflow_input, expression.variable
        if given is not None and self._workflow.inputs and given not in {*self._workflow.inputs, *self._reported_inputs}:
            self._reported_inputs.add(given)
            hint = did_you_mean(given, self._workflow.inputs) or f"; write {given} into inputParameters of the workflow"
            yield Finding(ref, f"{takes}, which the workflow's inputParameters do not name{hint}", Level.WARNING)
        if name is not None and name not in self._variables:
            hint = did_you_mean(name, self._variables) or "; write a SET_VARIABLE task before it"
            yield Finding(ref, f"{takes}, but no task sets the variable {name}{hint}", level)


def in_task(task: Task) -> Iterator[tuple[Place, Expression]]:
    """The expressions that Conductor evaluates for a task."""
    yield from expressions.found_in(task.inputs)
    called: object = task.raw.get("subWorkflowParam")
    if isinstance(called, Mapping):
        fields = {name: value for name, value in cast("Mapping[str, Any]", called).items() if name != "workflowDefinition"}
        yield from expressions.found_in(fields, Place(("subWorkflowParam",)))
    yield from expressions.found_in(task.raw.get("sink"), Place(("sink",)))
