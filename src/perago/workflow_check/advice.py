"""The texts about workspaces: what is wrong, and what to write instead."""

from collections.abc import Sequence

from perago.workflow_check.definition import LOOPS, Task
from perago.workflow_check.order import Order
from perago.workflow_check.values import Value, Workspace, as_workspace, step_into
from perago.workflow_check.worlds import World

_VARIABLE = '"workspace": "${workflow.variables.workspace}"'
INPUT = "${workflow.input.workspace}"


class Advice:
    """For the tasks of one workflow."""

    def __init__(self, order: Order) -> None:
        self._order = order

    def stale(self, task: Task, worlds: Sequence[World], branch: str, where: str = "workspace") -> str:
        """For a step that starts from a commit which another step has replaced."""
        writers = sorted({head.writer for world in worlds if (head := world.heads.get(branch)) is not None})
        started = (
            f"{where} is {_shown(task.inputs.get('workspace'))}, but {' or '.join(writers)} has written to that branch since"
        )
        return f"{started}; {self.what_to_write(task, worlds, branch, writers)}"

    def what_to_write(self, task: Task, worlds: Sequence[World], branch: str, writers: Sequence[str]) -> str:
        before = self._order.before[task.ref]
        if len(writers) == 1 and writers[0] in before.always and _gives(worlds, writers[0], branch):
            return f'write "workspace": "${{{writers[0]}.output.workspace}}"'
        if (expression := _current_everywhere(worlds, branch, before.always)) is not None:
            return f'write "workspace": "{expression}"'
        if any(self._same_loop(writer, task.ref) for writer in writers):
            return (
                "a step in a loop has to take the workspace that the iteration before it left: set a workflow variable "
                f"before the loop and again after {' or '.join(writers)}, and write {_VARIABLE}"
            )
        if len(writers) == 1 and writers[0] in before.always:
            return f'let {writers[0]} return its workspace, and write "workspace": "${{{writers[0]}.output.workspace}}"'
        return (
            f"which step wrote last depends on the path: set a workflow variable in each case, or choose with a "
            f"JSON_JQ_TRANSFORM, and write {_VARIABLE}"
        )

    def absent(self, task: Task, worlds: Sequence[World], missing: str, why: str) -> str:
        return f"workspace is {missing}, which is null{why}; {self.next(task, worlds)}"

    def next(self, task: Task, worlds: Sequence[World]) -> str:
        """What a step takes that has no usable workspace yet."""
        branches = sorted({branch for world in worlds for branch in world.heads if "#" not in branch})
        if not branches:
            return f'write "workspace": "{INPUT}"'
        writers = sorted({head.writer for world in worlds if (head := world.heads.get(branches[0])) is not None})
        missing = any(branches[0] not in world.heads for world in worlds)
        return self.what_to_write(task, worlds, branches[0], [*writers, *(["no step"] if missing else [])])

    def no_workspace(self, task: Task, worlds: Sequence[World]) -> str:
        return f"workspace is {_shown(task.inputs.get('workspace'))}, which is no workspace; {self.next(task, worlds)}"

    def missing(self, task: Task, worlds: Sequence[World]) -> str:
        return f"the input workspace is missing; {self.next(task, worlds)}"

    def parallel(self, other: str) -> str:
        return (
            f"runs at the same time as {other} and writes to the same branch, and only one of them is accepted; put it after "
            f'{other} and write "workspace": "${{{other}.output.workspace}}", or give it a branch of its own'
        )

    def _same_loop(self, one: str, other: str) -> bool:
        loops = [
            {c.construct.ref for c in self._order.containers.get(ref, ()) if c.construct.type in LOOPS} for ref in (one, other)
        ]
        return bool(loops[0] & loops[1])


def _shown(value: object) -> str:
    return value if isinstance(value, str) else "written out here"


def _gives(worlds: Sequence[World], ref: str, branch: str) -> bool:
    """Whether a step returns the present commit of the branch. A step whose output is not followed is a writer, and does."""
    return all(ref not in one.outputs or _is_present(one, step_into(one.outputs[ref], "workspace"), branch) for one in worlds)


def _is_present(world: World, value: Value, branch: str) -> bool:
    workspace = as_workspace(value)
    return isinstance(workspace, Workspace) and workspace.branch == branch and world.is_current(workspace)


def _current_everywhere(worlds: Sequence[World], branch: str, always: frozenset[str]) -> str | None:
    variables = {name for world in worlds for name in world.variables}
    for name in sorted(variables):
        if all(_is_present(one, one.variables[name], branch) if name in one.variables else False for one in worlds):
            return f"${{workflow.variables.{name}}}"
    for ref in sorted({ref for world in worlds for ref in world.outputs} & always):
        for field in ("workspace", "result"):
            if all(ref in one.outputs and _is_present(one, step_into(one.outputs[ref], field), branch) for one in worlds):
                return f"${{{ref}.output.{field}}}"
    return None
