"""Read the signature of a task function: the kind of its workspace and its models, or a list of problems."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import BaseModel, RootModel

from perago.declare.lanes import BUILT_IN_PACKAGE, Lanes
from perago.declare.problems import Problem
from perago.declare.spark_workspace import SparkWorkspace

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class WorkspaceKind(Enum):
    """The type of a task's `workspace` argument."""

    LOCAL = "local"
    SPARK = "spark"
    LANES = "lanes"
    """Of the built-in tasks only."""
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Signature:
    kind: WorkspaceKind
    params: type[BaseModel]
    result: type[BaseModel]


_WITH = "(workspace: Path, params: P) -> R"
_WITHOUT = "(params: P) -> R"
_SHAPES = f"write {_WITH} with a WorkspaceSpec, or {_WITHOUT} without one"


def read(function: Callable[..., Any], *, has_workspace: bool) -> Signature | list[Problem]:
    problems = list(_shape_problems(function, has_workspace=has_workspace))
    if problems:
        return problems
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as unresolved:
        return [_unresolved(str(unresolved.name))]
    except (TypeError, SyntaxError) as wrong:
        return [Problem("signature", f"an annotation cannot be read: {wrong}")]
    return _typed(function, hints)


def _unresolved(name: str) -> Problem:
    return Problem(
        "signature",
        f"annotation {name!r} cannot be resolved; define or import it at module level above the task, not under TYPE_CHECKING",
    )


def _shape_problems(function: Callable[..., Any], *, has_workspace: bool) -> Iterator[Problem]:
    if isinstance(function, type) or not inspect.isfunction(inspect.unwrap(function)):
        yield Problem("", f"@task goes on a function, not on {function!r}")
        return
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        yield Problem("signature", "async is not supported; write a plain def")
    elif inspect.isgeneratorfunction(function):
        yield Problem("signature", "the body yields; return the result instead")
    parameters = inspect.signature(function).parameters
    yield from _parameter_problems(parameters, has_workspace=has_workspace)


def _parameter_problems(parameters: Mapping[str, inspect.Parameter], *, has_workspace: bool) -> Iterator[Problem]:
    names = list(parameters)
    if names == ["workspace", "params"] and not has_workspace:
        yield Problem("workspace", f"the function takes a workspace, but @task has no workspace=WorkspaceSpec(...); {_SHAPES}")
    elif names == ["params"] and has_workspace:
        yield Problem("workspace", f"@task has a WorkspaceSpec, but the function takes no workspace; {_SHAPES}")
    elif names not in (["workspace", "params"], ["params"]):
        yield Problem("signature", f"parameters are ({', '.join(map(str, parameters.values()))}); {_SHAPES}")
    for name, parameter in parameters.items():
        if parameter.kind not in _POSITIONAL:
            yield Problem(f"signature.{name}", "must be positional: no *args, **kwargs or keyword-only parameters")
        elif parameter.default is not inspect.Parameter.empty:
            yield Problem(f"signature.{name}", "must have no default; defaults belong in the params model")


def _typed(function: Callable[..., Any], hints: Mapping[str, object]) -> Signature | list[Problem]:
    wanted = [*inspect.signature(function).parameters, "return"]
    problems = [Problem(f"signature.{name}", f"has no annotation; {_SHAPES}") for name in wanted if name not in hints]
    kind = _kind(hints, function.__module__) if "workspace" in wanted else WorkspaceKind.NONE
    if kind is None:
        problems.append(Problem("signature.workspace", f"must be annotated Path or SparkWorkspace, not {hints['workspace']}"))
    for name in ("params", "return"):
        if name in hints:
            problems += model_problems(f"signature.{name}", hints[name])
    params, result = hints.get("params"), hints.get("return")
    if problems or kind is None or not isinstance(params, type) or not isinstance(result, type):
        return problems
    return Signature(kind, params, result)


def _kind(hints: Mapping[str, object], module: str) -> WorkspaceKind | None:
    """None for a wrong annotation; a missing one is reported separately and counts as `Path` here."""
    annotation = hints.get("workspace", Path)
    if annotation is Path:
        return WorkspaceKind.LOCAL
    if annotation is Lanes and module.startswith(BUILT_IN_PACKAGE):
        return WorkspaceKind.LANES
    return WorkspaceKind.SPARK if annotation is SparkWorkspace else None


def model_problems(field: str, annotation: object) -> Iterator[Problem]:
    """Why an annotation is no model that a contract can have."""
    shown = str(getattr(annotation, "__name__", annotation))
    if not isinstance(annotation, type) or not issubclass(annotation, BaseModel) or annotation is BaseModel:
        yield Problem(field, f"must be a Pydantic model (class X(BaseModel)), not {shown}")
    elif issubclass(annotation, RootModel):
        yield Problem(field, f"{annotation.__name__} is a RootModel; write a model with named fields")
    elif any(base.__module__.startswith("pydantic_settings") for base in annotation.__mro__):
        yield Problem(field, f"{annotation.__name__} is a BaseSettings, which reads the environment; write a BaseModel")
