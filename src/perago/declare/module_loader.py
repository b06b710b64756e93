"""Import a module, found as by `python -m`, or read a task file, and return the one task that it declares."""

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterable
from types import ModuleType, TracebackType

from perago.declare import module_names, spark_workspace
from perago.declare.command_line import Command
from perago.declare.problems import Problem, definition_error
from perago.declare.signature import WorkspaceKind
from perago.declare.task import TaskDeclaration, declared_in
from perago.errors import TaskDefinitionError

_TAIL = 4
TABLES_PACKAGES = ("duckdb>=1.4",)
"""As in the extra `tables` of pyproject.toml."""


def load(module_name: str) -> TaskDeclaration:
    """The task of a module, given by name or file; `TaskDefinitionError` if it cannot be imported or has not exactly one."""
    if module_names.is_task_file(module_name):
        return load_task_file(module_name)
    module = import_by_name(module_name)
    found = only_task(module)
    require_packages(module.__name__, [found])
    return found


def load_task_file(path: str) -> TaskDeclaration:
    # Imported here because most commands are given Python modules.
    from perago.declare import task_file  # noqa: PLC0415

    return task_file.load(path)


def import_by_name(module_name: str) -> ModuleType:
    """The module of that name or file, imported; `TaskDefinitionError` if that fails."""
    name = module_names.dotted(module_name)
    _prepend_working_directory()
    return _imported(name)


def require_packages(module: str, tasks: Iterable[TaskDeclaration]) -> None:
    """`TaskDefinitionError` if one of the tasks needs Spark, or DuckDB for its data checks, and that is not installed."""
    declared = list(tasks)
    if any(task.kind is WorkspaceKind.SPARK for task in declared) and importlib.util.find_spec("pyspark") is None:
        raise _without_spark(module)
    checked = (task for task in declared if task.kind is WorkspaceKind.LOCAL and task.checks_tables)
    if any(checked) and importlib.util.find_spec("duckdb") is None:
        command = spark_workspace.install_command(TABLES_PACKAGES)
        raise TaskDefinitionError(f"{module}: uses require_table, and duckdb is not installed; run: {command}")


def require_programs(tasks: Iterable[TaskDeclaration]) -> None:
    """`TaskDefinitionError` if one of the tasks runs a program that this machine does not have."""
    for task in tasks:
        if isinstance(task.body, Command) and (missing := task.body.missing_program()):
            raise definition_error(task.module, task.name, [Problem("command", missing)])


def only_task(module: ModuleType) -> TaskDeclaration:
    """The task of an imported module."""
    module_name, tasks = module.__name__, declared_in(vars(module))
    if len(tasks) == 1:
        return tasks[0]
    if not tasks:
        raise TaskDefinitionError(f"{module_name}: declares no task; put @task(name=..., owner_email=...) on one function")
    names = ", ".join(repr(one.name) for one in tasks)
    raise TaskDefinitionError(f"{module_name}: declares {len(tasks)} tasks ({names}); give each a module of its own")


def _prepend_working_directory() -> None:
    """Put the working directory first on the path, as `python -m` does; a console script puts its own directory there."""
    here = os.getcwd()  # noqa: PTH109  sys.path holds text
    if here not in sys.path[:1]:
        sys.path.insert(0, here)
    importlib.invalidate_caches()


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except TaskDefinitionError:
        raise
    except ModuleNotFoundError as missing:
        if missing.name is not None and missing.name.partition(".")[0] == "pyspark":
            raise _without_spark(name) from None
        if missing.name is not None and (name == missing.name or name.startswith(f"{missing.name}.")):
            raise _absent(name) from None
        raise _broken(name, missing) from missing
    except (Exception, SystemExit) as wrong:
        # Any error of the author's code is reported with its location.
        raise _broken(name, wrong) from wrong


def _absent(name: str) -> TaskDefinitionError:
    here = os.getcwd()  # noqa: PTH109
    return TaskDefinitionError(f"no module {name!r} in {here} or on the Python path{module_names.suggestion(name)}")


def _without_spark(name: str) -> TaskDefinitionError:
    command = spark_workspace.install_command(spark_workspace.SPARK_PACKAGES)
    return TaskDefinitionError(f"{name}: uses Spark, and pyspark is not installed; run: {command}")


def _broken(name: str, wrong: BaseException) -> TaskDefinitionError:
    """The error, followed by the end of the traceback without the frames of the import system."""
    frames = [f for f in traceback.extract_tb(_tb(wrong)) if not f.filename.startswith("<frozen") and f.filename != __file__]
    frames = [f for f in frames if f.filename != importlib.__file__]
    lines = traceback.format_list(frames[-_TAIL:]) + traceback.format_exception_only(wrong)
    tail = "".join(lines).rstrip().replace("\n", "\n  ")
    summary = " ".join(f"{type(wrong).__name__}: {wrong}".split())
    return TaskDefinitionError(f"{name}: importing it failed with {summary}\n  {tail}")


def _tb(wrong: BaseException) -> TracebackType | None:
    return wrong.__traceback__
