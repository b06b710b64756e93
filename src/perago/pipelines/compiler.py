"""Compiles a pipeline to the JSON of a Conductor workflow."""

from collections.abc import Mapping
from typing import Any

from perago.pipelines import graph
from perago.pipelines.compiled import nodes as compiled_nodes
from perago.pipelines.compiled.expressions import Expressions
from perago.pipelines.declaration import input_defaults
from perago.pipelines.declaration.model_fields import Form, fields

Json = dict[str, Any]

WORKSPACE_INPUT = "${workflow.input.workspace}"


def workflow(pipeline: graph.Pipeline) -> Json:
    """The definition, with version 1; registration sets the version."""
    expressions = Expressions.of(pipeline)
    body = compiled_nodes.compile_nodes(pipeline.nodes, WORKSPACE_INPUT, expressions)
    workspace = {"workspace": body.workspace} if pipeline.has_workspace else {}
    return {
        "name": pipeline.name,
        **({} if pipeline.description is None else {"description": pipeline.description}),
        "version": 1,
        "tasks": body.tasks,
        "inputParameters": [*(["workspace"] if pipeline.has_workspace else []), *_input_names(pipeline)],
        "inputTemplate": {} if pipeline.inputs is None else input_defaults.template(pipeline.inputs),
        "outputParameters": {**workspace, **_outputs(pipeline.outputs, expressions)},
        "schemaVersion": 2,
        "restartable": True,
        "ownerEmail": pipeline.owner_email,
        "timeoutPolicy": "ALERT_ONLY",
        "timeoutSeconds": 0,
    }


def _input_names(pipeline: graph.Pipeline) -> list[str]:
    return [] if pipeline.inputs is None else [field.json_name for field in fields(pipeline.inputs, Form.READ).values()]


def _outputs(outputs: Mapping[str, graph.Value], expressions: Expressions) -> Json:
    return {name: expressions.value(value) for name, value in outputs.items()}
