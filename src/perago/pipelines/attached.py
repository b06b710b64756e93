"""The pipeline that `@pipeline` attached to a function, and those that a module declares.

A command that is given a task finds out here that it is no pipeline, and does not wait for the pipelines' modules.
"""

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perago.pipelines.graph import Pipeline

_ATTRIBUTE = "__perago_pipeline__"
_DECLARED = "__perago_pipelines__"


def attach(function: Any, pipeline: "Pipeline") -> None:
    setattr(function, _ATTRIBUTE, pipeline)
    original = inspect.unwrap(function)
    # Two functions of the same name are two pipelines, but a module that is executed again declares the same ones.
    place = (original.__qualname__, original.__code__.co_firstlineno)
    original.__globals__.setdefault(_DECLARED, {})[place] = pipeline


def pipeline_of(function: object) -> "Pipeline | None":
    """What `@pipeline` attached to a function, or None."""
    return getattr(function, _ATTRIBUTE, None)


def pipelines_in(module: Mapping[str, Any]) -> "list[Pipeline]":
    """Every pipeline that a module declared."""
    return list(module.get(_DECLARED, {}).values())
