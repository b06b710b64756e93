"""`perago run` of a pipeline: every step with its changes, the whole change, and what it says of a step that fails."""

import json
import re
from pathlib import Path

import pytest
from tests.cli.conftest import OnTerminal, Perago
from tests.cli.test_authoring import assert_refused
from tests.cli.test_run import ENDS, FREE, snapshot

FLOW = """
import ends, free, words
from pydantic import BaseModel
from perago import Flow, pipeline

class Inputs(BaseModel):
    word: str = "hi"
    how: str = "well"

class Result(BaseModel):
    lines: int
    n: int

@pipeline(name="words.all", owner_email="data@example.com")
def all_words(flow: Flow, inputs: Inputs) -> Result:
    first = flow.step(words.repeat, word=inputs.word, times=2)
    flow.wait(seconds=60, ref="pause")
    number = flow.step(free.double, n=first.lines)
    flow.step(ends.ends, how=inputs.how)
    return Result(lines=first.lines, n=number.n)
"""


@pytest.fixture(autouse=True)
def modules(project: Path) -> None:
    """The folder `root` is the repository; the task `words` has the prefix `words/`."""
    (project / "ends.py").write_text(ENDS)
    (project / "free.py").write_text(FREE)
    (project / "all_words.py").write_text(FLOW)
    (project / "root").mkdir()
    (project / "ws").rename(project / "root" / "words")


def test_it_shows_each_step_the_whole_change_and_the_result(perago: Perago, project: Path) -> None:
    before = snapshot(project / "root")
    result = perago("run", "all_words", "-w", "root")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[:-1] == [
        "repeat: words.repeat",
        "the body speaks",
        "- words/in/old.txt     4 B",
        "+ words/out/words.txt  6 B",
        "    @@ -0,0 +1,2 @@",
        "    +hi",
        "    +hi",
        "1 added, 0 changed, 1 deleted; 6 B to upload",
        'result: {"lines": 2}',
        "double: free.double",
        'result: {"n": 4}',
        "ends: t.ends",
        "printed before the end",
        "+ out.csv  4 B",
        "    @@ -0,0 +1 @@",
        "    +well",
        "1 added, 0 changed, 0 deleted; 4 B to upload",
        'result: {"done": true}',
        "pause: a local run does not wait",
        "the whole pipeline",
        "+ out.csv              4 B",
        "    @@ -0,0 +1 @@",
        "    +well",
        "- words/in/old.txt     4 B",
        "+ words/out/words.txt  6 B",
        "    @@ -0,0 +1,2 @@",
        "    +hi",
        "    +hi",
        "2 added, 0 changed, 1 deleted; 10 B to upload",
        'result: {"lines": 2, "n": 4}',
    ]
    assert result.stdout.splitlines()[-1].startswith("COMPLETED words.all in ")
    assert snapshot(project / "root") == before


def test_a_terminal_shows_the_step_that_runs(on_terminal: OnTerminal) -> None:
    code, seen = on_terminal("run", "all_words", "-w", "root")
    assert code == 0
    assert "\x1b[1;36mrepeat\x1b[0m" in seen
    assert re.search("repeat: (copying|pre checks|post checks|comparing|collecting)", seen)


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("segfault", 3, "FAILED (Conductor would retry it): the executor was killed by SIGSEGV (11) in phase body, "),
        ("_exit", 3, "FAILED (Conductor would retry it): the executor exited with code 7 in phase body, "),
        ("exit", 3, "FAILED (Conductor would retry it): the body ended with SystemExit: 3"),
        ("hang", 5, "TIMED_OUT (Conductor would time out the workflow): timeout.seconds=1 of the task is over in phase body"),
    ],
)
def test_an_unusual_end_is_reported_with_the_step(inside: Perago, how: str, code: int, said: str) -> None:
    result = inside("run", "all_words", "-w", "root", "-p", json.dumps({"how": how}))
    assert result.returncode == code, result
    assert result.stderr.splitlines()[-1].startswith(f"error: pipeline words.all: step ends (t.ends) ended with {said}")
    assert "the whole pipeline" not in result.stdout
    assert "+ words/out/words.txt  6 B" in result.stdout.splitlines()


