"""Each construct, compiled and run by the real Conductor; the test completes the steps."""

import datetime as dt

import pytest
from pydantic import BaseModel
from tests.support import compiled_runs
from tests.support.compiled_runs import inputs, own_name, path
from tests.support.pipeline_tasks import Nested, Numbers, one, plain, read, write, write_one
from tests.support.workflow_driver import WorkflowDriver

from perago import Flow, pipeline

OWNER = "tests@example.com"


class Given(BaseModel):
    n: int = 3
    items: list[int] = []
    maybe: int | None = None
    moment: dt.datetime = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    text: str = "${not.an.expression}"


class Total(BaseModel):
    total: int


class Results(BaseModel):
    results: list[Numbers]


def test_values_defaults_literals_and_a_null_reach_the_steps(driver: WorkflowDriver) -> None:
    class Outcome(BaseModel):
        total: int
        other: int
        fixed: str = "a ${b} $${c}"
        nested: Nested

    @pipeline(name=own_name(), owner_email=OWNER)
    def values(flow: Flow, inputs: Given) -> Outcome:
        first = flow.step(write, n=inputs.n, maybe=inputs.maybe, text=inputs.text)
        flow.step(read, text="cost: ${workflow.input.n} $$", nested=Nested(name=first.text, size=4), numbers=[first.n, 2])
        return Outcome(total=first.n, other=first.other, nested=Nested(name="x", size=first.n))

    run = compiled_runs.run(driver, values, {"maybe": None})
    assert path(run) == "0 write"
    assert inputs(run, "write") == [{"n": 3, "maybe": None, "text": "${not.an.expression}"}]
    nested = {"name": "${not.an.expression}", "size": 4}
    assert inputs(run, "read") == [{"text": "cost: ${workflow.input.n} $$", "nested": nested, "numbers": [4, 2]}]
    del run["output"]["workspace"]
    assert run["output"] == {"total": 4, "other": 7, "fixed": "a ${b} $${c}", "nested": {"name": "x", "size": 4}}


def test_when_takes_one_branch_and_passes_its_workspace_on(driver: WorkflowDriver) -> None:
    @pipeline(name=own_name(), owner_email=OWNER)
    def branches(flow: Flow, inputs: Given) -> None:
        with flow.when((inputs.n > 2) & (inputs.n != 5)) as branch:
            flow.step(write, ref="yes")
        with branch.otherwise():
            flow.step(write, ref="no")
        flow.step(write, ref="last")

    assert path(compiled_runs.run(driver, branches)) == "0 yes last"
    assert path(compiled_runs.run(driver, branches, {"n": 2})) == "0 no last"
    assert path(compiled_runs.run(driver, branches, {"n": 5})) == "0 no last"


def test_when_inside_a_loop_ignores_outputs_of_earlier_iterations(driver: WorkflowDriver) -> None:
    @pipeline(name=own_name(), owner_email=OWNER)
    def loops(flow: Flow) -> None:
        with flow.repeat(at_most=4) as loop:
            with flow.when(loop.iteration == 2) as branch:
                flow.step(write, ref="a")
            with branch.otherwise(), flow.when(loop.iteration >= 3):
                flow.step(write, ref="b")
        flow.step(write, ref="last")

    assert path(compiled_runs.run(driver, loops)) == "0 a__2 b__3 b__4 last"


def test_a_loop_ends_when_its_condition_holds_and_shows_its_last_iteration(driver: WorkflowDriver) -> None:
    @pipeline(name=own_name(), owner_email=OWNER)
    def loops(flow: Flow, inputs: Given) -> Total:
        with flow.repeat(at_most=5) as loop:
            done = flow.step(write, n=loop.iteration)
            with flow.when(done.n > 100):
                flow.step(plain)
            loop.until(done.n >= inputs.n)
        flow.step(read, n=done.n)
        return Total(total=done.n)

    run = compiled_runs.run(driver, loops)
    assert path(run) == "0 write__1 write__2"
    assert run["output"]["total"] == 3
    assert inputs(run, "read") == [{"n": 3}]
    assert path(compiled_runs.run(driver, loops, {"n": 1000})) == "0 write__1 write__2 write__3 write__4 write__5"


def test_a_fork_gives_each_writing_lane_its_branch_and_joins_what_they_left(driver: WorkflowDriver) -> None:
    @pipeline(name=own_name(), owner_email=OWNER)
    def lanes(flow: Flow) -> Total:
        with flow.fork() as fork:
            with fork.lane("left"):
                flow.step(write, ref="a")
                with flow.when(flow.step(plain).n == 1):
                    flow.step(write, ref="b")
            with fork.lane("middle"):
                seen = flow.step(read)
            with fork.lane("right"), flow.repeat(at_most=2):
                flow.step(write, ref="c")
        flow.step(write, ref="last")
        return Total(total=seen.n)

    run = compiled_runs.run(driver, lanes)
    assert path(run) == "(0 a b 0 c__1 c__2) last"
    assert run["output"]["total"] == 1
    assert compiled_runs.tasks(run, "read")[0]["inputData"]["workspace"] == compiled_runs.WORKSPACE


def test_a_fork_without_writers_needs_no_branches_and_waits_for_a_condition_at_the_end_of_a_lane(driver: WorkflowDriver) -> None:
    @pipeline(name=own_name(), owner_email=OWNER)
    def lanes(flow: Flow) -> None:
        with flow.fork() as fork:
            with fork.lane("left"):
                first = flow.step(plain, ref="first")
                with flow.when(first.n == 1):
                    flow.step(read, ref="slow")
            with fork.lane("right"):
                flow.step(plain, ref="other")
        flow.step(write, ref="last")

    run = compiled_runs.run(driver, lanes)
    assert path(run) == "0 last"
    order = [task["referenceTaskName"] for task in sorted(run["tasks"], key=lambda task: task["scheduledTime"])]
    assert order.index("last") > order.index("slow")
    assert not [task for task in run["tasks"] if task["taskDefName"].startswith("perago.")]


