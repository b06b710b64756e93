"""Checks before the first poll: settings, writable directories, both servers and the registered task definitions."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from perago import errors, ipc
from perago.conductor import registration
from perago.conductor.port import Conductor
from perago.errors import LakeError, LakeForbidden, RuntimeConfigError, SetupError
from perago.lake.port import Lake
from perago.model import TaskType
from perago.process.exit_status import ExitStatus
from perago.settings import Settings, require_private


def require_distinct(tasks: Sequence[ipc.TaskFacts]) -> None:
    """Two modules with the same task type would take each other's tasks."""
    seen: dict[str, str] = {}
    for task in tasks:
        if task.task_type in seen:
            raise RuntimeConfigError(
                f"{seen[task.task_type]} and {task.module} both declare task {task.task_type}; start one of them"
            )
        seen[task.task_type] = task.module


def need_lake(tasks: Sequence[ipc.TaskFacts]) -> bool:
    """Whether tasks of the modules use lakeFS. The built-in tasks are served wherever it is configured, and demand nothing."""
    return any(task.needs_lake and not task.is_built_in for task in tasks)


def require_settings(tasks: Sequence[ipc.TaskFacts], settings: Settings) -> None:
    if need_lake(tasks):
        settings.require_lakefs()
        require_writable("PERAGO_WORKSPACE_ROOT", settings.perago_workspace_root)
        require_writable("PERAGO_CACHE_ROOT", settings.perago_cache_root)


def require_writable(name: str, directory: Path) -> None:
    """Checked once at the start, so that a wrong directory does not fail every attempt."""
    try:
        require_private(directory)
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise RuntimeConfigError(
            f"{name} {directory} cannot be written ({error.strerror}); set it to a directory that this user may write to"
        ) from error


def require_lake(lake: Lake) -> None:
    """`RuntimeConfigError` unless lakeFS can be reached and accepts the credentials."""
    try:
        lake.capabilities()
    except LakeForbidden as error:
        raise RuntimeConfigError(f"lakeFS does not accept the credentials in LAKECTL_CREDENTIALS_*: {error}") from error
    except LakeError as error:
        raise RuntimeConfigError(
            f"lakeFS cannot be used: {error}; is it running, and does LAKECTL_SERVER_ENDPOINT_URL name it?"
        ) from error


def require_definitions(tasks: Sequence[ipc.TaskFacts], conductor: Conductor, *, register: bool) -> list[str]:
    """Returns warnings about definitions that differ from what the modules declare; with `register` they are updated.

    The definitions of the built-in tasks are Perago's own and always updated.
    """
    warnings: list[str] = []
    for task in tasks:
        if register or task.is_built_in:
            registration.register(conductor, task.definition)
            continue
        stored = conductor.task_definition(TaskType(task.task_type))
        if stored is None:
            raise RuntimeConfigError(
                f"task {task.task_type} is not registered in Conductor; "
                f"run `perago register {task.module}` or start with --register"
            )
        if changes := registration.differences(stored, task.definition):
            names = ", ".join(sorted({change.field.partition(".")[0] for change in changes}))
            warnings.append(
                f"Conductor's definition of {task.task_type} differs from {task.module} in {names}; --register updates it"
            )
    return warnings


def setup_error(rejection: ipc.ModulesRejected | None, exit_status: ExitStatus) -> SetupError:
    """Why the first executor did not load the modules: the error that it reported, with the same class and code."""
    if rejection is None:
        return RuntimeConfigError(f"the first executor {exit_status} while it imported the modules")
    known: type[SetupError] = getattr(errors, rejection.error, RuntimeConfigError)
    return known(rejection.message)
