"""Until where the output of a step is needed: paths that differ only in outputs which nothing reads any more are one path."""

import math
from collections.abc import Mapping, Sequence

from perago.workflow_check import expressions
from perago.workflow_check.definition import LOOPS, Task, Workflow, walk


class LastUses:
    def __init__(self, workflow: Workflow) -> None:
        self._position = {task.ref: number for number, task in enumerate(workflow.walk())}
        self._last: dict[str, float] = {}
        self._look(workflow.tasks, None)
        self._use(workflow.outputs, math.inf)
        if workflow.tasks:
            # The output of a workflow without outputParameters is that of its last task.
            self._last[workflow.tasks[-1].ref] = math.inf

    def needed(self, outputs: Mapping[str, object], task: Task) -> frozenset[str]:
        """Those that a task after this one reads."""
        end = self._end(task)
        return frozenset(ref for ref in outputs if self._last.get(ref, -1) > end)

    def _end(self, task: Task) -> int:
        return max(self._position[one.ref] for one in walk([task]))

    def _look(self, tasks: Sequence[Task], loop_end: float | None) -> None:
        """A use inside a loop counts until after the loop's last task, because it is repeated."""
        for task in tasks:
            inner = self._end(task) + 0.5 if task.type in LOOPS and loop_end is None else loop_end
            until = self._end(task) if inner is None else inner
            self._use(task.inputs, until)
            for ref in task.join_on:
                self._used(ref, until)
            for _, block in task.blocks():
                self._look(block, inner)

    def _use(self, value: object, until: float) -> None:
        for _, expression in expressions.found_in(value):
            self._used(expression.root, until)

    def _used(self, ref: str, until: float) -> None:
        self._last[ref] = max(self._last.get(ref, -1), until)
