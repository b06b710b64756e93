"""Loading a task module by name from the working directory, and the errors of modules without exactly one task."""

import itertools
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perago import TaskDefinitionError
from perago.declare import module_loader

TASK = """
from __future__ import annotations
from pydantic import BaseModel
from perago import task

class P(BaseModel):
    n: int

@task(name="{name}", owner_email="a@example.com")
def body(params: P) -> P:
    return params
"""

_numbers = itertools.count()
Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes a module with a new name into the working directory and returns the name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)

    def write(text: str, package: str = "") -> str:
        name = f"loaded_{next(_numbers)}"
        folder = tmp_path / package
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
        return f"{package}.{name}" if package else name

    yield write
    for name in set(sys.modules) - known:
        del sys.modules[name]


def refusal(name: str) -> str:
    with pytest.raises(TaskDefinitionError) as caught:
        module_loader.load(name)
    return str(caught.value)


def test_a_module_in_the_working_directory_is_found_though_it_was_not_on_the_path(write: Write) -> None:
    name = write(TASK.format(name="x"))
    declaration = module_loader.load(name)
    assert (declaration.name, declaration.module) == ("x", name)


def test_a_module_in_a_package_without_init_is_found(write: Write) -> None:
    name = write(TASK.format(name="x"), package="tasks")
    assert module_loader.load(name).module == name


def test_the_working_directory_comes_first(write: Write, tmp_path: Path) -> None:
    name = write(TASK.format(name="here"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / f"{name}.py").write_text(TASK.format(name="there"))
    sys.path.insert(0, str(elsewhere))
    assert module_loader.load(name).name == "here"


def test_a_task_imported_from_another_module_is_not_counted(write: Write) -> None:
    other = write(TASK.format(name="other"))
    name = write(
        f"from {other} import body as _\n" + TASK.format(name="mine").replace("from __future__ import annotations\n", "")
    )
    assert module_loader.load(name).name == "mine"
    only_imports = write(f"from {other} import body")
    assert refusal(only_imports).startswith(f"{only_imports}: declares no task")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("features.py", "there is no file 'features.py'"),
        ("./tasks/features", "there is no file 'tasks/features.py'"),
        ("tasks-of-mine/a.py", "there is no file 'tasks-of-mine/a.py'"),
        ("", "'' is not a module name; write one as for 'python -m', such as tasks.features"),
        ("a-b", "'a-b' is not a module name; write one as for 'python -m', such as tasks.features"),
        (".a", "'.a' is not a module name; write one as for 'python -m', such as tasks.features"),
    ],
)
def test_what_is_no_module_name_is_refused(given: str, message: str) -> None:
    assert refusal(given) == message


@pytest.mark.parametrize("written", ["tasks/{}.py", "./tasks/{}.py", "tasks/{}", "{}/tasks/{}.py"])
def test_a_file_names_its_module(write: Write, tmp_path: Path, written: str) -> None:
    name = write(TASK.format(name="x"), package="tasks")
    stem = name.removeprefix("tasks.")
    given = written.format(stem) if written.count("{}") == 1 else written.format(tmp_path, stem)
    assert module_loader.load(given).module == name


def test_a_file_that_python_could_not_import_by_name_is_refused(write: Write, tmp_path: Path) -> None:
    write(TASK.format(name="x"), package="of-mine")
    file = next((tmp_path / "of-mine").iterdir())
    assert refusal(f"of-mine/{file.name}").startswith(f"'of-mine/{file.name}' is not a module name")
    assert refusal("../elsewhere.py").startswith(f"'../elsewhere.py' is not in the working directory {tmp_path}")


def test_a_misspelt_module_gets_a_suggestion(write: Write) -> None:
    name = write(TASK.format(name="x"), package="tasks")
    assert refusal(name.replace("loaded", "laoded")).endswith(f"; did you mean {name}?")
    assert refusal(name.replace("tasks", "task")).endswith(f"; did you mean {name}?")
    assert refusal("tasks/laoded" + name[len("tasks.loaded") :] + ".py").endswith(f"; did you mean {name}?")


