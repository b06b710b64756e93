"""Everything that a task author imports. Importing it loads neither Pydantic nor pyspark."""

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    __version__: str

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


def __getattr__(name: str) -> str:
    """`__version__`, looked up when it is used because reading the metadata takes longer than the rest of the import."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from perago import distribution  # noqa: PLC0415

    return distribution.version()
