"""Which workspace a script (JSON_JQ_TRANSFORM, INLINE, LAMBDA) gives.

The forms that are common for workspaces are evaluated; of others it is assumed that they choose correctly among their inputs.
"""

import re
from collections.abc import Iterator, Sequence

from perago.workflow_check.definition import Task
from perago.workflow_check.expressions import SCRIPT_FIELDS
from perago.workflow_check.values import (
    NOTHING,
    Computed,
    Fields,
    Nothing,
    Unknown,
    Value,
    Workspace,
    as_workspace,
    step_into,
    workspaces_in,
)
from perago.workflow_check.worlds import World

_PATH = r"\.\w+(?:\.\w+)*"
_ONE = re.compile(rf"\(?({_PATH})\)?")
_FIRST = re.compile(rf"\(?({_PATH}(?:\s*//\s*{_PATH})+)\)?")
_CHOICE = re.compile(rf"if\b.*\bthen\s*\(?({_PATH})\)?\s*else\s*\(?({_PATH})\)?\s*end", re.DOTALL)


def output(task: Task, world: World) -> Value:
    """The `result` of a script, among the fields of its output."""
    inputs = Fields({name: world.value(one) for name, one in task.inputs.items() if name not in SCRIPT_FIELDS})
    query = task.inputs.get("queryExpression")
    result = _of_query(query.strip(), inputs, world) if isinstance(query, str) else None
    if result is None:
        candidates = list(workspaces_in(inputs))
        result = Computed(_likely(candidates, world) or Unknown(f"{task.ref}.output.result"), candidates)
    return Fields({"result": result, "resultList": Computed(result, [result])})


def is_choice(task: Task) -> bool:
    """Whether it is a query that chooses one of two values."""
    query = task.inputs.get("queryExpression")
    return isinstance(query, str) and _CHOICE.fullmatch(query.strip()) is not None


def _of_query(query: str, inputs: Value, world: World) -> Value | None:
    if match := _ONE.fullmatch(query):
        return _at(inputs, match[1])
    if match := _FIRST.fullmatch(query):
        found = [_at(inputs, path.strip()) for path in match[1].split("//")]
        return next((one for one in found if not isinstance(one, Nothing)), NOTHING)
    if match := _CHOICE.fullmatch(query):
        candidates = [_at(inputs, match[1]), _at(inputs, match[2])]
        return _likely(candidates, world) or NOTHING
    return None


def _at(value: Value, path: str) -> Value:
    for name in path.split(".")[1:]:
        value = step_into(value, name)
    return value


def _likely(candidates: Sequence[Value], world: World) -> Value | None:
    """The one that a correct script gives: the present commit of a branch that this workflow writes to, if it is among them."""
    return next(_by_preference(candidates, world), None)


def _by_preference(candidates: Sequence[Value], world: World) -> Iterator[Value]:
    found = [(one, workspace) for one in candidates if (workspace := as_workspace(one)) is not None]
    yield from (one for one, workspace in found if workspace.branch in world.heads and world.is_current(workspace))
    yield from (one for one, workspace in found if world.is_current(workspace) and _looks_like_one(workspace))
    yield from (one for one, workspace in found if workspace.branch in world.heads)
    yield from (one for one, _ in found)


def _looks_like_one(workspace: Workspace) -> bool:
    return "workspace" in workspace.branch.rpartition(".")[2].lower() or "#" in workspace.branch
