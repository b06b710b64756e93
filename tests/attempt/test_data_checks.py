"""Data checks in a whole attempt on files: verdicts, figures in events and in the commit, and what is not evaluated again."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NoReturn

import pytest
from pydantic import BaseModel

from perago import Between, In, Table, Unique, WorkspaceSpec, events, require_file, require_table, task
from perago.declare.task import declaration_of
from perago.errors import PostGuardrailViolation, PreGuardrailViolation, TaskStatus
from perago.in_memory.lake import MAIN
from perago.local_run import folder_lake, local_attempts
from perago.local_run.local_attempts import AttemptRun, LocalAttempts, Surroundings
from perago.model import Commit, FilePath, WorkspaceRef

Body = Callable[[Path], None]


class Nothing(BaseModel):
    pass


class Order(Table):
    order_id: Annotated[int, Unique()]
    customer: Annotated[int, In("customers.csv", "id")]
    quantity: Annotated[int, Between(1, 100)]


ORDERS = "order_id,customer,quantity\n1,1,5\n2,2,6\n"
FILES = {"customers.csv": "id\n1\n2\n3\n", "orders.csv": ORDERS, "other.txt": "x"}
TABLE = "post guardrail require_table('orders.csv')"
HOLDS = require_table("orders.csv", Order, rows=(1, None))


def unreachable() -> NoReturn:
    raise AssertionError("no Spark here")


@dataclass
class Scene:
    """Attempts of tasks with the prefix `shop`, one after the other on one branch."""

    attempts: LocalAttempts
    heard: list[events.Event]
    ref: WorkspaceRef
    error: BaseException | None = field(default=None)

    def run(self, body: Body, *, pre: Any = (), post: Any = ()) -> AttemptRun:
        @task(name="t", owner_email="a@example.com", workspace=WorkspaceSpec(prefix="/shop", pre=list(pre), post=list(post)))
        def declared(workspace: Path, params: Nothing) -> Nothing:
            body(workspace)
            return params

        declaration = declaration_of(declared)
        assert declaration is not None
        done = self.attempts.run(declaration, self.ref, {})
        if done.outcome.output is not None:
            left: Any = done.outcome.output["workspace"]
            self.ref = WorkspaceRef(self.ref.repository, self.ref.branch, left["ref"])
        return done

    def head(self) -> Commit:
        return self.attempts.store.head(folder_lake.REPOSITORY, MAIN)

    def checked(self) -> list[events.TableChecked]:
        return [event for event in self.heard if isinstance(event, events.TableChecked)]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    given: dict[FilePath, Path] = {}
    for name, text in FILES.items():
        given[FilePath(name)] = tmp_path / f"given-{name}"
        given[FilePath(name)].write_text(text)
    store = local_attempts.make_store(given, "shop/", tmp_path)
    heard: list[events.Event] = []
    attempts = LocalAttempts(store, tmp_path, Surroundings(unreachable, heard.append, nullcontext))
    return Scene(attempts, heard, local_attempts.input_workspace(store))


def writing(**files: str) -> Body:
    def body(workspace: Path) -> None:
        for name, text in files.items():
            (workspace / name.replace("__", ".")).write_text(text)

    return body


def entry(commit: Commit) -> Mapping[str, Any]:
    return json.loads(commit.metadata["perago.table.shop/orders.csv"])


def test_figures_are_in_the_events_and_in_the_commit(scene: Scene) -> None:
    done = scene.run(writing(orders__csv=ORDERS + "3,3,7\n"), post=[HOLDS])
    assert done.outcome.status is TaskStatus.COMPLETED, done.outcome.reason
    (checked,) = scene.checked()
    assert (checked.table, checked.rows, checked.bad, checked.violations) == ("orders.csv", 3, {}, 0)
    assert checked.phase is events.Phase.POST_CHECK
    found = entry(scene.head())
    assert (found["rows"], found["rules"]) == (3, checked.rules)
    assert len(found["declaration"]) == 16


def test_rows_that_max_bad_allows_are_counted(scene: Scene) -> None:
    check = require_table("orders.csv", where={"small": "quantity < 6"}, max_bad=0.5)
    assert scene.run(writing(x__txt="x"), post=[check]).outcome.status is TaskStatus.COMPLETED
    assert entry(scene.head())["bad"] == {"where small": 1}


def test_a_bad_result_is_retried_and_a_bad_input_is_not(scene: Scene) -> None:
    head = scene.head().id
    bad = writing(orders__csv=ORDERS + "2,9,0\n")
    done = scene.run(bad, post=[HOLDS, require_file("absent")])
    assert isinstance(done.error, PostGuardrailViolation)
    # A missing file is reported without reading tables.
    assert done.outcome.reason == "post guardrail require_file('absent') found no such file"
    done = scene.run(bad, post=[HOLDS])
    assert isinstance(done.error, PostGuardrailViolation)
    assert done.outcome.status is TaskStatus.FAILED
    violations = [
        f"{TABLE} 2 of 3 rows share their value in column order_id with another row: 2",
        f"{TABLE} 1 of 3 rows refer to nothing in customers.csv.id from column customer: order_id 2",
        f"{TABLE} 1 of 3 rows are not between 1 and 100 in column quantity: order_id 2",
    ]
    assert done.outcome.reason == " | ".join(violations)
    assert list(done.outcome.log) == violations
    done = scene.run(bad, pre=[require_table("orders.csv", rows=(3, None))])
    assert isinstance(done.error, PreGuardrailViolation)
    assert done.outcome.status is TaskStatus.FAILED_WITH_TERMINAL_ERROR
    assert done.outcome.reason == "pre guardrail require_table('orders.csv') has 2 rows, not at least 3"
    assert scene.head().id == head


def test_the_same_checks_are_not_evaluated_again_on_an_unchanged_table(scene: Scene) -> None:
    scene.run(writing(a__txt="1"), post=[HOLDS])
    # A check before the body has the evidence of the same check after another one.
    done = scene.run(writing(a__txt="2"), pre=[HOLDS], post=[HOLDS])
    assert done.outcome.status is TaskStatus.COMPLETED, done.outcome.reason
    assert [checked.unchanged for checked in scene.checked()] == [False, True, True]
    assert entry(scene.head())["unchanged"] is True
    assert entry(scene.head())["rows"] == 2


@pytest.mark.parametrize(
    ("body", "check"),
    [
        (writing(orders__csv=ORDERS + "3,3,7\n"), HOLDS),
        (writing(orders__csv=ORDERS.replace("5", "4")), HOLDS),
        (writing(customers__csv="id\n1\n2\n"), HOLDS),
        (writing(a__txt="2"), require_table("orders.csv", Order, rows=(2, None))),
        (writing(a__txt="2"), require_table("orders.csv", Order, rows=(1, None), max_bad=0.1)),
    ],
    ids=["rows", "values", "the table that it refers to", "another rule", "another share"],
)
def test_anything_else_is_evaluated(scene: Scene, body: Body, check: Any) -> None:
    scene.run(writing(a__txt="1"), post=[HOLDS])
    done = scene.run(body, post=[check])
    assert done.outcome.status is TaskStatus.COMPLETED, done.outcome.reason
    assert scene.checked()[-1].unchanged is False


def test_a_commit_of_a_task_without_the_check_is_no_evidence(scene: Scene) -> None:
    scene.run(writing(a__txt="1"), post=[HOLDS])
    scene.run(writing(orders__csv="order_id,customer,quantity\n1,1,500\n"))
    done = scene.run(writing(a__txt="2"), pre=[HOLDS])
    assert done.outcome.status is TaskStatus.FAILED_WITH_TERMINAL_ERROR


def test_an_expression_about_now_is_always_evaluated(scene: Scene) -> None:
    check = require_table("orders.csv", where={"past": "current_date > DATE '2020-01-01'"})
    for number in range(2):
        assert scene.run(writing(a__txt=str(number)), post=[check]).outcome.status is TaskStatus.COMPLETED
    assert [checked.unchanged for checked in scene.checked()] == [False, False]


def test_the_result_is_compared_with_the_input_that_the_body_overwrote(scene: Scene) -> None:
    changed = require_table("orders.csv", rows_change=(0.9, 1.5))
    done = scene.run(writing(orders__csv=ORDERS + "".join(f"{n},1,1\n" for n in range(3, 9))), post=[changed])
    assert str(done.outcome.reason).endswith("has 8 rows, 4 times the 2 of the input commit, not 0.9 to 1.5")
    compatible = require_table("orders.csv", compatible=True)
    done = scene.run(writing(orders__csv="order_id,quantity\n1,1.5\n"), post=[compatible])
    assert str(done.outcome.reason).endswith(
        "cannot be read as the table of the input commit: column customer was removed, column quantity became DOUBLE, was BIGINT"
    )
    assert (
        scene.run(writing(new__csv="a\n1\n"), post=[require_table("new.csv", rows_change=(1, 1), compatible=True)]).error is None
    )


def test_own_checks(scene: Scene) -> None:
    def no_word(workspace: Path) -> Iterator[str]:
        if (workspace / "a.txt").read_text() == "word":
            yield "found a\nword"

    def breaks(workspace: Path) -> list[str]:
        raise ValueError(f"no {workspace.name}")

    assert scene.run(writing(a__txt="x"), post=[no_word]).error is None
    done = scene.run(writing(a__txt="word"), post=[no_word, breaks, require_file("absent")])
    assert isinstance(done.error, PostGuardrailViolation)
    found = "post guardrail no_word found a word | post guardrail breaks cannot be evaluated: ValueError: no work ("
    assert str(done.outcome.reason).startswith(f"{found}test_data_checks.py:")
    assert str(done.outcome.reason).endswith("| post guardrail require_file('absent') found no such file")
    assert done.outcome.log[-1] == "ValueError: no work"
    done = scene.run(writing(a__txt="x"), pre=[lambda _workspace: ["stop"]])
    assert done.outcome.reason == "pre guardrail <lambda> stop"


def test_a_file_that_changes_after_the_data_checks_is_not_published(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    from perago.workspace import local_workspace  # noqa: PLC0415

    closed = local_workspace.inspection.LocalInspection.close

    def close(self: Any) -> None:
        closed(self)
        (self.argument() / "orders.csv").write_text("order_id,customer,quantity\n1,1,900\n")

    monkeypatch.setattr(local_workspace.inspection.LocalInspection, "close", close)
    done = scene.run(writing(a__txt="x"), post=[HOLDS])
    assert "changed after the data checks; something still writes to the workspace" in str(done.outcome.reason)
