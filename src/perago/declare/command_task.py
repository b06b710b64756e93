"""`perago.command`: declares a task whose body is a program in any language, and returns what a pipeline takes as a task."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from perago.declare import command_line, task
from perago.declare.problems import Problem
from perago.declare.task import TaskDeclaration

if TYPE_CHECKING:
    from pydantic import BaseModel

    from perago.declare.contract_builder import ContractResult
    from perago.declare.controls import TaskControls
    from perago.declare.workspace_spec import WorkspaceSpec

    Params = TypeVar("Params", bound=BaseModel)
    Result = TypeVar("Result", bound=BaseModel)
    Schema = Mapping[str, Any] | str | Path | None

ACCEPTED = ("name", "owner_email", "description", "command", "params", "result", "environment", "workspace", "controls")


class CommandTask:
    """A command task as a value: `flow.step` and `perago.testing.run_task` take it in the place of a function with `@task`."""

    def __init__(self, declaration: TaskDeclaration) -> None:
        self.__perago_task__ = declaration
        self.__name__ = declaration.step_name

    def __repr__(self) -> str:
        return f"<command task {self.__perago_task__.name!r}>"

    def __call__(self, *_given: object, **_named: object) -> Any:
        """Pipelines take callables as tasks. A direct call would run the command without a workspace and without checks."""
        raise TypeError(f"{self!r} is not called; run it with perago.testing.run_task, perago run, or as a step of a pipeline")


if TYPE_CHECKING:

    @overload
    def command(
        line: Sequence[str],
        *,
        name: str,
        owner_email: str,
        description: str | None = None,
        params: type[Params],
        result: type[Result],
        workspace: WorkspaceSpec,
        controls: TaskControls | None = None,
        environment: Sequence[str] = (),
    ) -> Callable[[Path, Params], Result]: ...
    @overload
    def command(
        line: Sequence[str],
        *,
        name: str,
        owner_email: str,
        description: str | None = None,
        params: type[Params],
        result: type[Result],
        workspace: None = None,
        controls: TaskControls | None = None,
        environment: Sequence[str] = (),
    ) -> Callable[[Params], Result]: ...
    @overload
    def command(
        line: Sequence[str],
        *,
        name: str,
        owner_email: str,
        description: str | None = None,
        params: type[BaseModel] | Schema = None,
        result: type[BaseModel] | Schema = None,
        workspace: WorkspaceSpec | None = None,
        controls: TaskControls | None = None,
        environment: Sequence[str] = (),
    ) -> Callable[..., Any]: ...
    def command(*args: Any, **given: Any) -> Any:
        """Declare a command as this module's task. `params` and `result` are models, or JSON Schemas, or files with one."""

else:

    def command(*args: object, **given: object) -> CommandTask:
        """Declare a command as this module's task. `params` and `result` are models, or JSON Schemas, or files with one."""
        caller = sys._getframe(1)  # noqa: SLF001  the module that declares the task, as `@task` finds it in its function
        arguments = {"command": args[0], **given} if args else given
        more = [Problem("", f"perago.command takes one list, not {len(args)} values")] if len(args) > 1 else []
        declaration = declare(str(caller.f_globals.get("__name__", "?")), directory_of(caller.f_globals), arguments, more)
        task.record(caller.f_globals, (declaration.name, caller.f_lineno), declaration)
        return CommandTask(declaration)


def directory_of(module: Mapping[str, Any]) -> Path:
    """Where relative files of a module begin: its directory, or the working directory for one without a file."""
    file = module.get("__file__")
    return Path(file).absolute().parent if file else Path.cwd()


def declare(module: str, directory: Path, given: Mapping[str, Any], problems: Sequence[Problem] = ()) -> TaskDeclaration:
    """The task with these arguments, which are not validated yet; `TaskDefinitionError` with every problem."""
    environment, step_name = given.get("environment", ()), command_line.step_name(given.get("name"))
    command, wrong = command_line.read(given.get("command"), directory, environment, step_name)
    every = [*problems, *task.argument_problems(given, ACCEPTED, module), *wrong]
    derived = _contract(given, directory)
    declaration = task.declared(module, given, every, derived, command)
    return _with_warnings(declaration, given["command"])


def _with_warnings(declaration: TaskDeclaration, line: Sequence[str]) -> TaskDeclaration:
    command = declaration.body
    if not isinstance(command, command_line.Command):
        return declaration
    return replace(declaration, warnings=(*declaration.warnings, *command_line.warnings(line, command)))


def _contract(given: Mapping[str, Any], directory: Path) -> "ContractResult":
    # Imported here because Pydantic is slow to import, and `import perago` must not wait for it.
    from perago.declare import contract_builder  # noqa: PLC0415
    from perago.declare.signature import Signature, WorkspaceKind  # noqa: PLC0415

    params, wrong_params = _model(given.get("params"), directory, "params")
    result, wrong_result = _model(given.get("result"), directory, "result")
    if params is None or result is None or wrong_params or wrong_result:
        return contract_builder.ContractResult(None, (*wrong_params, *wrong_result))
    kind = WorkspaceKind.NONE if given.get("workspace") is None else WorkspaceKind.LOCAL
    derived = contract_builder.from_signature(Signature(kind, params, result))
    if derived.contract is None:
        return derived
    unwritable = tuple(contract_builder.unwritable_params(params))
    return contract_builder.ContractResult(None, unwritable, derived.warnings) if unwritable else derived


def _model(given: object, directory: Path, name: str) -> "tuple[type[BaseModel] | None, list[Problem]]":
    """The model of params or result, which may be given as a model, as a schema, or as the file of one."""
    from perago.declare import schema_files, schema_model, signature  # noqa: PLC0415  as above

    if isinstance(given, type):
        return given, [*signature.model_problems(name, given)]
    document, problems = schema_files.document(given, directory, name)
    return (None, problems) if problems else schema_model.make(document, name)
