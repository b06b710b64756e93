"""Until where the output of a step is needed: paths that differ only in outputs which nothing reads any more are one path."""

import math
from collections.abc import Mapping, Sequence

from perago.workflow_check import expressions, roles, scripts
from perago.workflow_check.definition import LOOPS, Task, Workflow, walk
from perago.workflow_check.order import Order
from perago.workflow_check.roles import Role, Tasks


class LastUses:
    def __init__(self, workflow: Workflow, order: Order) -> None:
        self._order = order
        self._position = {task.ref: number for number, task in enumerate(workflow.walk())}
        self._last: dict[str, float] = {}
        self._look(workflow.tasks, ())
        for _, expression in expressions.found_in(workflow.outputs):
            self._last[expression.root] = math.inf
        if workflow.tasks:
            # The output of a workflow without outputParameters is that of its last task.
            self._last[workflow.tasks[-1].ref] = math.inf

    def needed(self, outputs: Mapping[str, object], task: Task) -> frozenset[str]:
        """Those that a task after this one reads."""
        end = self._end(task)
        return frozenset(ref for ref in outputs if self._last.get(ref, -1) > end)

    def _end(self, task: Task) -> int:
        return max(self._position[one.ref] for one in walk([task]))

    def _look(self, tasks: Sequence[Task], loops: tuple[Task, ...]) -> None:
        for task in tasks:
            around = (*loops, task) if task.type in LOOPS else loops
            for ref in {*task.join_on, *(one.root for _, one in expressions.found_in(task.inputs))}:
                self._last[ref] = max(self._last.get(ref, -1), self._until(ref, task, around))
            for _, block in task.blocks():
                self._look(block, around)

    def _until(self, ref: str, user: Task, loops: Sequence[Task]) -> float:
        """Until after the last task of each loop that repeats the use without always repeating the step before it."""
        inside = {container.construct.ref for container in self._order.containers.get(ref, ())}
        always = ref in self._order.before[user.ref].always
        ends = [self._end(loop) + 0.5 for loop in loops if not (always and loop.ref in inside)]
        return max([self._end(user), *ends])


def old_or_absent(workflow: Workflow, order: Order, tasks: Tasks) -> frozenset[str]:
    """Writers of whose output only the workspace matters, and for which an old workspace is as wrong as none."""
    workers = [(task, roles.role(task, tasks)) for task in workflow.walk() if task.is_worker_task or task.type == roles.HUMAN]
    writers = frozenset(task.ref for task, role in workers if role in {Role.WRITER, Role.JOIN})
    return writers - _used_if_old(workflow, order, tasks)


def _used_if_old(workflow: Workflow, order: Order, tasks: Tasks) -> frozenset[str]:
    """A reader may take an old workspace, and a script may prefer it to another."""
    found = {one.root for _, one in expressions.found_in(workflow.outputs)}
    for task in workflow.walk():
        if scripts.is_choice(task) or roles.role(task, tasks) in {Role.WRITER, Role.FORK, Role.JOIN}:
            continue
        always = order.before[task.ref].always
        found |= {*task.join_on, *(one.root for _, one in expressions.found_in(task.inputs) if one.root not in always)}
    return frozenset(found)
