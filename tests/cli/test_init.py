import ast
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.cli.conftest import Perago

from perago.cli import init
from perago.cli.init import Language
from perago.errors import SetupError

RUNNABLE = [Language.SHELL, *([Language.TYPESCRIPT] if shutil.which("node") else [])]
"""The tutorial runs Python's. Node is not among the requirements of the tests; where it is installed, its project is run too."""


def test_it_writes_a_whole_project(tmp_path: Path) -> None:
    written = init.create(tmp_path / "My Sales_2")
    assert {str(path) for path in written} >= {
        "README.md",
        ".gitignore",
        ".env.example",
        "sales_pipeline.py",
        "summarize_sales.py",
        "write_report.py",
        "sample/params.json",
    }
    assert {path.relative_to(tmp_path / "My Sales_2") for path in tmp_path.rglob("*") if path.is_file()} == set(written)
    made = tmp_path / "My Sales_2"
    assert tomllib.loads((made / "pyproject.toml").read_text())["project"]["name"] == "my-sales-2"
    assert "@NAME@" not in "".join(path.read_text() for path in made.rglob("*") if path.is_file())
    for module in made.rglob("*.py"):
        ast.parse(module.read_text())


@pytest.mark.parametrize("language", Language)
def test_every_language_has_the_same_project_around_its_task(tmp_path: Path, language: Language) -> None:
    written = {str(path) for path in init.create(tmp_path, language)}
    assert {"README.md", "sales_pipeline.py", "summarize_sales.py", "tests/test_write_report.py", ".gitignore"} <= written
    program = {"python": "write_report.py", "typescript": "write_report.mjs", "shell": "write_report.sh"}[language]
    assert program in written
    assert ("write_report.task.toml" in written) == (language is not Language.PYTHON)
    assert "@NAME@" not in "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize("language", RUNNABLE)
def test_a_new_project_runs_and_passes_its_tests(tmp_path: Path, perago: Perago, language: Language) -> None:
    made = tmp_path / "made"
    assert perago("init", "--language", language.value, made).returncode == 0
    arguments = ("--workspace", "sample/repository", "--params", "@sample/params.json", "--write", "result")
    ran = perago("run", "sales_pipeline", *arguments, cwd=made)
    assert ran.returncode == 0, ran.stderr
    assert "| FR | 125.25 |" in (made / "result" / "sales" / "report.md").read_text()
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=made, capture_output=True, text=True, check=False
    )
    assert tested.returncode == 0, tested.stdout


def test_an_empty_directory_is_fine(tmp_path: Path) -> None:
    assert init.create(tmp_path)


def test_a_directory_with_anything_in_it_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".hidden").touch()
    with pytest.raises(SetupError, match="is not empty; name a new or an empty directory"):
        init.create(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".hidden"]


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    with pytest.raises(SetupError, match="is a file; name a new or an empty directory"):
        init.create(tmp_path / "x")


def test_a_place_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    with pytest.raises(SetupError, match=r"cannot (write|look into) .*: Not a directory"):
        init.create(tmp_path / "x" / "y")


def test_next_steps_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    init.show(Path("x"), init.create(Path("x")))
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("created x with ")
    assert out[out.index("next:") + 1] == "  cd x"
    assert any(line.strip().startswith("perago check sales_pipeline") for line in out)


@pytest.mark.parametrize("installed", [True, False])
def test_the_tests_are_run_in_the_environment_that_has_perago(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    monkeypatch.setattr(init, "find_spec", lambda _name: object() if installed else None)  # pyright: ignore[reportUnknownLambdaType]
    init.show(tmp_path / "x", init.create(tmp_path / "x"))
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"  {'' if installed else 'pip install pytest && '}python -m pytest  # run the tests"
