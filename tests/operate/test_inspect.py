"""`perago inspect`: which kept attempt a text names, and what it says of one that is not there."""

import time

from tests.support.operator import MAIN, OperatorHarness

from perago.conductor.port import Polled
from perago.model import BranchName, ObjectPath
from perago.operate.protocol_check.dict_task import upload
from perago.protocol import kept_labels, kept_names, staging_names


def keep(harness: OperatorHarness, polled: Polled, seconds: float = 600, *, is_complete: bool = True) -> BranchName:
    """As a worker keeps it."""
    lake, at = harness.server.lake, harness.head().id
    execution = staging_names.execution_id(time.time(), polled.attempt.task_id.encode()[:8])
    name = kept_names.kept_branch(polled.attempt, execution, time.time() + seconds)
    lake.create_branch(harness.repository, name, at)
    upload(lake, harness.repository, name, f"in/{polled.attempt.reference_name}", b"bad")
    if is_complete:
        reason = "post guardrail require_file('good') found no such file"
        labels = kept_labels.of_attempt(polled.attempt, execution, MAIN, at, "/in", reason, "link (symlinks)")
        lake.commit_branch(harness.repository, name, "kept", kept_labels.write(labels))
    return name


def test_a_run_names_its_kept_attempt_if_only_one_step_has_one(harness: OperatorHarness) -> None:
    base = harness.by_hand("in/old")
    first = harness.start(base, steps=2)
    keep(harness, first)
    run = first.attempt.workflow_id
    shown = harness.perago("inspect", run)
    assert shown.code == 0, shown.err
    folder = harness.folder / f"perago-inspect-{first.attempt.task_id}"
    assert sorted(path.name for path in folder.iterdir()) == ["old", "s0"]
    assert "failed    post guardrail require_file('good') found no such file" in shown.out
    assert "left out  link (symlinks)" in shown.out

    harness.report(harness.run(first))
    second = harness.poll()
    keep(harness, second)
    several = harness.perago("inspect", run)
    assert several.code == 1
    assert "has kept attempts of several steps; name one of these tasks" in several.err
    assert first.attempt.task_id in several.err
    assert second.attempt.task_id in several.err
    assert harness.perago("inspect", f"{run}/s1", "second").code == 0
    assert (harness.folder / "second" / "s1").read_bytes() == b"bad"
    assert "has no step s2; it has s0, s1" in harness.perago("inspect", f"{run}/s2").err
    harness.terminate(run)


def test_one_that_is_not_finished_is_not_downloaded(harness: OperatorHarness) -> None:
    polled = harness.start(harness.by_hand("in/old"))
    name = keep(harness, polled, is_complete=False)
    shown = harness.perago("inspect", polled.attempt.task_id, "folder")
    assert (shown.code, shown.err) == (
        1,
        f"error: {name} is incomplete: its worker still uploads to it, or died before it was finished [PG-100]\n",
    )
    assert not (harness.folder / "folder").exists()
    harness.terminate(polled.attempt.workflow_id)


def test_other_commands_leave_it_alone(harness: OperatorHarness) -> None:
    published = harness.accepted(harness.by_hand("in/old"))
    name = keep(harness, published.polled)
    over = keep(harness, published.polled, seconds=-10)
    kept = harness.server.lake.head(harness.repository, name)
    for command in (("log", harness.target), ("blame", harness.target, f"in/{published.polled.attempt.reference_name}")):
        assert kept.id not in harness.perago(*command).out
    assert harness.perago("recover", harness.target, "--yes", "--to", kept.id).code == 1
    assert harness.perago("undo", harness.target, kept.id, "--yes").code == 1
    assert harness.head().id == published.commit
    found = harness.doctor()
    assert [one["level"] for one in found["kept"]] == ["note"]
    assert "staging" not in found
    assert harness.perago("gc", harness.repository, "--delete").code == 0
    assert harness.staging_branches() == [name]
    assert harness.server.lake.head(harness.repository, name) == kept
    assert over not in harness.staging_branches()
    paths = [info.path for info in harness.server.lake.objects(harness.repository, kept.id, "in/").objects]
    assert ObjectPath(f"in/{published.polled.attempt.reference_name}") in paths
