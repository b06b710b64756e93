"""The JSON Schema of what an expression reads, as far as the declarations of the tasks tell."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from perago.declare import human_form
from perago.declare.task import TaskDeclaration
from perago.workflow_check import expressions, schemas
from perago.workflow_check.definition import CALLS, LOOPS, Task, Workflow
from perago.workflow_check.expressions import Expression
from perago.workflow_check.findings import did_you_mean
from perago.workflow_check.order import Order, variable
from perago.workflow_check.roles import HUMAN
from perago.workflow_check.schemas import NoSuchField

Json = dict[str, Any]
Called = Callable[[Task], Workflow | None]
"""The definition of the sub-workflow that a task calls, if it is known."""

_MOST_NESTED = 20


@dataclass(frozen=True, slots=True)
class Source:
    schema: Json
    absent: str | None = None
    """Why there is no value on some paths; None if there always is one."""


class Sources:
    def __init__(
        self, workflow: Workflow, order: Order, tasks: Mapping[str, TaskDeclaration], called: Called, depth: int = 0
    ) -> None:
        self._workflow = workflow
        self._order = order
        self._tasks = tasks
        self._called = called
        self._depth = depth
        self._by_ref = {task.ref: task for task in workflow.walk()}

    def of(self, expression: Expression) -> Json:
        """Of a value that exists; `NoSuchField` if its task's output never has it."""
        task = self._by_ref.get(expression.root)
        if task is None or expression.path[1:2] != ("output",):
            return schemas.ANYTHING
        schema = self._output(task, expression.path[2:])
        return schema if expression.complete else schemas.ANYTHING

    def at(self, user: str, expression: Expression) -> Source:
        """Of a value where `user` takes it."""
        name = variable(expression.variable) if expression.variable is not None else expression.root
        before = self._order.before[user]
        if name in before.maybe and name not in before.always:
            task = self._by_ref.get(name)
            why = f"no SET_VARIABLE sets {expression.variable} on the others" if task is None else None
            return Source(self.of(expression), why or f"{name} does not always run: {self._order.why_not_before(name, user)}")
        task = self._by_ref.get(expression.root)
        if task is not None and task.optional and expression.path[1:2] == ("output",):
            return Source(self.of(expression), f"{task.ref} is optional and may fail")
        return Source(self.of(expression))

    def _output(self, task: Task, path: tuple[str, ...]) -> Json:
        declared = self._tasks.get(task.name) if task.is_worker_task and not task.has_dynamic_name else None
        if declared is not None:
            return self._declared_output(task, declared, path)
        answer = human_form.result_schema(task.inputs) if task.type == HUMAN and path[:1] == ("result",) else None
        if answer is not None:
            return schemas.part(answer, path[1:], f"{task.ref}.output.result")
        if task.type in LOOPS and path[:1] == ("iteration",):
            return {"type": "integer"}
        called = self._called(task) if task.type in CALLS else None
        if called is not None and called.outputs and path:
            return self._workflow_output(called, path)
        return schemas.ANYTHING

    def _declared_output(self, task: Task, declared: TaskDeclaration, path: tuple[str, ...]) -> Json:
        keys = declared.contract.output_keys
        if path and path[0] not in keys:
            fields = declared.contract.output_schema["properties"]["result"].get("properties", {})
            hint = f"; write ${{{task.ref}.output.result.{'.'.join(path)}}}" if path[0] in fields else None
            has = did_you_mean(path[0], keys) or f"; it has {' and '.join(keys)}"
            nothing = (
                f"{declared.name} has no workspace"
                if path[0] == "workspace"
                else f"the output of {declared.name} has no {path[0]}"
            )
            raise NoSuchField(f"{nothing}{hint or has}")
        return schemas.part(declared.contract.output_schema, path, f"{declared.name}.output")

    def _workflow_output(self, called: Workflow, path: tuple[str, ...]) -> Json:
        name, *rest = path
        if name not in called.outputs:
            hint = did_you_mean(name, called.outputs) or f'; write "{name}" into outputParameters of {called.name}'
            raise NoSuchField(f"the workflow {called.name} returns no {name}{hint}")
        inside = expressions.whole(called.outputs[name])
        if inside is None or self._depth >= _MOST_NESTED:
            return schemas.ANYTHING
        deeper = Sources(called, Order(called), self._tasks, self._called, self._depth + 1)
        try:
            return schemas.part(deeper.of(inside), rest, f"{name} of {called.name}")
        except NoSuchField:
            if rest:
                raise
            return schemas.ANYTHING  # reported for the called workflow itself
