"""The command of a command task: its arguments, its files, and the variables of the worker's environment that it gets."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from perago.declare import source_record
from perago.declare.problems import Problem

_SCRIPTS = frozenset(
    {".bash", ".cjs", ".jar", ".jl", ".js", ".lua", ".mjs", ".mts", ".php", ".pl", ".py", ".r", ".rb", ".sh", ".ts"}
)
_KEPT_BACK = ("CONDUCTOR_", "LAKECTL_", "LAKEFS_", "PERAGO_")
"""Perago's own settings begin so, among them the credentials of Conductor and lakeFS."""


@dataclass(frozen=True, slots=True)
class Command:
    """What a command task runs."""

    line: tuple[str, ...]
    """The program and its arguments. Those that name files beside the declaration are absolute."""
    directory: Path
    """Where the declaration is."""
    environment: tuple[str, ...] = ()
    """Names of variables that it gets from the worker's environment beside the usual ones."""
    step_name: str = "step"
    """Of a step that runs it, where the author gives no other."""

    def missing_program(self) -> str | None:
        """Why the program cannot be started on this machine; None if it seems that it can."""
        program = self.line[0]
        if "/" not in program and not _is_in_path(program):
            return f"the program {program!r} is not in the PATH of this machine; install it, or write its path"
        return _file_fault(Path(program)) if "/" in program else None


def read(line: object, directory: Path, environment: object, step_name: str) -> tuple[Command | None, list[Problem]]:
    """The command, or its problems. Relative files are those in `directory`."""
    problems = [*_line_problems(line), *_environment_problems(environment)]
    if problems:
        return None, problems
    texts = cast("Sequence[str]", line)
    absolute = (_program(texts[0], directory), *(_argument(text, directory) for text in texts[1:]))
    for text in absolute:
        if os.path.isabs(text) and text.startswith(f"{directory}{os.sep}"):  # noqa: PTH117  most arguments are no paths
            source_record.record(Path(text))
    made = Command(absolute, directory, tuple(cast("Sequence[str]", environment)), step_name)
    return made, [*_program_problems(texts[0], made)]


def warnings(given: Sequence[str], command: Command) -> Iterator[str]:
    """What is probably wrong with a command that can be declared."""
    if "/" not in command.line[0] and (missing := command.missing_program()):
        yield f"command: {missing}."
    for index, (text, made) in enumerate(zip(given, command.line, strict=True)):
        if index and Path(text).suffix.lower() in _SCRIPTS and not text.startswith("-") and not Path(made).is_absolute():
            where = f"there is no file {text!r} in {command.directory}"
            yield f"command[{index}]: {where}; the command looks for it in its workspace."


def step_name(task_name: object) -> str:
    """The last part of the task's name, as a Python name."""
    last = task_name.rpartition(".")[2] if isinstance(task_name, str) else ""
    made = re.sub(r"\W", "_", last, flags=re.ASCII)
    return made if made.isidentifier() else f"step_{made}"


def _line_problems(line: object) -> Iterator[Problem]:
    if isinstance(line, str) or not isinstance(line, Sequence) or not line:
        yield Problem("command", f"must be a list of the program and its arguments, such as ['node', 'render.mjs'], not {line!r}")
        return
    for index, text in enumerate(cast("Sequence[object]", line)):
        if not isinstance(text, str):
            yield Problem(f"command[{index}]", f"must be text, not {text!r}; write {str(text)!r}")
        elif "\0" in text or (index == 0 and not text.strip()):
            yield Problem(f"command[{index}]", f"{text!r} cannot be started; write the name of a program")


def _environment_problems(given: object) -> Iterator[Problem]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        yield Problem("environment", f"must be a list of names of variables, not {given!r}")
        return
    for index, name in enumerate(cast("Sequence[object]", given)):
        where = f"environment[{index}]"
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            yield Problem(where, f"must be the name of a variable, such as 'TZ', not {name!r}")
        elif name.startswith(_KEPT_BACK):
            yield Problem(
                where, f"{name} is a setting of Perago or of its servers and is never passed to a command; leave it out"
            )


def _program(text: str, directory: Path) -> str:
    return os.path.normpath(directory / text) if "/" in text else text


def _argument(text: str, directory: Path) -> str:
    """Absolute if it names a file beside the declaration, because the command runs in its workspace."""
    if not text or text.startswith("-") or len(text) > _LONGEST_PATH:
        return text
    file = directory / text
    return os.path.normpath(file) if file.is_file() else text


_LONGEST_PATH = 4096


def _program_problems(given: str, command: Command) -> Iterator[Problem]:
    program = Path(command.line[0])
    if "/" not in given:
        if not _is_in_path(given) and (command.directory / given).is_file():
            what = f"{given!r} is not in the PATH, but a file beside the declaration; write './{given}'"
            yield Problem("command[0]", what)
    elif fault := _file_fault(program):
        yield Problem("command[0]", fault)


def _is_in_path(program: str) -> bool:
    # Imported here because it takes longer than the rest of a declaration, and few tasks are commands.
    import shutil  # noqa: PLC0415

    return shutil.which(program) is not None


def _file_fault(program: Path) -> str | None:
    if not program.exists():
        return f"there is no file {str(program)!r}"
    if not program.is_file():
        return f"{str(program)!r} is not a file"
    if not os.access(program, os.X_OK):
        return f"{str(program)!r} is not executable; run: chmod +x {program}"
    return None
