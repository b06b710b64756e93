"""`perago.testing.run_pipeline`: every construct of a pipeline, on files and without servers."""

import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.support.tasks.chain import controls
from tests.support.tasks.chain.add import add
from tests.support.tasks.chain.read import read
from tests.support.tasks.chain.write import write
from tests.support.tasks.chain.write_inner import write_inner

from perago import Flow, TaskDefinitionError, TaskInputError, WorkspaceSpec, pipeline, task
from perago.errors import SetupError
from perago.testing import run_pipeline

OWNER = "a@example.com"


class Inputs(BaseModel):
    word: str = "x"
    number: int = 1
    items: list[int] = []
    flag: bool = False
    maybe: int | None = None
    fail: str = ""


class Result(BaseModel):
    lines: int
    files: int = 0


# steps one after another


@pipeline(name="t.serial", owner_email=OWNER)
def serial(flow: Flow, inputs: Inputs) -> Result:
    first = flow.step(write, file="a.txt", text=inputs.word, number=inputs.number)
    total = flow.step(add, left=first.lines, right=10)
    flow.step(write_inner, file="b.txt", number=total.total)
    seen = flow.step(read)
    return Result(lines=first.lines, files=seen.files)


def test_each_step_has_the_workspace_that_the_one_before_it_left() -> None:
    run = run_pipeline(serial, files={"a.txt": "old\n", "kept": b"\xff"}, inputs={"number": 7})
    assert run.ok, run.report()
    assert run.status == "COMPLETED"
    assert run.result == Result(lines=2, files=3)
    assert run.files == {"a.txt": b"old\nx 7\n", "inner/b.txt": b"line 12\n", "kept": b"\xff"}
    assert (run.added, run.changed, run.deleted) == (["inner/b.txt"], ["a.txt"], [])
    assert list(run.steps) == ["write", "add", "write_inner", "read"]
    assert run.steps["write"].changed == ["a.txt"]
    assert run.steps["write"].text("a.txt") == "old\nx 7\n"
    assert "inner/b.txt" not in run.steps["write"].files
    assert run.steps["add"].result == {
        "total": 12,
        "items": [],
        "text": "None-12",
        "negative": False,
        "half": 6.0,
        "nothing": None,
    }
    assert run.steps["write_inner"].added == ["inner/b.txt"]
    assert run.steps["read"].added == []


def test_the_type_of_the_result_is_that_of_the_pipeline() -> None:
    result: Result = run_pipeline(serial, inputs=Inputs(word="y")).result
    assert result.lines == 1


def test_defaults_of_the_inputs_are_used_and_null_counts_as_absent() -> None:
    assert run_pipeline(serial).text("a.txt") == "x 1\n"


def test_the_report_shows_every_step_and_the_changes() -> None:
    report = run_pipeline(serial).report()
    assert report.splitlines()[0] == "t.serial: COMPLETED"
    assert "  write: chain.write: COMPLETED" in report.splitlines()
    assert "+ inner/b.txt" in report.splitlines()
    assert "result: {'files': 2, 'lines': 1}" in report.splitlines()


def test_a_folder_is_copied_and_not_changed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old\n")
    assert run_pipeline(serial, files=tmp_path).changed == ["a.txt"]
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old\n"


@pytest.mark.parametrize("inputs", [{"number": "many"}, {"unknown": 1}, {"items": None}])
def test_wrong_inputs_are_refused(inputs: dict[str, Any]) -> None:
    with pytest.raises(TaskInputError, match=f"inputs.{next(iter(inputs))}"):
        run_pipeline(serial, inputs=inputs)


# failures


@pipeline(name="t.failing", owner_email=OWNER)
def failing(flow: Flow, inputs: Inputs) -> Result:
    flow.step(write, ref="before", file="a.txt")
    done = flow.step(write, ref="it", file="b.txt", fail=inputs.fail)
    flow.step(write, ref="after", file="c.txt")
    return Result(lines=done.lines)


@pytest.mark.parametrize(("word", "status"), [("fail", "FAILED"), ("terminal", "FAILED_WITH_TERMINAL_ERROR")])
def test_a_failed_step_ends_the_pipeline(word: str, status: str) -> None:
    run = run_pipeline(failing, inputs={"fail": word})
    assert not run.ok
    assert (run.status, run.failed_step) == ("FAILED", "it")
    assert run.steps["it"].status == status
    assert run.reason.startswith("it: asked ")
    assert list(run.steps) == ["before", "it"]
    assert run.added == ["a.txt"]
    assert run.output is None
    with pytest.raises(ValueError, match="has no result: it: asked"):
        _ = run.result
    assert "  it: chain.write: " + status in run.report().splitlines()


@pipeline(name="t.optional", owner_email=OWNER)
def optional(flow: Flow, inputs: Inputs) -> Result:
    flow.step(write, ref="it", file="a.txt", fail=inputs.fail, optional=True)
    return Result(lines=flow.step(write, ref="after", file="a.txt").lines)


