"""A fork whose lanes only a run knows: found wrong if all of them may write to one branch."""

from collections.abc import Iterator, Sequence

from perago.workflow_check import expressions, roles
from perago.workflow_check.definition import SCRIPTS, Task, Workflow
from perago.workflow_check.findings import Finding, Level
from perago.workflow_check.roles import Tasks
from perago.workflow_check.values import as_workspace, workspaces_in
from perago.workflow_check.worlds import World

_ADVICE = (
    "only one of several writers on a branch is accepted; write them one after the other, give each a branch of its own, "
    "or give the module of a task that only reads"
)


def finding(task: Task, worlds: Sequence[World], workflow: Workflow, tasks: Tasks) -> Finding | None:
    branch = next((found for world in worlds for found in _shared_branches(task, world)), None)
    if branch is None:
        return None
    texts = list(_texts(task, workflow, set()))
    named = [name for name in tasks if any(text == name or f'"{name}"' in text for text in texts)]
    writers = [name for name in named if tasks[name].publishes]
    if named and not writers:
        return None
    if writers:
        return Finding(task.ref, f"its lanes run {writers[0]} at the same time on the workspace {branch}; {_ADVICE}")
    if isinstance(task.inputs.get("forkTaskName"), str):
        name = task.inputs["forkTaskName"]
        return Finding(task.ref, f"its lanes run {name} at the same time on the workspace {branch}; {_ADVICE}")
    return Finding(
        task.ref, f"its lanes all get the workspace {branch}, and may write at the same time; {_ADVICE}", Level.WARNING
    )


def _shared_branches(task: Task, world: World) -> Iterator[str]:
    """Branches that reach more than one lane; those of `perago.fork` belong to one lane each."""
    for value in workspaces_in(world.value(task.inputs)):
        workspace = as_workspace(value)
        if workspace is None or "#" in workspace.branch:
            continue
        if workspace.branch in world.heads or workspace.branch.rpartition(".")[2] == "workspace":
            yield workspace.branch


def _texts(task: Task, workflow: Workflow, seen: set[str]) -> Iterator[str]:
    """The texts in the inputs of a task and of the scripts that they come from: one of them names the task of the lanes."""
    seen.add(task.ref)
    yield from roles.texts_in(task.inputs)
    by_ref = {one.ref: one for one in workflow.walk()}
    for _, expression in expressions.found_in(task.inputs):
        source = by_ref.get(expression.root)
        if source is not None and source.type in SCRIPTS and source.ref not in seen:
            yield from _texts(source, workflow, seen)
