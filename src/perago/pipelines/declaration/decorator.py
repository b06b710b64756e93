"""The `@pipeline` decorator: runs the function once with symbols, and attaches the pipeline to the function, which it returns."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_type_hints

from pydantic import BaseModel

from perago.declare import contract_builder, signature, task_names
from perago.declare.problems import Problem, definition_error, unknown
from perago.errors import TaskDefinitionError
from perago.pipelines import attached, graph
from perago.pipelines.attached import pipeline_of, pipelines_in
from perago.pipelines.declaration import input_defaults, outputs, steps
from perago.pipelines.declaration.blocks import Block
from perago.pipelines.declaration.model_fields import Form, fields
from perago.pipelines.declaration.recorded_models import recording
from perago.pipelines.declaration.state import Declaration
from perago.pipelines.declaration.symbols import Known, Symbol, refused_problem

__all__ = ["pipeline", "pipeline_of", "pipelines_in"]

Function = TypeVar("Function", bound=Callable[..., Any])

_ACCEPTED = ("name", "owner_email", "description")
_SHAPES = "write (flow: Flow, inputs: Inputs) -> Result, or (flow: Flow) without inputs"


@dataclass(frozen=True, slots=True)
class _Models:
    inputs: type[BaseModel] | None
    result: type[BaseModel] | None


if TYPE_CHECKING:

    def pipeline(*, name: str, owner_email: str, description: str | None = None) -> Callable[[Function], Function]:
        """Declare the function below as this module's pipeline. It runs once, now, and records its steps."""
        ...

else:

    def pipeline(*args: object, **given: object) -> Callable[[Function], Function]:
        """Declare the function below as this module's pipeline. It runs once, now, and records its steps."""
        if args and callable(args[0]):
            what = Problem("name, owner_email", "required; write @pipeline(name='...', owner_email='...')")
            raise definition_error(getattr(args[0], "__module__", "?"), None, [what], "pipeline")
        return lambda function: _declared(function, args, given)


def _declared(function: Any, args: tuple[object, ...], given: Mapping[str, Any]) -> Any:
    module, name = str(getattr(function, "__module__", "?")), given.get("name")
    problems = list(_argument_problems(args, given))
    models = _models(function, problems)
    if problems or models is None:
        raise definition_error(module, name if isinstance(name, str) else None, problems, "pipeline")
    declaration = Declaration(given["name"])
    produced = _run(function, declaration, models)
    declaration.check_helper_names()
    declaration.problems += [Problem("", what) for what in steps.conflicting(declaration.top.nodes)]
    if not declaration.top.nodes and not declaration.problems:
        declaration.problem("", "has no steps; write flow.step(...)")
    if declaration.problems:
        raise definition_error(module, declaration.name, declaration.problems, "pipeline")
    found = graph.Pipeline(
        name=given["name"],
        owner_email=given["owner_email"],
        description=given.get("description"),
        inputs=models.inputs,
        result=models.result,
        nodes=tuple(declaration.top.nodes),
        outputs=produced,
        module=module,
        warnings=tuple(_warnings(models)),
    )
    attached.attach(function, found)
    return function


def _run(function: Any, declaration: Declaration, models: _Models) -> Mapping[str, graph.Value]:
    from perago.pipelines.flow import Flow  # noqa: PLC0415  the public module imports this one

    arguments: list[object] = [Flow(declaration)]
    if models.inputs is not None:
        input_defaults.check(declaration, models.inputs)
        arguments.append(_inputs_symbol(declaration, declaration.top, models.inputs))
    try:
        with recording():
            returned = function(*arguments)
            return outputs.convert(declaration, returned, models.result)
    except TaskDefinitionError as error:
        problem = refused_problem(error)
        if problem is None:
            raise
        declaration.problem(problem.field, problem.what)
        return {}


def _inputs_symbol(declaration: Declaration, home: Block, model: type[BaseModel]) -> Symbol:
    return Symbol(Known(declaration, graph.Reference(graph.PipelineInput(), (), model), "inputs", home, Form.READ))


def _argument_problems(args: tuple[object, ...], given: Mapping[str, Any]) -> Iterator[Problem]:
    if args:
        yield Problem(
            "", f"@pipeline takes no positional values; write name=..., owner_email=..., not {', '.join(map(repr, args))}"
        )
    yield from (unknown(name, _ACCEPTED) for name in given if name not in _ACCEPTED)
    yield from task_names.name_problems(given["name"]) if "name" in given else [Problem("name", "required; write name='...'")]
    email = [Problem("owner_email", "required; write owner_email='team@example.com'")]
    yield from task_names.email_problems(given["owner_email"]) if "owner_email" in given else email
    description = given.get("description")
    if description is not None and not isinstance(description, str):
        yield Problem("description", f"must be a str, not {description!r}")


def _models(function: Any, problems: list[Problem]) -> _Models | None:
    """The models of the signature; None, and problems, if it is not that of a pipeline."""
    if isinstance(function, type) or not inspect.isfunction(inspect.unwrap(function)):
        problems.append(Problem("", f"@pipeline goes on a function, not on {function!r}"))
        return None
    names = list(inspect.signature(function).parameters)
    if names not in (["flow"], ["flow", "inputs"]):
        problems.append(Problem("signature", f"parameters are ({', '.join(names)}); {_SHAPES}"))
        return None
    hints = _hints(function, problems)
    if hints is None:
        return None
    if "return" not in hints:
        problems.append(Problem("signature.return", "has no annotation; write -> Result, a Pydantic model, or -> None"))
    if "inputs" in names and "inputs" not in hints:
        problems.append(Problem("signature.inputs", "has no annotation; write inputs: Inputs, a Pydantic model"))
    given = {name: hints[name] for name in ("inputs", "return") if hints.get(name, type(None)) is not type(None)}
    for name, annotation in given.items():
        problems += _model_problems(name, annotation)
    return _Models(cast("Any", given.get("inputs")), cast("Any", given.get("return")))


def _hints(function: Any, problems: list[Problem]) -> Mapping[str, object] | None:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as unresolved:
        what = f"annotation {unresolved.name!r} cannot be resolved; define or import it at module level above the pipeline"
        problems.append(Problem("signature", what))
    except (TypeError, SyntaxError) as wrong:
        problems.append(Problem("signature", f"an annotation cannot be read: {wrong}"))
    return None


def _model_problems(name: str, annotation: object) -> Iterator[Problem]:
    shape = list(signature.model_problems(f"signature.{name}", annotation))
    yield from shape
    if shape:
        return
    model = cast("type[BaseModel]", annotation)
    yield from contract_builder.inspected(model, "params" if name == "inputs" else "result").problems
    for field in fields(model, Form.READ if name == "inputs" else Form.WRITTEN).values():
        if field.json_name == "workspace":
            where = "inputs" if name == "inputs" else "result"
            yield Problem(f"{where}.{field.name}", "the workspace has this name in the workflow; write another, such as 'folder'")


def _warnings(models: _Models) -> Iterator[str]:
    if models.inputs is not None:
        yield from contract_builder.inspected(models.inputs, "params").warnings
    if models.result is not None:
        yield from contract_builder.inspected(models.result, "result").warnings