@pytest.mark.parametrize(
    ("word", "code", "said"),
    [
        ("fail", 3, "step repeat (words.repeat) ended with FAILED (Conductor would retry it): try again later"),
        ("never", 4, "step repeat (words.repeat) ended with FAILED_WITH_TERMINAL_ERROR (no retry would help): not with"),
    ],
)
def test_the_exit_code_is_that_of_the_step_that_failed(inside: Perago, project: Path, word: str, code: int, said: str) -> None:
    result = inside("run", "all_words", "-w", "root", "-p", json.dumps({"word": word}), "--write", "new")
    assert_refused(result, said, code=code)
    assert "double: free.double" not in result.stdout
    assert not (project / "new").exists()


def test_json_has_every_step(perago: Perago) -> None:
    result = perago("run", "all_words", "-w", "root", "--json", "--write", "new")
    document = json.loads(result.stdout)
    steps = {step["ref"]: step for step in document["steps"]}
    assert list(steps) == ["repeat", "double", "ends"]
    assert steps["double"] == {
        "ref": "double",
        "task": "free.double",
        "status": "COMPLETED",
        "optional": False,
        "reason": None,
        "result": {"n": 4},
        "changes": [],
    }
    assert [change["path"] for change in steps["repeat"]["changes"]] == ["words/in/old.txt", "words/out/words.txt"]
    assert (document["pipeline"], document["status"], document["failed_step"]) == ("words.all", "COMPLETED", None)
    assert document["result"] == {"lines": 2, "n": 4}
    assert [change["path"] for change in document["changes"]] == ["out.csv", "words/in/old.txt", "words/out/words.txt"]
    assert document["written"] == "new"
    assert result.stderr.splitlines() == ["the body speaks", "printed before the end"]


def test_json_of_a_step_that_kills_the_process(inside: Perago) -> None:
    result = inside("run", "all_words", "-w", "root", "-p", '{"how": "kill"}', "--json")
    document = json.loads(result.stdout)
    assert (document["status"], document["failed_step"]) == ("FAILED", "ends")
    assert "was killed by SIGKILL (9) in phase body" in document["reason"]
    assert [step["status"] for step in document["steps"]] == ["COMPLETED", "COMPLETED", "FAILED"]


def test_write_puts_the_whole_repository_into_a_new_folder(inside: Perago, project: Path) -> None:
    result = inside("run", "all_words", "-w", "root", "--write", "new")
    assert result.returncode == 0, result.stderr
    assert "wrote 3 files to new" in result.stdout
    assert set(snapshot(project / "new")) == {"out.csv", "words/in/a.txt", "words/out/words.txt"}


def test_what_does_not_fit_is_refused_before_anything_runs(inside: Perago) -> None:
    for arguments, said in (
        ([], "pipeline 'words.all' works on a workspace; name a folder with --workspace DIR"),
        (["-w", "root", "-p", '{"word": 1}'], "inputs.word: Input should be a valid string"),
        (["-w", "root", "-p", '{"other": 1}'], "inputs.other: unknown field"),
    ):
        result = inside("run", "all_words", *arguments)
        assert_refused(result, said)
        assert result.stdout == ""


def test_a_failed_optional_step_is_a_warning(inside: Perago, project: Path) -> None:
    (project / "all_words.py").write_text(FLOW.replace("how=inputs.how)", "how=inputs.how, optional=True)"))
    result = inside("run", "all_words", "-w", "root", "-p", '{"how": "wrong"}')
    assert result.returncode == 0, result
    assert "warning: step ends (t.ends) ended with FAILED" in result.stderr
    assert "the step is optional: the pipeline continues from the workspace before it" in result.stderr


def test_keep_writes_the_repository_as_the_failed_step_left_it(inside: Perago, project: Path) -> None:
    (project / "root" / "other.txt").write_text("outside")
    result = inside("run", "all_words", "-w", "root", "-p", '{"word": "mess"}', "--keep", "--write", "kept")
    assert result.returncode == 3
    assert "kept what it left, which failed its checks: 4 files in kept" in result.stderr
    assert set(snapshot(project / "kept")) == {"other.txt", "words/in/a.txt", "words/left.tmp", "words/out/words.txt"}