PIPELINE = """
raise SystemExit("a module is not imported for a guess")
@pipeline(
    owner_email="a@example.com", name='{name}',
)
def steps(flow): ...
"""


def test_a_misspelt_module_of_a_pipeline_gets_a_suggestion(write: Write) -> None:
    name = write(PIPELINE.format(name="sales.nightly"))
    assert refusal(name[:-1]).endswith(f"; did you mean {name}?")


@pytest.mark.parametrize("given", ["sales.nightly", "sales-nightly"])
def test_the_name_of_a_pipeline_or_task_gets_its_module(write: Write, given: str) -> None:
    module = write(PIPELINE.format(name=given))
    assert refusal(given).endswith(f"; that is the name of a pipeline: write its module, {module}")
    module = write(TASK.format(name="sales.report"))
    assert refusal("sales.report").endswith(f"; that is the name of a task: write its module, {module}")
    assert "that is the name" not in refusal("sales_report")


def test_a_missing_module_is_refused_with_the_place_that_was_searched(write: Write, tmp_path: Path) -> None:
    assert refusal("no_such_module") == f"no module 'no_such_module' in {tmp_path} or on the Python path"
    write("", package="package")
    assert refusal("package.missing") == f"no module 'package.missing' in {tmp_path} or on the Python path"
    assert refusal("nowhere.missing") == f"no module 'nowhere.missing' in {tmp_path} or on the Python path"


def test_a_module_without_a_task_is_refused(write: Write) -> None:
    name = write("x = 1")
    assert refusal(name) == f"{name}: declares no task; put @task(name=..., owner_email=...) on one function"


def test_two_tasks_are_refused_also_when_one_hides_the_other(write: Write) -> None:
    one = TASK.format(name="first")
    name = write(one + one[one.index("@task") :].replace("first", "second"))
    assert refusal(name) == f"{name}: declares 2 tasks ('first', 'second'); give each a module of its own"


def test_an_error_inside_the_module_shows_the_end_of_the_authors_traceback(write: Write) -> None:
    name = write(
        """
        def ratio(a, b):
            return a / b

        ratio(1, 0)
        """
    )
    lines = refusal(name).splitlines()
    assert lines[0] == f"{name}: importing it failed with ZeroDivisionError: division by zero"
    shown = "\n".join(lines[1:])
    assert re.search(rf'{name}.py", line 5, in <module>\n +ratio\(1, 0\)', shown)
    assert re.search(rf'{name}.py", line 3, in ratio\n +return a / b', shown)
    assert lines[-1] == "  ZeroDivisionError: division by zero"
    assert "importlib" not in shown
    assert "module_loader.py" not in shown


def test_an_import_that_is_missing_inside_the_module_is_not_taken_for_the_module(write: Write) -> None:
    name = write("import no_such_dependency")
    assert refusal(name).startswith(f"{name}: importing it failed with ModuleNotFoundError: No module named 'no_such_dependency'")


def test_broken_syntax_names_file_and_line(write: Write) -> None:
    name = write("def (:")
    message = refusal(name)
    assert message.startswith(f"{name}: importing it failed with SyntaxError")
    assert f'{name}.py", line 1' in message


def test_a_module_that_exits_is_refused(write: Write) -> None:
    name = write("import sys\nsys.exit(3)")
    assert refusal(name).startswith(f"{name}: importing it failed with SystemExit: 3")


def test_a_wrong_declaration_is_refused_in_its_own_words(write: Write) -> None:
    name = write(TASK.format(name="a/b"))
    assert refusal(name) == f"{name}: task 'a/b': name: 'a/b' has '/'; use letters, digits, '.', '_' and '-'"


def test_a_module_can_be_loaded_twice(write: Write) -> None:
    name = write(TASK.format(name="x"))
    assert module_loader.load(name) is module_loader.load(name)
