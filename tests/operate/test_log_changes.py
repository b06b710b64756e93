"""How much each commit changed, and which one it replaced, in `perago log`."""

from tests.support.conductor_sites import take
from tests.support.operator import OperatorHarness

from perago.errors import TaskStatus
from perago.model import Outcome
from perago.protocol import commit_labels


def test_files_and_bytes_of_a_publication(harness: OperatorHarness) -> None:
    first = harness.accepted(harness.by_hand("in/x", b"old"), {"y": b"12345", "x": b"new"})
    second = harness.accepted(first.commit, {"y": None})
    newest, older, by_hand, *_ = harness.perago("log", harness.target, "--json").json["publications"]
    assert (newest["commit"], newest["replaced"]) == (second.commit, None)
    assert newest["changes"] == {"added": 0, "changed": 0, "deleted": 1, "bytes": 0}
    assert older["changes"] == {"added": 1, "changed": 1, "deleted": 0, "bytes": 8}
    assert by_hand["changes"] is None
    lines = harness.perago("log", harness.target).out.splitlines()
    assert lines[0].endswith("  +0 ~0 -1 0 B")
    assert lines[1].endswith("  +1 ~1 -0 8 B")
    assert not lines[2].rstrip().endswith(" B")


def test_what_a_publication_took_the_place_of(harness: OperatorHarness) -> None:
    """The first attempt published and was never reported; the second one takes the place of its commit."""
    harness.task_type = harness.real.task_type(retryCount=1, retryDelaySeconds=0)
    seed = harness.by_hand("in/x")
    polled = harness.start(seed)
    lost = harness.run(polled)
    failed = Outcome(TaskStatus.FAILED, reason="the worker died")
    harness.real.conductor.report(polled.attempt, failed, timeout=20)
    published = harness.run(take(harness.real.conductor, harness.task_type))
    harness.report(published)
    assert commit_labels.STAGED in harness.head().metadata
    (newest, *rest) = harness.perago("log", harness.target, "--json").json["publications"]
    assert (newest["commit"], newest["standing"]) == (published.commit, "accepted")
    of_step = f"the publication of step s0 of workflow {polled.attempt.workflow_id}, which Conductor did not accept"
    assert newest["replaced"] == {"commit": lost.commit, "why": f"{of_step}: its task is FAILED"}
    assert [one["replaced"] for one in rest] == [None] * len(rest)
    line = harness.perago("log", harness.target).out.splitlines()[0]
    assert line.endswith(f"; replaced {lost.commit[:12]}, {of_step}: its task is FAILED")
