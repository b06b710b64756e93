"""SIGKILL of `perago publish` at every phase, and the command that answers the task afterwards: nothing is lost or left."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import pytest
from tests.support import human_kill_matrix
from tests.support.fault_proxy import FaultProxy, drop_reply
from tests.support.human_kill_matrix import PHASES, SELECTION
from tests.support.human_steps import WaitingStep, prices, start
from tests.support.kill_matrix import KillPhase
from tests.support.operator import MAIN, OperatorHarness
from tests.support.waiting import eventually

from perago.attempt import person
from perago.cli import _human
from perago.errors import StaleAttemptError
from perago.model import BranchName, CommitId
from perago.operate.human_tasks import answering, checkout, waiting
from perago.protocol import staging_names
from perago.protocol.decision import UnlabelledHead

SELECTED = [phase for phase in PHASES if phase.name in SELECTION]
BY_NAME = {phase.name: phase for phase in PHASES}


def check(step: WaitingStep, base: CommitId, content: bytes) -> None:
    head = step.harness.head()
    step.require_completed(head.id)
    assert head.parents == (base,)
    (info,) = step.harness.server.lake.objects(step.harness.repository, MAIN, "prices/a.csv").objects
    ((_, data),) = step.harness.server.lake.read_small(step.harness.repository, MAIN, [info])
    assert data == content


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "phases", [pytest.param(SELECTED, id="selection"), pytest.param(PHASES, id="all", marks=pytest.mark.chaos)]
)
def test_it_is_run_again(harness: OperatorHarness, phases: Sequence[KillPhase]) -> None:
    base = prices(harness)
    for phase in phases:
        step = start(harness, ref=base)
        folder = step.checkout()
        (folder / "a.csv").write_bytes(phase.name.encode())
        with human_kill_matrix.killed(step, folder, phase):
            (folder / "more.csv").write_bytes(b"more")
            said = step.publish(folder)
            if phase.name in {"after the completion", "before the end of the staging branch"}:
                assert f"task {step.task} is over: it is COMPLETED by alice with commit {harness.head().id}" in said.err
                for left in harness.staging_branches():
                    harness.server.lake.delete_branch(harness.repository, BranchName(left))  # as perago gc does
            else:
                assert said.code == 0, f"{phase.name}: {said.err}"
            check(step, base, phase.name.encode())
        late = harness.staging_branches()
        assert len(late) == (phase is BY_NAME["before the staging branch"]), phase.name
        for left in late:
            harness.server.lake.delete_branch(harness.repository, BranchName(left))
        check(step, base, phase.name.encode())
        base = harness.head().id


@pytest.mark.parametrize("command", ["approve", "reject"])
def test_after_a_merge_without_a_report_another_answer_removes_the_commit(harness: OperatorHarness, command: str) -> None:
    base = prices(harness)
    step = start(harness)
    folder = step.checkout()
    (folder / "a.csv").write_bytes(b"10")
    options = ["--result", '{"approved": true}'] if command == "approve" else ["--reason", "no"]
    with (
        human_kill_matrix.killed(step, folder, BY_NAME["after the merge"]),
        mock.patch.object(answering, "LONGEST", 0.2),
        mock.patch.object(person, "REPORT_SECONDS", 0.1),
        mock.patch.object(person, "_MARGIN_SECONDS", 0.1),
    ):
        published = harness.head().id
        assert published != base
        # Of two that begin in the same second, either may go first.
        (name,) = (staging_names.parse(BranchName(one)) for one in harness.staging_branches())
        began = 0 if name is None else name.made_at or 0
        eventually(lambda: time.time() >= began + 1, within=5, what="the next second")
        said = step.perago(command, step.task, *options)
        assert said.code == 1
        assert "another publication of this task began at" in said.err
        assert "--take-over if its process was killed" in said.err
        assert step.status == "IN_PROGRESS"
        said = step.perago(command, step.task, *options, "--take-over")
        assert said.code == 0, said.err
        assert harness.head().id == base
        assert harness.staging_branches() == []
    assert step.status == ("COMPLETED" if command == "approve" else "FAILED_WITH_TERMINAL_ERROR")
    assert harness.head().id == base


def test_a_completion_whose_reply_is_lost_is_read_back(harness: OperatorHarness) -> None:
    base = prices(harness)
    step = start(harness)
    folder = step.checkout()
    (folder / "a.csv").write_bytes(b"10")
    with FaultProxy(harness.stack.conductor_url) as conductor:
        conductor.on(human_kill_matrix.TASK_UPDATE, drop_reply())
        harness.environment["CONDUCTOR_SERVER_URL"] = conductor.url
        said = step.publish(folder)
        del harness.environment["CONDUCTOR_SERVER_URL"]
    assert said.code == 0, said.err
    check(step, base, b"10")


def answer(step: WaitingStep, name: str) -> str:
    """Publish from a folder of its own; the commit, or empty if it was told that the task is over."""
    found = checkout.open_folder(step.harness.folder / name)
    with step.harness.connected() as both, found.lock:
        task = waiting.find(both.workflows, step.task)
        someone = answering.new_person(name, take_over=False, checkout=found)
        given = answering.Answer({"approved": True, "note": name})
        try:
            outcome = answering.Answering(both, task, someone, given, UnlabelledHead.REPLACE, found).run()
        except StaleAttemptError:
            return ""
    return str(_human.commit_of(outcome))


class PausedClock:
    """A clock that stops its caller once, at the given call, until it is released."""

    def __init__(self, at: int) -> None:
        self._left = at
        self.reached, self.released = threading.Event(), threading.Event()

    def __call__(self) -> float:
        self._left -= 1
        if self._left == 0:
            self.reached.set()
            assert self.released.wait(60)
        return time.monotonic()


@pytest.mark.parametrize("sees_its_branch", [False, True])
def test_one_that_is_taken_over_before_its_report_sends_none_and_one_that_was_about_to_is_waited_for(
    harness: OperatorHarness,
    sees_its_branch: bool,
) -> None:
    """The first person pauses after the merge: before the look at its staging branch, or between that and the report."""
    base = prices(harness)
    step = start(harness)
    folders = [step.checkout(name) for name in ("alice", "bob")]
    for folder in folders:
        (folder / "a.csv").write_text(folder.name)
    clock = PausedClock(2 if sees_its_branch else 1)
    with harness.connected() as both, ThreadPoolExecutor(1) as pool:
        task = waiting.find(both.workflows, step.task)

        def publish(folder: Path, someone: person.Person, at: Callable[[], float]) -> str:
            found = checkout.open_folder(folder)
            given = answering.Answer({"approved": True})
            with found.lock:
                outcome = answering.Answering(both, task, someone, given, UnlabelledHead.REPLACE, found, clock=at).run()
            return str(_human.commit_of(outcome))

        first = pool.submit(publish, folders[0], person.Person("alice"), clock)
        assert clock.reached.wait(60)
        assert harness.head().id != base

        def wait(seconds: float) -> None:
            """The pause in which a report that was about to be sent arrives."""
            assert seconds == 15
            if sees_its_branch:
                clock.released.set()
                first.result(60)

        second = person.Person("bob", take_over=True, sleep=wait)
        if sees_its_branch:
            with pytest.raises(StaleAttemptError, match="status is COMPLETED"):
                publish(folders[1], second, time.monotonic)
            step.require_completed(CommitId(first.result()), "alice")
        else:
            commit = publish(folders[1], second, time.monotonic)
            clock.released.set()
            with pytest.raises(StaleAttemptError, match="took this one's right"):
                first.result(60)
            step.require_completed(CommitId(commit), "bob")
    assert harness.head().parents == (base,)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("rounds", [3, pytest.param(40, marks=pytest.mark.chaos)])
def test_of_two_people_who_publish_at_once_one_wins_and_the_other_is_told(harness: OperatorHarness, rounds: int) -> None:
    base = prices(harness)
    for number in range(rounds):
        step = start(harness, ref=base)
        names = [f"{who}-{number}" for who in ("alice", "bob")]
        for name in names:
            folder = step.checkout(name)
            (folder / "a.csv").write_text(name)
        with (
            mock.patch.object(person, "REPORT_SECONDS", 1.0),
            mock.patch.object(person, "_MARGIN_SECONDS", 1.0),
            ThreadPoolExecutor(2) as pool,
        ):
            commits = [*pool.map(answer, [step, step], names)]
        winners = [(name, commit) for name, commit in zip(names, commits, strict=True) if commit]
        assert len(winners) == 1, winners
        step.require_completed(CommitId(winners[0][1]), winners[0][0])
        for name in names:
            assert (harness.folder / name / "a.csv").read_text() == name
        base = harness.head().id
