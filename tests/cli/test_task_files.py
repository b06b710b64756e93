"""`perago check`, `extract` and `run` with task files and with pipelines that use them."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Perago

from perago.cli import _inputs
from perago.testing import run_pipeline

TASK = """
name = "words.count"
owner_email = "data@example.com"
command = ["sh", "count.sh"]

[params]
type = "object"
additionalProperties = false
required = ["rows"]
[params.properties.rows]
type = "array"
items = { type = "object", properties.n = { type = "integer" }, required = ["n"], additionalProperties = false }

[result]
type = "object"
additionalProperties = false
required = ["files"]
properties.files = { type = "integer" }

[workspace]
prefix = "/words"
post = [{ require_file = "count.txt" }]
"""
SCRIPT = """
case $(cat) in *9*) echo "nine is bad data" >&2; exit 65 ;; *8*) echo "later" >&2; exit 1 ;; esac
ls in | wc -l > count.txt
echo "counted"
echo "{\\"files\\": $(cat count.txt)}" > "$PERAGO_RESULT"
"""
PIPELINE = """
from pathlib import Path
from pydantic import BaseModel
import perago
from perago import Flow, WorkspaceSpec, pipeline
from listing import listing

count = perago.task_file("tasks/count.task.toml")

class Inputs(BaseModel):
    more: int = 2

class Result(BaseModel):
    files: int

@pipeline(name="words.all", owner_email="data@example.com")
def words(flow: Flow, inputs: Inputs) -> Result:
    found = flow.step(listing, more=inputs.more)
    counted = flow.step(count, rows=found.rows)
    return Result(files=counted.files)
"""
LISTING = """
from pydantic import BaseModel
import perago

class Params(BaseModel):
    more: int

class Row(BaseModel):
    n: int

class Output(BaseModel):
    rows: list[Row]

listing = perago.command(
    ["sh", "listing.sh"],
    name="words.listing", owner_email="data@example.com", params=Params, result=Output,
)
"""
LISTING_SCRIPT = r"""sed 's/.*:\(.*\)}/{"rows": [{"n": \1}]}/' > "$PERAGO_RESULT" """


@pytest.fixture
def tasks(project: Path) -> Path:
    made = project / "tasks"
    made.mkdir()
    (made / "count.task.toml").write_text(TASK)
    (made / "count.sh").write_text(SCRIPT)
    (project / "listing.py").write_text(LISTING)
    (project / "listing.sh").write_text(LISTING_SCRIPT)
    (project / "all_words.py").write_text(PIPELINE)
    return made


@pytest.mark.usefixtures("tasks")
def test_check_and_extract(inside: Perago, project: Path) -> None:
    result = inside("check", "tasks/count.task.toml", "--json")
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["tasks"] == [{"module": "tasks/count.task.toml", "name": "words.count", "workspace": "local", "warnings": []}]
    assert document["settings"]["PERAGO_WORKER_ID_PREFIX"] == "taskscount"
    assert inside("extract", "./tasks/count.task.toml", "-o", "made.json").returncode == 0
    made = json.loads((project / "made.json").read_text())
    assert (made["name"], made["inputKeys"]) == ("words.count", ["workspace", "params"])
    assert made["inputSchema"]["data"]["properties"]["params"]["additionalProperties"] is False


@pytest.mark.usefixtures("tasks")
def test_completion_knows_task_files(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    assert _inputs._complete_module("tasks/") == ["tasks/count.task.toml"]
    assert "listing" in _inputs._complete_module("")


@pytest.mark.usefixtures("tasks")
@pytest.mark.parametrize(
    ("row", "code", "said"),
    [
        (1, 0, "words.count"),
        (8, 3, "the command exited with code 1: later [PG-315]"),
        (9, 4, "the command exited with code 65 (data error): nine is bad data [PG-235]"),
    ],
)
def test_run(perago: Perago, row: int, code: int, said: str) -> None:
    params = json.dumps({"rows": [{"n": row}]})
    result = perago("run", "tasks/count.task.toml", "--workspace", "ws", "--params", params)
    assert result.returncode == code, result.stderr
    assert said in result.stdout + result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.usefixtures("tasks")
def test_a_program_that_is_not_there_is_one_line(perago: Perago, tasks: Path) -> None:
    (tasks / "count.task.toml").write_text(TASK.replace('"sh"', '"no-such-program"'))
    result = perago("run", "tasks/count.task.toml", "--workspace", "ws", "--params", '{"rows": []}')
    assert result.returncode == 1
    missing = "the program 'no-such-program' is not in the PATH of this machine; install it, or write its path"
    assert result.stderr.splitlines()[-1] == f"error: tasks/count.task.toml: task 'words.count': command: {missing} [PG-110]"


@pytest.mark.usefixtures("tasks")
def test_a_pipeline_of_commands(perago: Perago, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are a model of Python in one task, and a JSON Schema in the other."""
    result = perago("check", "all_words")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[1:3] == [
        "├─ listing (task words.listing, no workspace): more = inputs.more",
        "├─ count (task words.count, writes): rows = listing.rows",
    ]
    monkeypatch.chdir(project)
    monkeypatch.syspath_prepend(project)
    run = run_pipeline("all_words", files={"words/in/a.txt": "a", "words/in/b.txt": "b"})
    assert run.ok, run.report()
    assert run.output == {"files": 2}
    assert run.added == ["words/count.txt"]
    wrong = (project / "all_words.py").read_text().replace("rows=found.rows", "rows=inputs.more")
    (project / "wrong.py").write_text(wrong)
    assert "takes list[ParamsRows]; inputs.more is int" in perago("check", "wrong").stderr
