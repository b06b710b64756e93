"""Task files, `NAME.task.toml`: a command task that is declared without Python."""

import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from perago.declare import command_task, controls, module_names, source_record
from perago.declare.checks import FILE_CHECKS_BY_NAME
from perago.declare.command_task import CommandTask
from perago.declare.problems import DeclaredValue, Problem, definition_error
from perago.declare.task import TaskDeclaration
from perago.declare.workspace_spec import WorkspaceSpec
from perago.errors import TaskDefinitionError

_CONTROLS: Mapping[str, type[DeclaredValue]] = {
    "retry": controls.RetryPolicy,
    "timeout": controls.TimeoutPolicy,
    "limits": controls.ExecutionLimits,
    "publish_budget": controls.PublishBudget,
}

_Stamps = tuple[tuple[str, int, int], ...]
_loaded: dict[Path, tuple[_Stamps, TaskDeclaration]] = {}
"""Two modules that use the same file get the same task, as they do with a Python module."""


def task_file(path: str | Path) -> CommandTask:
    """The task that a task file declares, for a pipeline. A relative path begins at the directory of the calling module."""
    directory = command_task.directory_of(sys._getframe(1).f_globals)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return CommandTask(load(str(directory / path)))


def load(given: str) -> TaskDeclaration:
    """The task of a file; `TaskDefinitionError` with every problem."""
    module = module_names.of_task_file(given)
    file = Path(os.path.abspath(given))  # noqa: PTH100  links are kept, as in the name of the module
    source_record.record(file)
    table = _table(file, module)
    stamps = _stamps(file, table)
    known = _loaded.get(file)
    if known is not None and known[0] == stamps and known[1].module == module:
        return known[1]
    reader = _Reader()
    arguments = reader.arguments(table)
    declaration = command_task.declare(module, file.parent, arguments, reader.problems)
    _loaded[file] = stamps, declaration
    return declaration


def _table(file: Path, module: str) -> dict[str, Any]:
    try:
        if not file.is_file():
            raise TaskDefinitionError(f"there is no file {module!r}{module_names.suggestion(module)}")
        return tomllib.loads(file.read_bytes().decode())
    except OSError as error:
        raise TaskDefinitionError(f"{module}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TaskDefinitionError(f"{module}: is not UTF-8 text") from None
    except (tomllib.TOMLDecodeError, RecursionError) as wrong:
        raise definition_error(module, None, [Problem("", f"is not TOML: {wrong or 'it is nested too deeply'}")]) from None


def _stamps(file: Path, table: Mapping[str, Any]) -> _Stamps:
    """When the file and its schema files were changed last, by name."""
    files = [file, *(file.parent / one for one in (table.get("params"), table.get("result")) if isinstance(one, str))]
    found = ((one, one.stat()) for one in files if one.is_file())
    return tuple((str(one), status.st_mtime_ns, status.st_size) for one, status in found)


@dataclass(slots=True)
class _Reader:
    """Makes the values of a declaration from the tables of a file. Problems are recorded with the path of the key."""

    problems: list[Problem] = field(default_factory=list[Problem])

    def arguments(self, table: Mapping[str, Any]) -> dict[str, Any]:
        made = dict(table)
        if "workspace" in table:
            made["workspace"] = self._workspace(table["workspace"])
        if "controls" in table:
            made["controls"] = self._controls(table["controls"])
        return made

    def _workspace(self, given: object) -> WorkspaceSpec | None:
        table = self._is_table("workspace", given)
        if table is None:
            return None
        lists: dict[str, Any] = {
            name: self._checks(f"workspace.{name}", table[name]) for name in ("pre", "post") if name in table
        }
        return WorkspaceSpec(**{**table, **lists})

    def _checks(self, where: str, given: object) -> list[Any]:
        if not isinstance(given, list):
            self.problems.append(Problem(where, f"must be a list of checks, such as [{{ require_file = 'x' }}], not {given!r}"))
            return []
        found = (self._check(f"{where}[{index}]", one) for index, one in enumerate(cast("list[object]", given)))
        return [one for one in found if one is not None]

    def _check(self, where: str, given: object) -> DeclaredValue | None:
        table = self._is_table(where, given)
        if table is None:
            return None
        names = [name for name in table if name in FILE_CHECKS_BY_NAME]
        if len(names) != 1:
            what = f"must have exactly one of {', '.join(FILE_CHECKS_BY_NAME)}"
            self.problems.append(Problem(where, f"{what}; it has {', '.join(table) or 'nothing'}"))
            return None
        kind = FILE_CHECKS_BY_NAME[names[0]]
        argument = next(one.name for one in fields(kind) if one.init)
        rest = {name: value for name, value in table.items() if name != names[0]}
        return kind(**{argument: table[names[0]], **rest})

    def _controls(self, given: object) -> controls.TaskControls | None:
        table = self._is_table("controls", given)
        if table is None:
            return None
        made: dict[str, Any] = dict(table)
        for name, kind in _CONTROLS.items():
            if name in table:
                inside = self._is_table(f"controls.{name}", table[name])
                made.pop(name)
                if inside is not None:
                    made[name] = kind(**inside)
        return controls.TaskControls(**made)

    def _is_table(self, where: str, given: object) -> dict[str, Any] | None:
        if isinstance(given, dict):
            return cast("dict[str, Any]", given)
        self.problems.append(Problem(where, f"must be a table, not {given!r}"))
        return None
