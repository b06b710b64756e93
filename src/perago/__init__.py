"""Everything that a task author imports. A name is loaded at its first use, so that `import perago` takes next to no time.

The command line begins with that import, and can only handle Ctrl-C after it.
"""

from importlib import import_module

TYPE_CHECKING = False  # importing `typing` would take most of the time
if TYPE_CHECKING:
    from perago.attempt.cancellation import cancelled
    from perago.declare.checks import forbid_glob, require_dir, require_file, require_glob
    from perago.declare.command_task import command
    from perago.declare.controls import ExecutionLimits, PublishBudget, RetryPolicy, TaskControls, TimeoutPolicy
    from perago.declare.spark_workspace import SparkWorkspace
    from perago.declare.tables.require_table import require_table
    from perago.declare.tables.rules import Between, In, Matches, OneOf, Unique
    from perago.declare.tables.table import Table
    from perago.declare.task import task
    from perago.declare.task_file import task_file
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
    from perago.pipelines.flow import Flow, pipeline

    __version__: str

__all__ = [
    "Between",
    "ExecutionLimits",
    "Flow",
    "GuardrailViolation",
    "In",
    "Matches",
    "OneOf",
    "PeragoError",
    "PostGuardrailViolation",
    "PreGuardrailViolation",
    "PublishBudget",
    "PublishFenceError",
    "RetryPolicy",
    "RuntimeConfigError",
    "SparkWorkspace",
    "StaleAttemptError",
    "Table",
    "TaskControls",
    "TaskDefinitionError",
    "TaskFailed",
    "TaskInputError",
    "TaskResultError",
    "TaskTerminalError",
    "TimeoutPolicy",
    "Unique",
    "WorkspaceSpec",
    "cancelled",
    "command",
    "forbid_glob",
    "pipeline",
    "require_dir",
    "require_file",
    "require_glob",
    "require_table",
    "task",
    "task_file",
]

_HOMES = {
    "attempt.cancellation": ("cancelled",),
    "declare.checks": ("forbid_glob", "require_dir", "require_file", "require_glob"),
    "declare.command_task": ("command",),
    "declare.controls": ("ExecutionLimits", "PublishBudget", "RetryPolicy", "TaskControls", "TimeoutPolicy"),
    "declare.spark_workspace": ("SparkWorkspace",),
    "declare.tables.require_table": ("require_table",),
    "declare.tables.rules": ("Between", "In", "Matches", "OneOf", "Unique"),
    "declare.tables.table": ("Table",),
    "declare.task": ("task",),
    "declare.task_file": ("task_file",),
    "declare.workspace_spec": ("WorkspaceSpec",),
    "pipelines.flow": ("Flow", "pipeline"),
}
"""Where names are defined; all others are errors."""


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("perago.distribution").version()
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((home for home, names in _HOMES.items() if name in names), "errors")
    globals()[name] = value = getattr(import_module(f"perago.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
