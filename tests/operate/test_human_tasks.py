"""The commands for human steps on the real servers: what is listed, checked out, published, refused, and what stays."""

import json
from pathlib import Path

import pytest
from tests.support import human_steps
from tests.support.human_steps import prices, start
from tests.support.operator import MAIN, OperatorHarness

from perago.model import CHECKOUT_NAME


def listed(harness: OperatorHarness) -> dict[str, bytes]:
    infos = harness.server.lake.objects(harness.repository, MAIN, "").objects
    read = harness.server.lake.read_small(harness.repository, MAIN, infos)
    return {info.path: data for info, (_, data) in zip(infos, read, strict=True)}


def test_a_person_edits_the_files_and_the_task_ends_with_the_commit_the_result_and_the_name(harness: OperatorHarness) -> None:
    base = prices(harness)
    step = start(harness)
    folder = step.checkout()
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == [
        CHECKOUT_NAME,
        "a.csv",
        "sub/b.csv",
    ]
    (folder / "a.csv").write_bytes(b"10")
    (folder / "sub/b.csv").unlink()
    (folder / "new.csv").write_bytes(b"5")
    said = step.perago("publish", str(folder), "--result", '{"approved": true, "note": "dearer"}', "--json")
    assert said.code == 0, said.err
    head = harness.head()
    step.require_completed(head.id)
    assert said.json["output"]["result"] == {"approved": True, "note": "dearer"}
    assert (said.json["commit"], said.json["parent"]) == (head.id, base)
    assert head.parents == (base,)
    assert listed(harness) == {"elsewhere/c.csv": b"3", "prices/a.csv": b"10", "prices/new.csv": b"5"}
    # Who did it, for readers of the history.
    shown = harness.perago("log", harness.target).out.splitlines()[0]
    assert "accepted" in shown
    assert (
        f"step review by alice, attempt 1, workflow {step.harness.real.call('GET', f'/workflow/{step.workflow}')['workflowName']}"
        in shown
    )
    assert "+1 ~1 -1" in shown
    assert harness.perago("log", harness.target, "--json").json["publications"][0]["by"] == "alice"
    # A second publish is refused, and nothing is lost.
    (folder / "a.csv").write_bytes(b"11")
    again = step.publish(folder, user="bob")
    assert again.code == 1
    assert f"task {step.task} is over: it is COMPLETED by alice with commit {head.id}; nothing was published" in again.err
    assert f"the files in {folder} are as they were" in again.err
    assert (folder / "a.csv").read_bytes() == b"11"
    step.require_completed(head.id)


def test_what_waits_is_listed_and_compared_with_the_beginning_of_the_run(harness: OperatorHarness) -> None:
    prices(harness)
    step = start(harness)
    found = [one for one in step.perago("tasks", "--json", "--limit", "1000").json["tasks"] if one["task"] == step.task]
    while not found:  # the search index may be a second behind
        found = [one for one in step.perago("tasks", "--json", "--limit", "1000").json["tasks"] if one["task"] == step.task]
    (one,) = found
    assert (one["step"], one["question"], one["run"]) == ("review", {"total": 3}, step.workflow)
    assert one["form"]["workspace"]["prefix"] == "/prices"
    line = next(line for line in step.perago("tasks", "--limit", "1000").out.splitlines() if line.startswith(step.task))
    assert line.endswith('  review  {"total": 3}')
    said = step.perago("diff", step.task[:13], "--json")
    assert said.json["left"] == said.json["right"] == harness.head().id
    # Of a step that an earlier one has written for.
    made = human_steps.compiler.workflow(human_steps.pipeline_of(human_steps.editing))["tasks"]  # pyright: ignore[reportArgumentType]
    first = {"name": harness.task_type, "taskReferenceName": "s0", "type": "SIMPLE"}
    first["inputParameters"] = {"workspace": "${workflow.input.workspace}", "params": {}}  # type: ignore[assignment]
    made[0]["inputParameters"]["workspace"] = "${s0.output.workspace}"
    given = {"workspace": {"repository": harness.repository, "branch": "main", "ref_type": "commit", "ref": harness.head().id}}
    workflow = harness.real.start_workflow([first, *made], {**given, "total": 1})
    harness.report(harness.run(harness.poll(), {"x": b"written"}))
    later = human_steps.WaitingStep(harness, workflow, human_steps.waiting_task(harness, workflow))
    assert later.perago("diff", later.task).out.splitlines()[0].startswith("+ in/x")


