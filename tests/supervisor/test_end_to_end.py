"""A real worker, a real Conductor, a real lakeFS: what a workflow gets, and what the branch shows afterwards."""

import re

import pytest
from tests.support.worker import GROW, LOOK, PLAIN, Rig


def test_every_kind_of_task_in_one_workflow(rig: Rig) -> None:
    rig.start(GROW, LOOK, PLAIN, jobs=2)
    base = rig.seed()
    workflow = rig.real.start_workflow(
        [
            rig.step(PLAIN, "plain", {"text": "free"}),
            rig.step(GROW, "first", {"line": "one"}, rig.workspace(base)),
            rig.step(LOOK, "look", {}, "${first.output.workspace}"),
            rig.step(GROW, "nothing", {"only_look": True}, "${look.output.workspace}"),
            rig.step(GROW, "second", {"line": "two"}, "${nothing.output.workspace}"),
        ]
    )
    assert rig.ended(workflow) == "COMPLETED"
    plain, first, look, nothing, second = (task["outputData"] for task in rig.tasks(workflow))
    assert plain == {"result": {"said": "free"}}
    assert first["result"] == look["result"] == nothing["result"] == {"lines": 1}
    assert second["result"] == {"lines": 2}
    assert look["workspace"] == nothing["workspace"] == first["workspace"]
    assert first["workspace"] == rig.workspace(first["workspace"]["ref"])
    head = rig.head()
    assert head.id == second["workspace"]["ref"]
    assert rig.history(base) == [head.id, first["workspace"]["ref"], base]
    assert rig.site.content(head.id) == {"data/log.txt": b"one\ntwo\n", "elsewhere/kept": b"untouched"}
    assert rig.staging_branches() == []
    assert rig.left_workspaces() == []


def test_an_abandoned_publication_is_replaced(rig: Rig) -> None:
    rig.start(GROW)
    base = rig.seed()
    abandoned = rig.site.publish("main", {"data/log.txt": b"nobody accepted this\n"})
    workflow = rig.grow(base, line="mine")
    assert rig.ended(workflow) == "COMPLETED"
    head = rig.head()
    assert head.parents == (base,)
    assert abandoned not in rig.history(base)
    assert rig.log_at(head.id) == "mine\n"
    assert rig.staging_branches() == []


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


def test_every_failure_arrives_with_its_status_and_a_reason_to_act_on(rig: Rig) -> None:
    worker = rig.start(PLAIN, jobs=2, E2E_RETRIES="0")
    workflows = {what: rig.plain(do=what) for what in FAILURES}
    workflows["input"] = rig.real.start_workflow([rig.step(PLAIN, "it", {"do": 5, "unknown": 1})])
    seen = {}
    for what, workflow in workflows.items():
        assert rig.ended(workflow) in {"FAILED", "TERMINATED"}, what
        (task,) = rig.tasks(workflow)
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
def test_a_workspace_that_must_not_be_published_changes_nothing(
    rig: Rig, params: dict[str, str], status: str, reason: str
) -> None:
    rig.start(GROW, E2E_RETRIES="0")
    base = rig.seed()
    workflow = rig.grow(base, **params)
    assert rig.ended(workflow) == "FAILED"
    (task,) = rig.tasks(workflow)
    assert task["status"] == status
    assert reason in task["reasonForIncompletion"]
    assert rig.head().id == base
    assert rig.staging_branches() == []


def test_a_pre_check_that_fails_is_terminal_and_the_body_does_not_run(rig: Rig) -> None:
    rig.start(GROW)
    base = rig.site.publish("main", {"data/other.txt": b""})
    gate = rig.gate()
    workflow = rig.grow(base, gate=str(gate))
    assert rig.ended(workflow) == "FAILED"
    (task,) = rig.tasks(workflow)
    assert task["status"] == "FAILED_WITH_TERMINAL_ERROR"
    assert "pre guardrail require_file('log.txt')" in task["reasonForIncompletion"]
    assert not gate.path.with_suffix(".entered").exists()


def test_the_traceback_is_in_conductors_task_log_and_in_the_workers(rig: Rig) -> None:
    worker = rig.start(PLAIN, E2E_RETRIES="0")
    workflow = rig.plain(do="raise")
    rig.ended(workflow)
    (task,) = rig.tasks(workflow)
    shown = "\n".join(rig.real.logs(task["taskId"]))
    assert "Traceback (most recent call last)" in shown
    assert 'raise KeyError("rows")' in shown
    logged = worker.until("traceback")
    assert 'raise KeyError("rows")' in logged["text"]
    assert logged["task_id"] == task["taskId"]


def test_five_steps_with_crashes_end_in_exactly_the_expected_history(rig: Rig) -> None:
    worker = rig.start(GROW, jobs=2, E2E_RETRIES="3")
    base = rig.seed()
    given = rig.workspace(base)
    steps = []
    for number in range(5):
        how = "die_once" if number % 2 == 0 else "fail_once"
        steps.append(rig.step(GROW, f"s{number}", {"line": str(number), how: str(rig.folder / f"mark-{number}")}, given))
        given = f"${{s{number}.output.workspace}}"
    workflow = rig.real.start_workflow(steps)
    assert rig.ended(workflow, within=90) == "COMPLETED"
    tasks = rig.tasks(workflow)
    done = [task["outputData"]["workspace"]["ref"] for task in tasks if task["status"] == "COMPLETED"]
    assert [task["status"] for task in tasks] == ["FAILED", "COMPLETED"] * 5
    assert rig.history(base) == [*reversed(done), base]
    assert rig.log_at(done[-1]) == "0\n1\n2\n3\n4\n"
    assert rig.staging_branches() == []
    worker.until("attempt", count=10)
    assert rig.left_workspaces() == []
