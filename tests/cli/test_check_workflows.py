"""`perago check FILE.json`: exit code, stdout and stderr."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import OnTerminal, Perago
from tests.support.workflow_json import START, Json, call, left_by, step, workflow

WORDS: Json = {"params": {"word": "a", "times": 2}}
RIGHT = workflow(
    step("clean", START, name="words.repeat", inputs=WORDS),
    step("report", left_by("clean"), name="words.repeat", inputs=WORDS),
    name="shop",
)
WRONG = workflow(step("clean", START), step("report", START), name="shop")


@pytest.fixture
def files(project: Path) -> Path:
    (project / "right.json").write_text(json.dumps(RIGHT))
    (project / "wrong.json").write_text(json.dumps(WRONG))
    return project


def test_a_right_workflow_is_ok(perago: Perago, files: Path) -> None:
    result = perago("check", "right.json")
    assert (result.returncode, result.stdout, result.stderr) == (0, "ok: shop (2 tasks)\n", "")


def test_a_wrong_one_is_one_line_with_what_to_write(inside: Perago, files: Path) -> None:
    result = inside("check", "wrong.json")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        "error: wrong.json: task report: workspace is ${workflow.input.workspace}, but clean has written to that branch since; "
        'write "workspace": "${clean.output.workspace}"\n'
    )


def test_files_and_modules_may_be_mixed(inside: Perago, files: Path) -> None:
    wrong = workflow(step("clean", START, name="words.repeat", inputs={"params": {"word": 3}}))
    (files / "params.json").write_text(json.dumps(wrong))
    result = inside("check", "right.json", "words", "./params.json")
    assert result.returncode == 1
    assert result.stdout.splitlines()[:2] == ["ok: words.repeat", "ok: shop (2 tasks)"]
    assert "PERAGO_WORKER_ID_PREFIX: words" in result.stdout
    assert [line.partition("params.json: task clean: ")[2] for line in result.stderr.splitlines()] == [
        "params.word: input should be a valid string",
        'params.times is missing; write "times": …',
    ]


def test_sub_workflows_are_looked_up_in_all_files(inside: Perago, files: Path) -> None:
    outer = workflow(call("first", "inner", workspace=START), call("second", "inner", workspace=START), name="outer")
    (files / "outer.json").write_text(json.dumps(outer))
    (files / "inner.json").write_text(json.dumps(workflow(step("x", START, name="words.read"), name="inner")))
    result = inside("check", "outer.json", "inner.json")
    assert result.returncode == 1
    assert result.stdout == "ok: inner (1 task)\n"
    assert result.stderr.startswith("error: outer.json: task second: ")


def test_warnings_are_no_errors(inside: Perago, files: Path) -> None:
    (files / "w.json").write_text(json.dumps(workflow(step("a", inputs={"x": "${workflow.input.y}"}), inputParameters=["x"])))
    result = inside("check", "w.json")
    assert (result.returncode, result.stdout) == (0, "ok: w (1 task)\n")
    assert result.stderr.startswith("warning: w.json: task a: x takes ${workflow.input.y}")


def test_as_json(inside: Perago, files: Path) -> None:
    result = inside("check", "wrong.json", "right.json", "words", "--json")
    assert result.returncode == 1
    document = json.loads(result.stdout)
    assert [(one["file"], one["name"], one["tasks"]) for one in document["workflows"]] == [
        ("wrong.json", "shop", 2),
        ("right.json", "shop", 2),
    ]
    assert [error["task"] for error in document["workflows"][0]["errors"]] == ["report"]
    assert document["workflows"][1]["errors"] == document["workflows"][1]["warnings"] == []
    assert [error.partition(": workspace")[0] for error in document["errors"]] == ["wrong.json: task report"]
    assert [one["name"] for one in document["tasks"]] == ["words.repeat"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "is not JSON: line 1, column 2: "),
        (b"\xff\xfe", "is not JSON: it is not UTF-8 text"),
        (b"[" * 100_000, "is nested too deeply"),
        (b"{}", "contains no workflow; write a workflow definition"),
        (b"3", "contains no workflow"),
        (b"[]", "contains no workflow"),
    ],
)
def test_what_is_no_workflow_is_one_clear_line(inside: Perago, files: Path, content: bytes, said: str) -> None:
    (files / "broken.json").write_bytes(content)
    result = inside("check", "broken.json", "right.json")
    assert (result.returncode, result.stdout) == (1, "ok: shop (2 tasks)\n")
    assert result.stderr.startswith("error: broken.json: ")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_file_that_cannot_be_read(inside: Perago, files: Path) -> None:
    assert inside("check", "nowhere.json").stderr == "error: nowhere.json: cannot be read: no such file or directory\n"
    (files / "folder.json").mkdir()
    assert inside("check", "folder.json").stderr == "error: folder.json: cannot be read: is a directory\n"


def test_control_characters_do_not_reach_the_terminal(on_terminal: OnTerminal, files: Path) -> None:
    (files / "odd.json").write_text(
        json.dumps({**RIGHT, "name": "a\x1b[2Jb", "tasks": [step("x\x1b[2J", "${y\x1b[2J.output.x}")]})
    )
    _, shown = on_terminal("check", "odd.json", env={"NO_COLOR": "1"})
    assert "\x1b[2J" not in shown
