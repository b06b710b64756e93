"""Small parts of the worker on their own: messages, backoff, names, statistics, metrics."""

import re

import pytest

from perago import ipc
from perago.conductor.port import Polled
from perago.errors import TaskStatus
from perago.events import Done, Effect, Phase, Progress, Removal, Removed, Revoked
from perago.model import Attempt, ExecutionId, Outcome, Snapshot, TaskId, TaskType, WorkerId, WorkflowId
from perago.process.exit_status import ExitStatus
from perago.supervisor import attempt_stats, metrics, slot, worker_name

ATTEMPT = Attempt(WorkflowId("w"), TaskId("t"), 2, "ref", 3, 1, TaskType("type"), WorkerId("n"), 17, 1)
SEEN = Snapshot(WorkflowId("w"), TaskId("t"), 2, "IN_PROGRESS", WorkerId("n"), 17, 1, "RUNNING", {"a": [1, None]})
FACTS = ipc.TaskFacts("module", "type", True, {"name": "type", "inputKeys": ["params"]}, 60.0, 15.0, 30.0, ("careful",))


@pytest.mark.parametrize(
    "message",
    [
        ipc.Run(Polled(ATTEMPT, {"params": {"ü": [1.5, None, {"x": True}]}}, 60.0, 0.0), ExecutionId("e"), 12.5),
        ipc.Answer(1, 9.25, SEEN),
        ipc.Answer(2, 9.25, error="ConductorNotFound", message="gone"),
        ipc.LeaseDeadline(9.25),
        ipc.Cancel(ExecutionId("e"), "why"),
    ],
)
def test_message_to_the_executor_survives_encoding(message: ipc.ToExecutor) -> None:
    data = ipc.encode_for_executor(message)
    assert ipc.frame_length(data[:4]) == len(data) - 4
    assert ipc.decode_in_executor(data[4:]) == message


@pytest.mark.parametrize(
    "message",
    [
        ipc.ModulesLoaded((FACTS,)),
        ipc.ModulesRejected("no"),
        ipc.SourcesImported(("/project/task.py",)),
        ipc.Ready(7),
        ipc.FenceRequest(3),
        ipc.LookUpRequest(4, TaskId("t"), WorkflowId("w")),
        ipc.LookUpRequest(5, TaskId("t")),
        ipc.EventEmitted(Done(Effect.BODY, 0.5, error="x")),
        ipc.EventEmitted(Progress(Phase.DOWNLOAD, 1, 2, 3, None)),
        ipc.EventEmitted(Removed(Removal.RESTORE, "main", "gone", "head", "why")),
        ipc.EventEmitted(Revoked("step a of workflow w", was_live=False)),
        ipc.LogLine("warning", "text"),
        ipc.Finished(ExecutionId("e"), Outcome(TaskStatus.COMPLETED, {"result": {"n": 2**70}}, None, ("a", "b"))),
        ipc.Finished(ExecutionId("e"), Outcome(TaskStatus.FAILED, None, "why")),
    ],
)
def test_message_to_the_supervisor_survives_encoding(message: ipc.ToSupervisor) -> None:
    assert ipc.decode_in_supervisor(ipc.encode_for_supervisor(message)[4:]) == message


def test_impossible_frame_length_is_an_error() -> None:
    with pytest.raises(ValueError, match="out of sync"):
        ipc.frame_length(b"\xff\xff\xff\xff")


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "exited with code 0"), (3, "exited with code 3"), (-9, "was killed by SIGKILL (9)"), (-77, "was killed by signal 77")],
)
def test_deaths_in_words(code: int, words: str) -> None:
    assert str(ExitStatus(code)) == words


def test_first_restart_is_immediate_and_pauses_are_bounded() -> None:
    assert [slot.RESTART_BACKOFF.pause(exits - 1) for exits in (1, 2, 3, 4)] == [0.0, 0.5, 1.0, 2.0]
    assert slot.RESTART_BACKOFF.pause(1000) == 30.0


def test_label_of_many_modules_fits_into_a_file_name() -> None:
    assert worker_name.short(["a.b", "c"], "+") == "a.b+c"
    many = [f"company.department.pipelines.step{number:02d}" for number in range(30)]
    names = {worker_name.short(some, "+") for some in (many, many[:-1], [*many[:-1], "other"])}
    assert len(names) == 3
    assert all(len(name) <= worker_name.LONGEST_LABEL for name in names)
    assert re.fullmatch(r"[\w.]+", worker_name.short(many, ""))


def test_stats_sum_up_events() -> None:
    stats = attempt_stats.AttemptStats(began=100.0)
    stats.add(Progress(Phase.DOWNLOAD, files=5, bytes=50, total_files=10))
    assert (stats.phase, stats.progress_text()) == (Phase.DOWNLOAD, "5 of 10 files, 50 bytes")
    stats.add(Done(Effect.DOWNLOAD, 1.5, files=10, bytes=100, requests=11))
    stats.add(Done(Effect.ATTEMPT_FENCE, 0.25))
    stats.add(Done(Effect.ATTEMPT_FENCE, 0.25))
    assert stats.progress_text() == ""
    assert stats.summary(now=103.0) == {
        "seconds": 3.0,
        "phases": {"download": 1.5, "fence": 0.5},
        "files": 10,
        "bytes": 100,
        "requests": 11,
    }


def test_metrics_count_attempt_events() -> None:
    counted = metrics.Metrics()
    counted.observe("t", Done(Effect.ATTEMPT_FENCE, 0.1))
    counted.observe("t", Done(Effect.ATTEMPT_FENCE, 0.1, error="StaleAttemptError"))
    counted.observe("t", Revoked("step a of workflow w", was_live=True))
    counted.observe("t", Done(Effect.LIST_RIVALS, 0.1))
    counted.observe("t", Removed(Removal.REPLACE, "main", "gone", "head", "why"))
    counted.observe("t", Removed(Removal.REPLACE, "main", "gone", "head", "why"))
    counted.observe("t", Removed(Removal.MOVE_BACK, "main", "gone", "head", "why"))
    counted.observe("t", Done(Effect.RELOCATE, 0.1, error="LakeUnknown"))
    counted.observe("t", Done(Effect.DOWNLOAD, 0.1, bytes=7))
    counted.lease_extended(2.0)
    counted.cancelled("t")
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
