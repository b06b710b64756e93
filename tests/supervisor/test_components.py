"""Small parts of the worker on their own: messages, deaths, backoff, tallies."""

import re

import pytest

from perago import ipc
from perago.conductor.port import Polled
from perago.errors import TaskStatus
from perago.events import Done, Phase, Progress, Removal, Removed, Revoked
from perago.model import Attempt, ExecutionId, Outcome, Snapshot, TaskId, TaskType, WorkerId, WorkflowId
from perago.process.exit_status import ExitStatus
from perago.supervisor import attempt_stats, metrics, serve, slot

ATTEMPT = Attempt(WorkflowId("w"), TaskId("t"), 2, "ref", 3, 1, TaskType("type"), WorkerId("n"), 17, 1)
SEEN = Snapshot(WorkflowId("w"), TaskId("t"), 2, "IN_PROGRESS", WorkerId("n"), 17, 1, "RUNNING", {"a": [1, None]})
FACTS = ipc.TaskFacts("module", "type", True, {"name": "type", "inputKeys": ["params"]}, 60.0, 15.0, 30.0, ("careful",))


@pytest.mark.parametrize(
    "message",
    [
        ipc.Run(Polled(ATTEMPT, {"params": {"ü": [1.5, None, {"x": True}]}}, 60.0, 0.0), ExecutionId("e"), 12.5),
        ipc.Answer(1, SEEN),
        ipc.Answer(2, error="ConductorNotFound", message="gone"),
        ipc.LeaseMoved(9.25),
        ipc.Cancel(ExecutionId("e"), "why"),
    ],
)
def test_what_the_supervisor_says_arrives_as_it_was(message: ipc.ToExecutor) -> None:
    data = ipc.for_executor(message)
    assert ipc.length(data[:4]) == len(data) - 4
    assert ipc.read_by_executor(data[4:]) == message


@pytest.mark.parametrize(
    "message",
    [
        ipc.Declared((FACTS,)),
        ipc.Refused("no"),
        ipc.Ready(7),
        ipc.Fence(3),
        ipc.LookUp(4, TaskId("t"), WorkflowId("w")),
        ipc.LookUp(5, TaskId("t")),
        ipc.Happened(Done(Phase.BODY, "body", 0.5, error="x")),
        ipc.Happened(Progress(Phase.DOWNLOAD, 1, 2, 3, None)),
        ipc.Happened(Removed(Removal.RESTORE, "main", "gone", "head", "why")),
        ipc.Happened(Revoked("step a of workflow w", was_live=False)),
        ipc.Remark("warning", "text"),
        ipc.Finished(ExecutionId("e"), Outcome(TaskStatus.COMPLETED, {"result": {"n": 2**70}}, None, ("a", "b"))),
        ipc.Finished(ExecutionId("e"), Outcome(TaskStatus.FAILED, None, "why")),
    ],
)
def test_what_the_executor_says_arrives_as_it_was(message: ipc.ToSupervisor) -> None:
    assert ipc.read_by_supervisor(ipc.for_supervisor(message)[4:]) == message


def test_a_channel_out_of_step_is_noticed() -> None:
    with pytest.raises(ValueError, match="out of step"):
        ipc.length(b"\xff\xff\xff\xff")


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "exited with code 0"), (3, "exited with code 3"), (-9, "was killed by SIGKILL (9)"), (-77, "was killed by signal 77")],
)
def test_deaths_in_words(code: int, words: str) -> None:
    assert str(ExitStatus(code)) == words


def test_the_first_restart_is_at_once_and_the_pauses_are_bounded() -> None:
    assert [slot.backoff(deaths) for deaths in (1, 2, 3, 4)] == [0.0, 0.5, 1.0, 2.0]
    assert slot.backoff(1000) == slot.LONGEST_BACKOFF


def test_many_modules_still_make_a_file_name() -> None:
    assert serve.short(["a.b", "c"], "+") == "a.b+c"
    many = [f"company.department.pipelines.step{number:02d}" for number in range(30)]
    names = {serve.short(some, "+") for some in (many, many[:-1], [*many[:-1], "other"])}
    assert len(names) == 3
    assert all(len(name) <= serve.LONGEST_LABEL for name in names)
    assert re.fullmatch(r"[\w.]+", serve.short(many, ""))


def test_a_tally_sums_up_its_events() -> None:
    told = attempt_stats.Tally(began=100.0)
    told.add(Progress(Phase.DOWNLOAD, files=5, bytes=50, total_files=10))
    assert (told.phase, told.shown_progress()) == (Phase.DOWNLOAD, "5 of 10 files, 50 bytes")
    told.add(Done(Phase.DOWNLOAD, "download", 1.5, files=10, bytes=100, requests=11))
    told.add(Done(Phase.FENCE, "attempt fence", 0.25))
    told.add(Done(Phase.FENCE, "attempt fence", 0.25))
    assert told.shown_progress() == ""
    assert told.summary(now=103.0) == {
        "seconds": 3.0,
        "phases": {"download": 1.5, "fence": 0.5},
        "files": 10,
        "bytes": 100,
        "requests": 11,
    }


def test_what_happened_to_attempts_is_counted() -> None:
    counted = metrics.Metrics()
    counted.happened("t", Done(Phase.FENCE, "attempt fence", 0.1))
    counted.happened("t", Done(Phase.FENCE, "attempt fence", 0.1, error="StaleAttemptError"))
    counted.happened("t", Revoked("step a of workflow w", was_live=True))
    counted.happened("t", Done(Phase.REVOKE, "list staging branches", 0.1))
    counted.happened("t", Removed(Removal.REPLACE, "main", "gone", "head", "why"))
    counted.happened("t", Removed(Removal.REPLACE, "main", "gone", "head", "why"))
    counted.happened("t", Removed(Removal.MOVE_BACK, "main", "gone", "head", "why"))
    counted.happened("t", Done(Phase.PUBLISH, "relocate", 0.1, error="LakeUnknown"))
    counted.happened("t", Done(Phase.DOWNLOAD, "download", 0.1, bytes=7))
    counted.lease_extended(2.0)
    counted.called_off("t")
    shown = counted.render().decode()
    for line in (
        'perago_fence_refusals_total{task="t"} 1.0',
        'perago_revocations_total{task="t"} 1.0',
        'perago_commits_removed_total{kind="replace",task="t"} 2.0',
        'perago_commits_removed_total{kind="move_back",task="t"} 1.0',
        'perago_bytes_total{phase="download",task="t"} 7.0',
        "perago_lease_lateness_seconds_sum 2.0",
        'perago_attempts_called_off_total{task="t"} 1.0',
        'perago_phase_seconds_count{phase="fence",task="t"} 2.0',
    ):
        assert line in shown
