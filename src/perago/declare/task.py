"""The `@task` decorator: validates a declaration and attaches a `TaskDeclaration` to the function, which it returns."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from perago.declare import task_names
from perago.declare.command_line import Command
from perago.declare.controls import TaskControls, nested_problems
from perago.declare.lanes import BUILT_IN_PACKAGE
from perago.declare.problems import Problem, definition_error, unknown
from perago.declare.tables.require_table import RequireTable
from perago.declare.workspace_spec import WorkspaceSpec

if TYPE_CHECKING:
    from perago.declare.contract import Contract
    from perago.declare.contract_builder import ContractResult
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
    body: Callable[..., Any] | Command
    """The function with `@task`, or what a command task runs."""
    module: str
    """The name of the Python module, or the path of the task file."""
    warnings: tuple[str, ...] = ()

    @property
    def kind(self) -> "WorkspaceKind":
        return self.contract.kind

    @property
    def step_name(self) -> str:
        """Of a step that runs this task, where the author gives no other."""
        return self.body.step_name if isinstance(self.body, Command) else str(getattr(self.body, "__name__", "step"))

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
    record(original.__globals__, (original.__qualname__, original.__code__.co_firstlineno), declaration)
    return function


def record(module: dict[str, Any], place: tuple[str, int], declaration: TaskDeclaration) -> None:
    """Note in the variables of a module that it declares this task, at a place that distinguishes it from others there."""
    module.setdefault(_DECLARED, {})[place] = declaration


def _declaration(function: Any, args: tuple[object, ...], given: Mapping[str, Any]) -> TaskDeclaration:
    # Imported here because Pydantic is slow to import; a module that declares a task has imported it already.
    from perago.declare import contract_builder  # noqa: PLC0415

    derived = contract_builder.build_contract(function, has_workspace=given.get("workspace") is not None)
    module = str(getattr(function, "__module__", "?"))
    problems = [*_positional_problems(args), *argument_problems(given, _ACCEPTED, module)]
    return declared(module, given, problems, derived, function)


def declared(
    module: str,
    given: Mapping[str, Any],
    problems: list[Problem],
    derived: "ContractResult",
    body: Callable[..., Any] | Command | None,
) -> TaskDeclaration:
    """The task with these arguments; `TaskDefinitionError` with every problem of the arguments and of the contract."""
    every, name = [*problems, *derived.problems], given.get("name")
    if every or derived.contract is None or body is None:
        raise definition_error(module, name if isinstance(name, str) else None, every)
    workspace, controls = given.get("workspace"), given.get("controls")
    controls = controls if controls is not None else TaskControls()
    return TaskDeclaration(
        name=given["name"],
        owner_email=given["owner_email"],
        description=given.get("description"),
        workspace=workspace,
        controls=controls,
        contract=derived.contract,
        body=body,
        module=module,
        warnings=(*derived.warnings, *_warnings(workspace, controls)),
    )


def _positional_problems(args: tuple[object, ...]) -> Iterator[Problem]:
    if args:
        yield Problem("", f"@task takes no positional values; write name=..., owner_email=..., not {', '.join(map(repr, args))}")


def argument_problems(given: Mapping[str, Any], accepted: Sequence[str], module: str) -> Iterator[Problem]:
    """Problems of the arguments that every kind of task has, and of arguments that are not among the accepted ones."""
    yield from (unknown(name, accepted) for name in given if name not in accepted)
    name = [Problem("name", "required; write name='...'")]
    is_built_in = module.startswith(BUILT_IN_PACKAGE)
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