def test_no_change_is_a_no_op_whoever_touched_the_files(harness: OperatorHarness) -> None:
    base = prices(harness)
    step = start(harness)
    folder = step.checkout()
    (folder / "a.csv").write_bytes(b"1")
    said = step.publish(folder)
    assert said.out == f"task {step.task} is completed: nothing differs, so no commit was made\n"
    step.require_completed(base)


def test_failed_checks_and_wrong_results_keep_the_files_and_the_task(harness: OperatorHarness) -> None:
    base = prices(harness)
    step = start(harness)
    folder = step.checkout()
    (folder / "left.tmp").write_bytes(b"")
    for options, words in (
        (["--result", "{}"], "result does not satisfy the form: result.approved: missing; the result has approved (boolean)"),
        (["--result", '{"approved": 1}'], "result.approved: must be boolean"),
        (["--result", "["], "--result is not JSON"),
        (["--result", '{"approved": true}'], "post guardrail forbid_glob('**/*.tmp') matched 1 file: left.tmp"),
    ):
        said = step.perago("publish", str(folder), *options)
        assert said.code == 1
        assert words in said.err
        assert len(said.err.splitlines()) == 1
        step.require_waiting()
    assert harness.head().id == base
    (folder / "left.tmp").unlink()
    (folder / "link").symlink_to("a.csv")
    assert "does not support symlinks: link" in step.publish(folder).err
    (folder / "link").unlink()
    assert step.publish(folder).code == 0


def test_approve_leaves_the_files_and_reject_ends_the_run(harness: OperatorHarness) -> None:
    base = prices(harness)
    step = start(harness)
    said = step.perago("approve", step.task, "--result", '{"approved": true, "note": "fine"}', "--json")
    assert said.code == 0, said.err
    assert said.json["output"]["by"] == "alice"
    step.require_completed(base)
    step = start(harness)
    said = step.perago("reject", step.task, "--reason", "too dear", user="bob")
    assert said.code == 0, said.err
    assert step.json()["reasonForIncompletion"] == "rejected by bob: too dear"
    assert step.status == "FAILED_WITH_TERMINAL_ERROR"
    assert harness.real.workflow_status(step.workflow) == "FAILED"
    assert harness.head().id == base
    assert harness.staging_branches() == []
    assert "is over: it is FAILED_WITH_TERMINAL_ERROR (rejected by bob: too dear)" in step.perago("approve", step.task).err
    # A retry asks again, as a new task.
    assert harness.perago("retry", step.workflow).code == 0
    again = human_steps.WaitingStep(harness, step.workflow, human_steps.waiting_task(harness, step.workflow))
    assert again.task != step.task
    assert again.perago("approve", again.task, "--result", '{"approved": true}').code == 0


@pytest.mark.parametrize("function", [human_steps.reading, human_steps.asking])
def test_a_question_without_files_to_edit(harness: OperatorHarness, function: object, tmp_path: Path) -> None:
    prices(harness)
    step = start(harness, function)
    if function is human_steps.reading:
        folder = step.checkout()
        assert (folder / "prices/a.csv").is_file()
        assert "is read-only; answer it with perago approve" in step.publish(folder).err
    else:
        said = step.perago("checkout", step.task, str(tmp_path / "none"))
        assert "has no workspace: there is nothing to check out; answer it with perago approve" in said.err
        assert not (tmp_path / "none").exists()
    assert step.perago("approve", step.task, "--result", '{"approved": false}').code == 0
    assert step.json()["outputData"]["result"] == {"approved": False, "note": ""}
    assert step.json()["outputData"]["by"] == "alice"
    assert "is over" in step.perago("reject", step.task, "--reason", "late").err


