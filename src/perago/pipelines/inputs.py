"""The inputs of a run of a pipeline: checked against the declared model, and completed with its defaults."""

from collections.abc import Mapping
from typing import Any

from perago.declare import contract
from perago.errors import TaskInputError
from perago.pipelines import graph
from perago.pipelines.declaration import input_defaults


def require_valid(pipeline: graph.Pipeline, given: Mapping[str, Any]) -> None:
    """`TaskInputError` with every input that is wrong, missing or unknown."""
    if pipeline.inputs is not None:
        contract.parse_model(pipeline.inputs, given, "inputs")
    elif given:
        raise TaskInputError(f"pipeline {pipeline.name!r} has no inputs; leave out {', '.join(given)}")


def with_defaults(pipeline: graph.Pipeline, given: Mapping[str, Any]) -> dict[str, Any]:
    """As Conductor completes them from the workflow's `inputTemplate`: null counts as absent."""
    template = {} if pipeline.inputs is None else input_defaults.template(pipeline.inputs)
    return {**given, **{name: value for name, value in template.items() if given.get(name) is None}}
