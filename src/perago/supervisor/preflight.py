"""Before the first poll: what the modules need is set, the servers answer and accept us, the definitions are registered."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from perago import ipc
from perago.conductor.port import Conductor
from perago.declare import taskdef
from perago.errors import LakeError, LakeForbidden, RuntimeConfigError
from perago.lake.port import Lake
from perago.model import TaskType
from perago.settings import Settings


def require_distinct(tasks: Sequence[ipc.TaskFacts]) -> None:
    """Two modules with one task type would take each other's work."""
    seen: dict[str, str] = {}
    for task in tasks:
        if task.task_type in seen:
            raise RuntimeConfigError(
                f"{seen[task.task_type]} and {task.module} both declare task {task.task_type}; start one of them"
            )
        seen[task.task_type] = task.module


def require_settings(tasks: Sequence[ipc.TaskFacts], settings: Settings) -> None:
    if any(task.needs_lake for task in tasks):
        settings.require_lakefs()
        require_writable("PERAGO_WORKSPACE_ROOT", settings.perago_workspace_root)
        require_writable("PERAGO_CACHE_ROOT", settings.perago_cache_root)


def require_writable(name: str, directory: Path) -> None:
    """Now, in one line, and not in every attempt."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise RuntimeConfigError(
            f"{name} {directory} cannot be written ({error.strerror}); set it to a directory that this user may write to"
        ) from error


def require_lake(lake: Lake) -> None:
    """Reachable, and it accepts the credentials."""
    try:
        lake.capabilities()
    except LakeForbidden as error:
        raise RuntimeConfigError(f"lakeFS does not accept the credentials in LAKECTL_CREDENTIALS_*: {error}") from error
    except LakeError as error:
        raise RuntimeConfigError(
            f"lakeFS cannot be used: {error}; is it running, and does LAKECTL_SERVER_ENDPOINT_URL name it?"
        ) from error


def require_definitions(tasks: Sequence[ipc.TaskFacts], conductor: Conductor, *, register: bool) -> list[str]:
    """Warnings about definitions that differ from what the modules declare; with `register` they are brought up to date."""
    warnings: list[str] = []
    for task in tasks:
        stored = conductor.task_definition(TaskType(task.task_type))
        differing = {} if stored is None else taskdef.differences(task.definition, stored)
        if register and (stored is None or differing):
            conductor.put_task_definition(task.definition)
        elif stored is None:
            raise RuntimeConfigError(
                f"task {task.task_type} is not registered in Conductor; "
                f"run `perago register {task.module}` or start with --register"
            )
        elif differing:
            names = ", ".join(sorted(differing))
            warnings.append(
                f"Conductor's definition of {task.task_type} differs from {task.module} in {names}; --register updates it"
            )
    return warnings
