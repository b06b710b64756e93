"""The front door: everything a task author imports. Importing it loads neither Pydantic nor pyspark."""

from perago.attempt.cancellation import cancelled
from perago.declare.checks import forbid_glob, require_dir, require_file, require_glob
from perago.declare.controls import ExecutionLimits, PublishBudget, RetryPolicy, TaskControls, TimeoutPolicy
from perago.declare.spark_workspace import SparkWorkspace
from perago.declare.task import task
from perago.declare.workspace_spec import WorkspaceSpec
from perago.errors import (
    GuardrailViolation,
    PeragoError,
    PostGuardrailViolation,
    PreGuardrailViolation,
    PublishFenceError,
    RuntimeConfigError,
    StaleAttemptError,
    TaskDefinitionError,
    TaskFailed,
    TaskInputError,
    TaskResultError,
    TaskTerminalError,
)

__all__ = [
    "ExecutionLimits",
    "GuardrailViolation",
    "PeragoError",
    "PostGuardrailViolation",
    "PreGuardrailViolation",
    "PublishBudget",
    "PublishFenceError",
    "RetryPolicy",
    "RuntimeConfigError",
    "SparkWorkspace",
    "StaleAttemptError",
    "TaskControls",
    "TaskDefinitionError",
    "TaskFailed",
    "TaskInputError",
    "TaskResultError",
    "TaskTerminalError",
    "TimeoutPolicy",
    "WorkspaceSpec",
    "cancelled",
    "forbid_glob",
    "require_dir",
    "require_file",
    "require_glob",
    "task",
]