def test_forks_inside_a_loop(driver: WorkflowDriver) -> None:
    @pipeline(name=own_name(), owner_email=OWNER)
    def loops(flow: Flow) -> Total:
        with flow.repeat(at_most=2) as loop, flow.fork() as fork:
            with fork.lane("x"):
                flow.step(write, ref="a")
                with flow.when(loop.iteration == 1):
                    flow.step(write, ref="b")
            with fork.lane("y"):
                last = flow.step(plain, n=loop.iteration)
        return Total(total=last.n)

    run = compiled_runs.run(driver, loops)
    assert path(run) == "((0 a__1 b__1) a__2)"
    assert run["output"]["total"] == 3


@pytest.mark.timeout(900)
@pytest.mark.parametrize("count", [0, 1, 50, pytest.param(500, marks=pytest.mark.chaos)])
def test_each_returns_the_results_in_the_order_of_the_items(driver: WorkflowDriver, count: int) -> None:
    @pipeline(name=own_name(), owner_email=OWNER)
    def many(flow: Flow, inputs: Given) -> Results:
        return Results(results=flow.each(inputs.items, one, text="x ${y} $${z}"))

    run = compiled_runs.run(driver, many, {"items": [10 * number for number in range(count)]})
    assert run["status"] == "COMPLETED"
    assert [result["n"] for result in run["output"]["results"]] == [10 * number + 1 for number in range(count)]
    assert all(result["text"] == "x ${y} $${z}" for result in run["output"]["results"])


@pytest.mark.parametrize("count", [0, 3])
def test_each_with_writers_gives_each_item_a_lane(driver: WorkflowDriver, count: int) -> None:
    @pipeline(name=own_name(), owner_email=OWNER)
    def many(flow: Flow, inputs: Given) -> Results:
        return Results(results=flow.each(inputs.items, write_one, ref="w"))

    run = compiled_runs.run(driver, many, {"items": list(range(count))})
    assert path(run) == f"({' '.join(f'0 w_{number}' for number in range(count))})"
    assert [result["n"] for result in run["output"]["results"]] == [number + 1 for number in range(count)]


def test_each_inside_a_loop_and_in_a_lane_over_literals_and_fields_of_items(driver: WorkflowDriver) -> None:
    @pipeline(name=own_name(), owner_email=OWNER)
    def loops(flow: Flow) -> Results:
        with flow.repeat(at_most=2) as loop:
            with flow.fork() as fork, fork.lane("only"):
                flow.each([1, 2], write_one, ref="w")
            models = [Nested(name="a", size=5), Nested(name="b", size=6)]
            last = flow.each(models, plain, ref="p", n=flow.item.size, nested=Nested(name=flow.item.name, size=loop.iteration))
        return Results(results=last)

    run = compiled_runs.run(driver, loops)
    first = "((0 w_0 0 w_1))"
    assert path(run) == f"(({first} w_0 {first} w_1))"
    assert [result["n"] for result in run["output"]["results"]] == [6, 7]
    assert [result["nested"] for result in run["output"]["results"]] == [{"name": "a", "size": 2}, {"name": "b", "size": 2}]


def test_an_optional_step_that_fails_leaves_the_workspace_before_it(driver: WorkflowDriver) -> None:
    @pipeline(name=own_name(), owner_email=OWNER)
    def tolerant(flow: Flow) -> None:
        with flow.repeat(at_most=2):
            flow.step(write, ref="a")
            maybe = flow.step(write, ref="b", optional=True)
            flow.step(write, ref="c", maybe=maybe.n)

    run = compiled_runs.run(driver, tolerant, failing=("b__2",))
    assert path(run) == "0 a__1 b__1 c__1 a__2 c__2"
    assert inputs(run, "c") == [{"maybe": 1}, {"maybe": None}]


def test_a_called_pipeline_takes_and_leaves_the_workspace(driver: WorkflowDriver) -> None:
    @pipeline(name=own_name(), owner_email=OWNER)
    def inner(flow: Flow, inputs: Given) -> Total:
        return Total(total=flow.step(write, ref="deep", n=inputs.n).n)

    @pipeline(name=own_name(), owner_email=OWNER)
    def outer(flow: Flow) -> Total:
        with flow.fork() as fork:
            with fork.lane("x"):
                found = flow.call(inner, n=10)
            with fork.lane("y"):
                other = flow.call(inner, ref="defaults")
        return Total(total=flow.step(plain, n=found.total, maybe=other.total).n)

    run = compiled_runs.run(driver, outer)
    assert path(run) == "(0 deep 0 deep)"
    assert inputs(run, "plain") == [{"n": 11, "maybe": 4}]


def test_waiting_for_seconds_and_until_a_moment(driver: WorkflowDriver) -> None:
    @pipeline(name=own_name(), owner_email=OWNER)
    def patient(flow: Flow, inputs: Given) -> None:
        flow.wait(seconds=1)
        flow.wait(until=inputs.moment)

    moment = dt.datetime.now(dt.timezone(dt.timedelta(hours=3))) + dt.timedelta(seconds=3)
    run = compiled_runs.run(driver, patient, {"moment": moment.isoformat()})
    assert run["status"] == "COMPLETED"
    assert run["endTime"] / 1000 >= moment.timestamp()
    assert run["endTime"] - run["startTime"] < 30_000
