"""A worker with real servers: the output of workflows and the history of the branch."""

import re

import pytest
from tests.support.worker_harness import GROW, LOOK, PLAIN, WorkerHarness


def test_every_kind_of_task_in_one_workflow(harness: WorkerHarness) -> None:
    harness.start(GROW, LOOK, PLAIN, jobs=2)
    base = harness.seed()
    workflow = harness.real.start_workflow(
        [
            harness.step(PLAIN, "plain", {"text": "free"}),
            harness.step(GROW, "first", {"line": "one"}, harness.workspace(base)),
            harness.step(LOOK, "look", {}, "${first.output.workspace}"),
            harness.step(GROW, "nothing", {"only_look": True}, "${look.output.workspace}"),
            harness.step(GROW, "second", {"line": "two"}, "${nothing.output.workspace}"),
        ]
    )
    assert harness.ended(workflow) == "COMPLETED"
    plain, first, look, nothing, second = (task["outputData"] for task in harness.tasks(workflow))
    assert plain == {"result": {"said": "free"}}
    assert first["result"] == look["result"] == nothing["result"] == {"lines": 1}
    assert second["result"] == {"lines": 2}
    assert look["workspace"] == nothing["workspace"] == first["workspace"]
    assert first["workspace"] == harness.workspace(first["workspace"]["ref"])
    head = harness.head()
    assert head.id == second["workspace"]["ref"]
    assert harness.history(base) == [head.id, first["workspace"]["ref"], base]
    assert harness.site.content(head.id) == {"data/log.txt": b"one\ntwo\n", "elsewhere/kept": b"untouched"}
    assert harness.staging_branches() == []
    assert harness.left_workspaces() == []


def test_abandoned_publication_is_replaced(harness: WorkerHarness) -> None:
    harness.start(GROW)
    base = harness.seed()
    abandoned = harness.site.publish("main", {"data/log.txt": b"never accepted\n"})
    workflow = harness.grow(base, line="mine")
    assert harness.ended(workflow) == "COMPLETED"
    head = harness.head()
    assert head.parents == (base,)
    assert abandoned not in harness.history(base)
    assert harness.log_at(head.id) == "mine\n"
    assert harness.staging_branches() == []


FAILURES = {
    "fail": ("FAILED", r"the shop is closed"),
    "terminal": ("FAILED_WITH_TERMINAL_ERROR", r"it never will open"),
    "raise": ("FAILED", r"KeyError: .rows. \(plain.py:\d+ in raise_key_error\)"),
    "empty": ("FAILED", r"ValueError without a message \(plain.py:\d+ in raise_empty\)"),
    "unspeakable": ("FAILED", r"Unspeakable: its message cannot be shown"),
    "group": ("FAILED", r"both failed.*ValueError: left; OSError: right"),
    "exit": ("FAILED", r"SystemExit: 4"),
    "interrupt": ("FAILED", r"KeyboardInterrupt"),
    "memory": ("FAILED", r"MemoryError"),
    "wrong-result": ("FAILED", r"result"),
    "os-exit": ("FAILED", r"the executor exited with code 7 in phase body"),
    "segfault": ("FAILED", r"the executor was killed by SIGSEGV \(11\) in phase body"),
    "kill": ("FAILED", r"the executor was killed by SIGKILL \(9\) in phase body"),
}


def test_every_failure_is_reported_with_status_and_reason(harness: WorkerHarness) -> None:
    worker = harness.start(PLAIN, jobs=2, E2E_RETRIES="0")
    workflows = {what: harness.plain(do=what) for what in FAILURES}
    workflows["input"] = harness.real.start_workflow([harness.step(PLAIN, "it", {"do": 5, "unknown": 1})])
    seen = {}
    for what, workflow in workflows.items():
        assert harness.ended(workflow) in {"FAILED", "TERMINATED"}, what
        (task,) = harness.tasks(workflow)
        seen[what] = (task["status"], task["reasonForIncompletion"])
        assert task["outputData"] == {}, what
    expected = FAILURES | {"input": ("FAILED_WITH_TERMINAL_ERROR", r"params.do.*params.unknown: unknown field")}
    for what, (status, reason) in seen.items():
        assert status == expected[what][0], what
        assert re.search(expected[what][1], reason), (what, reason)
    worker.until("attempt", count=len(workflows))
    assert len(worker.said("attempt")) == len(workflows)


@pytest.mark.parametrize(
    ("params", "status", "reason"),
    [
        ({"line": "temporary"}, "FAILED", "post guardrail forbid_glob"),
        ({"line": "link"}, "FAILED", "workspace publication does not support symlinks: link"),
    ],
)
def test_rejected_workspace_changes_nothing(harness: WorkerHarness, params: dict[str, str], status: str, reason: str) -> None:
    harness.start(GROW, E2E_RETRIES="0")
    base = harness.seed()
    workflow = harness.grow(base, **params)
    assert harness.ended(workflow) == "FAILED"
    (task,) = harness.tasks(workflow)
    assert task["status"] == status
    assert reason in task["reasonForIncompletion"]
    assert harness.head().id == base
    assert harness.staging_branches() == []


def test_failed_pre_check_is_terminal_and_the_body_does_not_run(harness: WorkerHarness) -> None:
    harness.start(GROW)
    base = harness.site.publish("main", {"data/other.txt": b""})
    gate = harness.gate()
    workflow = harness.grow(base, gate=str(gate))
    assert harness.ended(workflow) == "FAILED"
    (task,) = harness.tasks(workflow)
    assert task["status"] == "FAILED_WITH_TERMINAL_ERROR"
    assert "pre guardrail require_file('log.txt')" in task["reasonForIncompletion"]
    assert not gate.path.with_suffix(".entered").exists()


def test_traceback_is_in_the_task_log_and_in_the_worker_log(harness: WorkerHarness) -> None:
    worker = harness.start(PLAIN, E2E_RETRIES="0")
    workflow = harness.plain(do="raise")
    harness.ended(workflow)
    (task,) = harness.tasks(workflow)
    shown = "\n".join(harness.real.logs(task["taskId"]))
    assert "Traceback (most recent call last)" in shown
    assert 'raise KeyError("rows")' in shown
    assert re.match(r'Traceback .*\n  File ".*/tests/support/tasks/plain.py", line \d+, in plain\n', shown)
    assert "/perago/" not in shown
    logged = worker.until("traceback")
    assert logged["text"] == shown
    assert logged["task_id"] == task["taskId"]


def test_five_steps_with_crashes_leave_exactly_the_expected_history(harness: WorkerHarness) -> None:
    worker = harness.start(GROW, jobs=2, E2E_RETRIES="3")
    base = harness.seed()
    given = harness.workspace(base)
    steps = []
    for number in range(5):
        how = "die_once" if number % 2 == 0 else "fail_once"
        steps.append(harness.step(GROW, f"s{number}", {"line": str(number), how: str(harness.folder / f"mark-{number}")}, given))
        given = f"${{s{number}.output.workspace}}"
    workflow = harness.real.start_workflow(steps)
    assert harness.ended(workflow, within=90) == "COMPLETED"
    tasks = harness.tasks(workflow)
    done = [task["outputData"]["workspace"]["ref"] for task in tasks if task["status"] == "COMPLETED"]
    assert [task["status"] for task in tasks] == ["FAILED", "COMPLETED"] * 5
    assert harness.history(base) == [*reversed(done), base]
    assert harness.log_at(done[-1]) == "0\n1\n2\n3\n4\n"
    assert harness.staging_branches() == []
    worker.until("attempt", count=10)
    assert harness.left_workspaces() == []
