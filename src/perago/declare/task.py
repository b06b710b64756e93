"""The `@task` decorator: validates a declaration and attaches a `TaskDeclaration` to the function, which it returns."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from perago.declare import task_names
from perago.declare.controls import TaskControls, nested_problems
from perago.declare.lanes import BUILT_IN_PACKAGE
from perago.declare.problems import Problem, definition_error, unknown
from perago.declare.tables.require_table import RequireTable
from perago.declare.workspace_spec import WorkspaceSpec

if TYPE_CHECKING:
    from perago.declare.contract import Contract
    from perago.declare.signature import WorkspaceKind

Function = TypeVar("Function", bound=Callable[..., Any])

_ATTRIBUTE = "__perago_task__"
_DECLARED = "__perago_tasks__"
_ACCEPTED = ("name", "owner_email", "description", "workspace", "controls")
_READ_ONLY_BUDGET = "WorkspaceSpec(read_only=True) disables workspace publication; TaskControls.publish_budget is ignored."


@dataclass(frozen=True, slots=True)
class TaskDeclaration:
    """A valid task. `warnings` are shown by `perago check` and `perago start`."""

    name: str
    owner_email: str
    description: str | None
    workspace: WorkspaceSpec | None
    controls: TaskControls
    contract: "Contract"
    function: Callable[..., Any]
    module: str
    warnings: tuple[str, ...] = ()

    @property
    def kind(self) -> "WorkspaceKind":
        return self.contract.kind

    @property
    def publishes(self) -> bool:
        """Whether an attempt may move the target branch."""
        return self.workspace is not None and not self.workspace.read_only

    @property
    def checks_tables(self) -> bool:
        return self.workspace is not None and any(
            isinstance(check, RequireTable) for check in (*self.workspace.pre, *self.workspace.post)
        )


if TYPE_CHECKING:

    def task(
        *,
        name: str,
        owner_email: str,
        description: str | None = None,
        workspace: WorkspaceSpec | None = None,
        controls: TaskControls | None = None,
    ) -> Callable[[Function], Function]:
        """Declare the function below as this module's task. Its signature is the contract."""
        ...

else:

    def task(*args: object, **given: object) -> Callable[[Function], Function]:
        """Declare the function below as this module's task. Its signature is the contract."""
        if args and callable(args[0]):
            raise _bare(args[0])
        return lambda function: _attach(function, args, given)


def declaration_of(function: Callable[..., Any]) -> TaskDeclaration | None:
    """What `@task` attached to a function, or None."""
    found = getattr(function, _ATTRIBUTE, None)
    return found if isinstance(found, TaskDeclaration) else None


def declared_in(module: Mapping[str, Any]) -> list[TaskDeclaration]:
    """Every task that a module declared, including functions whose name was reused later in the module."""
    return list(module.get(_DECLARED, {}).values())


def _bare(function: Callable[..., Any]) -> Exception:
    what = Problem("name, owner_email", "required; write @task(name='...', owner_email='...')")
    return definition_error(getattr(function, "__module__", "?"), None, [what])


def _attach(function: Any, args: tuple[object, ...], given: Mapping[str, Any]) -> Any:
    declaration = _declaration(function, args, given)
    setattr(function, _ATTRIBUTE, declaration)
    original = inspect.unwrap(function)
    # Two functions of the same name are two tasks, but a module that is executed again declares the same tasks.
    place = (original.__qualname__, original.__code__.co_firstlineno)
    original.__globals__.setdefault(_DECLARED, {})[place] = declaration
    return function


def _declaration(function: Any, args: tuple[object, ...], given: Mapping[str, Any]) -> TaskDeclaration:
    # Imported here because Pydantic is slow to import; a module that declares a task has imported it already.
    from perago.declare import contract_builder  # noqa: PLC0415

    workspace, controls = given.get("workspace"), given.get("controls")
    derived = contract_builder.build_contract(function, has_workspace=workspace is not None)
    module = str(getattr(function, "__module__", "?"))
    problems = [*_argument_problems(args, given, is_built_in=module.startswith(BUILT_IN_PACKAGE)), *derived.problems]
    if problems or derived.contract is None:
        name = given.get("name")
        raise definition_error(module, name if isinstance(name, str) else None, problems)
    controls = controls if controls is not None else TaskControls()
    return TaskDeclaration(
        name=given["name"],
        owner_email=given["owner_email"],
        description=given.get("description"),
        workspace=workspace,
        controls=controls,
        contract=derived.contract,
        function=function,
        module=module,
        warnings=(*derived.warnings, *_warnings(workspace, controls)),
    )


def _argument_problems(args: tuple[object, ...], given: Mapping[str, Any], *, is_built_in: bool) -> Iterator[Problem]:
    if args:
        yield Problem("", f"@task takes no positional values; write name=..., owner_email=..., not {', '.join(map(repr, args))}")
    yield from (unknown(name, _ACCEPTED) for name in given if name not in _ACCEPTED)
    name = [Problem("name", "required; write name='...'")]
    yield from task_names.name_problems(given["name"], is_built_in=is_built_in) if "name" in given else name
    email = [Problem("owner_email", "required; write owner_email='team@example.com'")]
    yield from task_names.email_problems(given["owner_email"]) if "owner_email" in given else email
    description, workspace, controls = (given.get(name) for name in ("description", "workspace", "controls"))
    if description is not None and not isinstance(description, str):
        yield Problem("description", f"must be a str, not {description!r}")
    if workspace is not None:
        yield from nested_problems("workspace", workspace, WorkspaceSpec)
    if controls is not None:
        yield from nested_problems("controls", controls, TaskControls)
        if workspace is None and getattr(controls, "publish_budget", None) is not None:
            yield Problem("controls.publish_budget", "a task without a workspace publishes nothing; remove it")


def _warnings(workspace: WorkspaceSpec | None, controls: TaskControls) -> Iterator[str]:
    if workspace is not None and workspace.read_only and controls.publish_budget is not None:
        yield _READ_ONLY_BUDGET
    else:
        yield from controls.warnings()
