"""The command line itself: which commands there are, what they load, and what they warn about."""

import inspect
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from tests.cli.conftest import PROGRAM, Perago, clean_environment

from perago.cli import commands


@pytest.mark.parametrize("name", commands.COMMANDS)
def test_summary_is_first_line_of_help(name: str) -> None:
    written = commands.python_name(name)
    command = getattr(import_module(f"perago.cli.{written}"), written)
    assert (inspect.getdoc(command) or "").splitlines()[0] == commands.COMMANDS[name]


def test_each_command_has_a_module_and_each_module_a_command() -> None:
    modules = {path.stem for path in Path(commands.__file__).parent.glob("*.py") if not path.stem.startswith("_")}
    assert modules == {*map(commands.python_name, commands.COMMANDS), "main", "commands"}


def test_unknown_command_gets_a_suggestion(inside: Perago) -> None:
    assert inside("chek").stderr == "error: no such command 'chek'. Did you mean 'check', 'checkout'? (see perago --help)\n"


@pytest.mark.parametrize("name", commands.COMMANDS)
def test_short_help_option_and_no_python_types(inside: Perago, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = inside(name, "-h")
    assert shown.returncode == 0
    assert shown.stdout == inside(name, "--help").stdout
    assert "-h, --help" in shown.stdout
    assert not re.search(r"<\w|<=|>=|range|list\[|\{[A-Z]", shown.stdout), shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_each_command_has_one_line_in_80_columns(inside: Perago, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    listed = inside("-h").stdout.split("Commands:\n")[1].split("\n\n")[0].splitlines()
    assert [line.split()[0] for line in listed] == list(commands.COMMANDS)
    assert max(map(len, listed)) <= 80


COMPLETE = """
eval "$(perago --show-completion)"
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_perago_completion perago
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["perago", "de"], ["dev", "demo"]),
        (["perago", "run", "--wo"], ["--workspace"]),
        (["perago", "check", "wo"], ["words"]),
    ],
)
def test_completion_in_bash(project: Path, typed: list[str], offered: list[str]) -> None:
    (project / "world.py").write_text("# not a task\n")
    environment = {**clean_environment(), "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", COMPLETE, "bash", *typed],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == offered, done.stderr


def test_completion_in_zsh(perago: Perago) -> None:
    asked = {"_PERAGO_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "perago und"}
    assert perago(env=asked).stdout == f"""_arguments '*: :(("undo":"{commands.COMMANDS["undo"]}"))'\n"""


INTERRUPT = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPT_AT"]:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
"""


@pytest.mark.parametrize(
    ("imported", "arguments"),
    [
        ("typer", ["--help"]),
        ("perago.errors", ["check", "words"]),
        ("perago.terminal.console", ["check", "words"]),
        ("pydantic", ["check", "words"]),
        ("perago.supervisor.serve", ["start", "words"]),
        ("perago.cli.check", ["check"]),
    ],
)
def test_interrupt_while_the_program_loads_prints_nothing(
    perago: Perago, tmp_path: Path, imported: str, arguments: list[str]
) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPT)
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = perago(*arguments, env={"PYTHONPATH": os.pathsep.join(map(os.path.abspath, paths)), "INTERRUPT_AT": imported})
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_little_is_loaded_before_an_interrupt_can_be_handled() -> None:
    code = "import sys; before = set(sys.modules); import perago.cli; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert {name for name in done.stdout.split() if name.startswith("perago")} == {"perago", "perago.cli"}


LOADED = """
import sys
from perago.cli import main
sys.argv = ["perago", *sys.argv[1:]]
try:
    main.main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "not_loaded"),
    [
        (["--version"], {"typer", "pydantic", "rich", "perago.errors"}),
        (["--help"], {"pydantic", "rich", "structlog", "pyspark", "perago.settings"}),
        (
            ["check", "words"],
            {
                "rich",
                "pydantic_settings",
                "perago.pipelines.graph",
                "perago.workflow_check",
                "structlog",
                "prometheus_client",
                "pyspark",
                "perago.supervisor",
                "perago.lake",
                "perago.operate",
            },
        ),
    ],
)
def test_command_loads_only_what_it_needs(project: Path, arguments: list[str], not_loaded: set[str]) -> None:
    line = [sys.executable, "-c", LOADED, *arguments]
    done = subprocess.run(line, cwd=project, capture_output=True, text=True, timeout=60, check=True)
    assert set(done.stderr.split()) & not_loaded == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "words"],
        ["run", "words", "-w", "ws", "-p", '{"word": "a", "times": 1}'],
        ["extract", "words", "-o", "words.json"],
        ["register", "words"],
        ["start", "words"],
        ["status"],
        ["gc", "repository"],
        ["doctor", "repository"],
    ],
)
def test_unknown_setting_gets_one_warning(inside: Perago, project: Path, arguments: list[str]) -> None:
    (project / ".env").write_text("PERAGO_LOGROOT=/x\n")
    lines = inside(*arguments).stderr.splitlines()
    warning = "warning: PERAGO_LOGROOT is not a setting of Perago; did you mean PERAGO_LOG_ROOT?"
    assert [line for line in lines if "PERAGO_LOGROOT" in line] == [warning]
