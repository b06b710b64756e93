"""The command line itself: which commands there are, what they load, and what they warn about."""

import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from tests.cli.conftest import Perago

from perago.cli import main


@pytest.mark.parametrize("name", main.COMMANDS)
def test_summary_is_first_line_of_help(name: str) -> None:
    command = getattr(import_module(f"perago.cli.{name}"), name)
    assert (inspect.getdoc(command) or "").splitlines()[0] == main.COMMANDS[name]


def test_each_command_has_a_module_and_each_module_a_command() -> None:
    modules = {path.stem for path in Path(main.__file__).parent.glob("*.py") if not path.stem.startswith("_")}
    assert modules == {*main.COMMANDS, "main"}


def test_unknown_command_gets_a_suggestion(inside: Perago) -> None:
    assert inside("chek").stderr == "error: no such command 'chek'. Did you mean 'check'? (see perago --help)\n"


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
        (["--help"], {"pydantic", "rich", "structlog", "pyspark", "perago.settings"}),
        (["check", "words"], {"structlog", "prometheus_client", "pyspark", "perago.supervisor", "perago.lake", "perago.operate"}),
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