def test_a_branch_that_moved_is_refused_with_what_to_do(harness: OperatorHarness) -> None:
    base = prices(harness)
    step = start(harness)
    folder = step.checkout()
    (folder / "a.csv").write_bytes(b"10")
    moved = harness.accepted(base).commit
    for said in (step.publish(folder), step.perago("approve", step.task, "--result", '{"approved": true}')):
        assert said.code == 1
        assert f"Conductor accepted {moved} from step s0" in said.err
        assert f"end its run with perago reject {step.task}, and submit a new run" in said.err
    step.require_waiting()
    assert (folder / "a.csv").read_bytes() == b"10"
    assert step.perago("reject", step.task, "--reason", "the branch moved").code == 0
    assert step.status == "FAILED_WITH_TERMINAL_ERROR"
    assert harness.head().id == moved


def test_a_task_that_is_over_is_refused_however_it_ended(harness: OperatorHarness) -> None:
    prices(harness)
    name = harness.real.task_type(timeoutSeconds=1, responseTimeoutSeconds=1, timeoutPolicy="TIME_OUT_WF")
    made = human_steps.compiler.workflow(human_steps.pipeline_of(human_steps.editing))["tasks"]  # pyright: ignore[reportArgumentType]
    made[0]["name"] = name
    given = {"workspace": {"repository": harness.repository, "branch": "main", "ref_type": "commit", "ref": harness.head().id}}
    workflow = harness.real.start_workflow(made, {**given, "total": 1})
    step = human_steps.WaitingStep(harness, workflow, human_steps.waiting_task(harness, workflow))
    folder = step.checkout()
    human_steps.eventually(
        lambda: harness.real.call("PUT", f"/workflow/decide/{workflow}") or step.status == "TIMED_OUT", within=10
    )
    said = step.publish(folder)
    assert said.code == 1
    assert f"task {step.task} is over: it is TIMED_OUT (Task timed out" in said.err
    ended = start(harness)
    kept = ended.checkout()
    harness.terminate(ended.workflow)
    assert "is over: it is CANCELED" in ended.publish(kept).err


def test_folders_that_are_not_of_the_task_are_refused(harness: OperatorHarness) -> None:
    prices(harness)
    step, other = start(harness), start(harness)
    folder = step.checkout()
    said = step.perago("checkout", step.task, str(folder))
    assert f"{folder} is not an empty folder; name a new one" in said.err
    marker = json.loads((folder / CHECKOUT_NAME).read_text())
    assert "secret" not in json.dumps(marker)
    assert harness.stack.secret_access_key not in json.dumps(marker)
    (folder / CHECKOUT_NAME).write_text(json.dumps({**marker, "task_id": other.task}))
    said = step.publish(folder)
    assert f"the folder is not of task {other.task}: it was checked out for step review of run {step.workflow}" in said.err
    (folder / CHECKOUT_NAME).write_text(json.dumps({**marker, "ref": "0" * 64}))
    assert "the folder is not of task" in step.publish(folder).err
    (folder / CHECKOUT_NAME).write_text("{")
    assert "is not as this version of Perago writes it" in step.publish(folder).err
    (folder / CHECKOUT_NAME).write_text(json.dumps({**marker, "task_id": "0" * 36, "conductor": "http://elsewhere/api"}))
    said = step.publish(folder)
    assert "does not know task" in said.err
    assert "the folder was checked out from Conductor at http://elsewhere/api" in said.err
    (folder / CHECKOUT_NAME).unlink()
    assert f"{folder} was not made by perago checkout" in step.publish(folder).err
    for one in (step, other):
        one.require_waiting()


def test_arguments_that_name_no_task(harness: OperatorHarness) -> None:
    assert "abc is too short for the beginning of a task's id" in harness.perago("approve", "abc").err
    assert "no task that waits for a person begins with 00000000" in harness.perago("reject", "00000000", "--reason", "x").err
    assert "does not know task" in harness.perago("diff", "0" * 36).err
    polled = harness.start(prices(harness))
    said = harness.perago("approve", polled.attempt.task_id)
    assert "is no human step of Perago; perago tasks lists those that wait" in said.err
    assert harness.perago("reject", "00000000", "--reason", " ").code == 2