@pytest.mark.parametrize(("word", "lines"), [("", 2), ("fail", 1), ("terminal", 1)])
def test_after_an_optional_writer_that_fails_the_workspace_is_that_before_it(word: str, lines: int) -> None:
    run = run_pipeline(optional, inputs={"fail": word})
    assert run.ok, run.report()
    assert run.result.lines == lines
    assert run.steps["it"].ok == (not word)
    assert run.text("a.txt") == "line 0\n" * lines


def test_an_interrupt_ends_the_whole_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_word: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(controls, "fail_if_asked", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_pipeline(optional)


# forks


@pipeline(name="t.fork", owner_email=OWNER)
def forked(flow: Flow, inputs: Inputs) -> Result:
    flow.step(write, file="a.txt")
    with flow.fork(ref="sides") as fork:
        with fork.lane("left"):
            one = flow.step(write, ref="l1", file="left.txt", text=inputs.word)
            flow.step(write, ref="l2", file="left.txt")
        with fork.lane("right"):
            flow.step(write_inner, ref="r1", file="right.txt", fail=inputs.fail)
        with fork.lane("look"):
            seen = flow.step(read)
    flow.step(write, ref="after", file="z.txt", number=seen.files)
    return Result(lines=one.lines)


def test_lanes_do_not_see_each_other_and_are_joined() -> None:
    run = run_pipeline(forked)
    assert run.ok, run.report()
    assert run.text("left.txt") == "x 0\nline 0\n"
    assert run.text("z.txt") == "line 1\n"
    assert sorted(run.files) == ["a.txt", "inner/right.txt", "left.txt", "z.txt"]
    assert "left.txt" not in run.steps["r1"].files
    assert run.steps["r1"].added == ["inner/right.txt"]
    assert run.steps["sides_end"].added == ["inner/right.txt", "left.txt"]


def test_a_failure_in_a_lane_leaves_nothing_of_the_fork() -> None:
    run = run_pipeline(forked, inputs={"fail": "fail"})
    assert (run.status, run.failed_step) == ("FAILED", "r1")
    assert list(run.files) == ["a.txt"]


@pipeline(name="t.conflict", owner_email=OWNER)
def conflicting(flow: Flow, inputs: Inputs) -> None:
    with flow.fork(ref="sides") as fork:
        with fork.lane("left"):
            flow.step(write, ref="l", file="same.txt", text="left")
        with fork.lane("right"):
            flow.step(write, ref="r", file="same.txt", text=inputs.word)


def test_two_lanes_that_change_the_same_file_differently_are_refused_with_its_name() -> None:
    run = run_pipeline(conflicting)
    assert (run.status, run.failed_step) == ("FAILED", "sides_end")
    assert "same.txt" in run.reason
    assert "left" in run.reason
    assert "right" in run.reason
    assert not run.files


def test_two_lanes_may_leave_the_same_content() -> None:
    run = run_pipeline(conflicting, inputs={"word": "left"})
    assert run.ok, run.report()
    assert run.text("same.txt") == "left 0\n"
    assert run.result is None


@pipeline(name="t.readers", owner_email=OWNER)
def readers(flow: Flow) -> Result:
    with flow.fork() as fork:
        with fork.lane("one"):
            a = flow.step(read, ref="a")
        with fork.lane("two"):
            b = flow.step(add, left=1)
    return Result(lines=b.total, files=a.files)


def test_a_fork_without_writers_needs_no_join() -> None:
    run = run_pipeline(readers, files={"x": ""})
    assert run.result == Result(lines=2, files=1)
    assert list(run.steps) == ["a", "add"]


# each


class Numbered(BaseModel):
    number: int


class Given(BaseModel):
    given: list[Numbered]


class Counted(BaseModel):
    total: int
    numbers: list[int]


@task(name="t.write_numbered", owner_email=OWNER, workspace=WorkspaceSpec())
def write_numbered(workspace: Path, params: Numbered) -> Numbered:
    (workspace / f"{params.number}.txt").write_text(f"line {params.number}\n")
    return params


@task(name="t.count", owner_email=OWNER)
def count(params: Given) -> Counted:
    return Counted(total=len(params.given), numbers=[one.number for one in params.given])


@pipeline(name="t.each", owner_email=OWNER)
def each_written(flow: Flow, inputs: Inputs) -> Result:
    done = flow.each(inputs.items, write_numbered, ref="days")
    counted = flow.step(count, ref="counted", given=done)
    seen = flow.step(read)
    return Result(lines=counted.total, files=seen.files)


@pytest.mark.parametrize("items", [[], [5], [3, 1, 2, 9, 8, 7, 6, 5, 4, 0, 10, 11]])
def test_each_runs_once_per_item_and_keeps_their_order(items: list[int]) -> None:
    run = run_pipeline(each_written, files={"kept": ""}, inputs={"items": items})
    assert run.ok, run.report()
    assert {name: run.text(name) for name in run.added} == {f"{item}.txt": f"line {item}\n" for item in items}
    assert run.steps["counted"].result is not None
    assert run.steps["counted"].result["numbers"] == items
    assert [run.steps[f"days_{index}"].result for index in range(len(items))] == [{"number": item} for item in items]
    assert run.result == Result(lines=len(items), files=len(items) + 1)


def test_each_over_equal_items_is_no_conflict() -> None:
    run = run_pipeline(each_written, inputs={"items": [1, 1]})
    assert run.ok, run.report()


@pipeline(name="t.each_reads", owner_email=OWNER)
def each_read(flow: Flow, inputs: Inputs) -> Result:
    flow.each(inputs.items, add, left=flow.item, right=inputs.number, ref="sums")
    return Result(lines=0)


def test_each_of_a_task_that_does_not_write() -> None:
    run = run_pipeline(each_read, inputs={"items": [4, 5], "number": 2})
    assert [step.result["total"] for step in run.steps.values() if step.result] == [6, 7]


# conditions


@pipeline(name="t.when", owner_email=OWNER)
def conditional(flow: Flow, inputs: Inputs) -> Result:
    with flow.when(inputs.number > 1) as branch:
        flow.step(write, ref="many", file="many.txt")
    with branch.otherwise():
        flow.step(write, ref="few", file="few.txt")
    with flow.when(inputs.flag):
        flow.step(write, ref="flagged", file="flag.txt")
    with flow.when((inputs.word == "yes") | (inputs.maybe != None)):  # noqa: E711  recorded as a condition
        flow.step(write, ref="either", file="either.txt")
    return Result(lines=flow.step(read).files)


@pytest.mark.parametrize(
    ("inputs", "files"),
    [
        ({}, ["few.txt"]),
        ({"number": 2}, ["many.txt"]),
        ({"flag": True}, ["few.txt", "flag.txt"]),
        ({"word": "yes"}, ["either.txt", "few.txt"]),
        ({"maybe": 0}, ["either.txt", "few.txt"]),
    ],
)
def test_a_condition_decides_which_steps_run(inputs: dict[str, Any], files: list[str]) -> None:
    run = run_pipeline(conditional, inputs=inputs)
    assert sorted(run.files) == files
    assert run.result.lines == len(files)


# loops


@pipeline(name="t.loop", owner_email=OWNER)
def looping(flow: Flow, inputs: Inputs) -> Result:
    with flow.repeat(at_most=4, ref="loop") as loop:
        done = flow.step(write, file="log.txt", number=loop.iteration)
        loop.until(done.lines >= inputs.number)
    return Result(lines=done.lines)


@pytest.mark.parametrize(("number", "iterations"), [(0, 1), (1, 1), (3, 3), (9, 4)])
def test_a_loop_runs_until_its_condition_holds_or_the_limit_is_reached(number: int, iterations: int) -> None:
    run = run_pipeline(looping, inputs={"number": number})
    assert run.result.lines == iterations
    assert list(run.steps) == [f"write__{iteration}" for iteration in range(1, iterations + 1)]
    assert run.text("log.txt") == "".join(f"line {iteration}\n" for iteration in range(1, iterations + 1))


# calls and waits


@pipeline(name="t.caller", owner_email=OWNER)
def caller(flow: Flow, inputs: Inputs) -> Result:
    flow.step(write, file="a.txt")
    flow.wait(seconds=3600, ref="pause")
    inner = flow.call(serial, word=inputs.word, ref="inner")
    flow.step(write, ref="after", file="z.txt", number=inner.files)
    return Result(lines=inner.lines)


def test_a_call_runs_the_other_pipeline_on_the_same_workspace() -> None:
    run = run_pipeline(caller, inputs={"word": "from the caller"})
    assert run.ok, run.report()
    assert run.text("a.txt") == "line 0\nfrom the caller 1\n"
    assert run.text("z.txt") == "line 2\n"
    assert list(run.steps) == ["write", "inner/write", "inner/add", "inner/write_inner", "inner/read", "after"]
    assert run.notes == ("pause: a local run does not wait",)


# what can be run


@pipeline(name="t.pure", owner_email=OWNER)
def pure(flow: Flow) -> Result:
    return Result(lines=flow.step(add, left=1).total)


def test_a_pipeline_without_a_workspace_takes_no_files() -> None:
    assert run_pipeline(pure).result.lines == 2
    with pytest.raises(SetupError, match=r"pipeline 't.pure' has no workspace; leave files out"):
        run_pipeline(pure, files={})


def test_a_pipeline_without_inputs_takes_none() -> None:
    with pytest.raises(TaskInputError, match="has no inputs; leave out a"):
        run_pipeline(pure, inputs={"a": 1})


def test_what_is_no_pipeline_is_refused() -> None:
    with pytest.raises(TaskDefinitionError, match="is not a pipeline"):
        run_pipeline(write)
    with pytest.raises(TaskDefinitionError, match="declares a task; use run_task"):
        run_pipeline("tests.support.tasks.chain.write")
    with pytest.raises(TaskDefinitionError, match="declares a task; use run_task"):
        run_pipeline(sys.modules["tests.support.tasks.chain.write"])
