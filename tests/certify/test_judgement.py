"""How a history is judged, and how the results are shown, without servers."""

import json
from collections.abc import Sequence
from typing import Any, cast

import pytest

from perago.certify.scenarios import outcomes
from perago.certify.scene import Run, Scene
from perago.certify.verdict import Broken, Result, Verdict
from perago.cli import certify as command

BASE = "a" * 64


class JudgedScene:
    """The history of a branch after its input, and how many objects of executions the head has."""

    base = BASE

    def __init__(self, history: Sequence[str], written: int = 1) -> None:
        self._history, self._written = list(history), written

    def history(self) -> list[str]:
        return self._history

    def written(self) -> int:
        return self._written

    def describe(self) -> str:
        return " → ".join(self._history)


class JudgedRun:
    def __init__(self, accepted: Sequence[str], status: str = "COMPLETED") -> None:
        self._accepted, self._status = list(accepted), status

    def ended(self) -> str:
        return self._status

    def accepted(self) -> list[str]:
        return self._accepted

    def outcome(self) -> str:
        return "attempts: FAILED"


def judge(scene: JudgedScene, run: JudgedRun) -> str:
    return outcomes.require_only_accepted(cast("Scene", scene), cast("Run", run))


def test_accepted_commit_alone_on_its_input_holds() -> None:
    assert judge(JudgedScene(["c"]), JudgedRun(["c"])) == "c"


@pytest.mark.parametrize(
    ("history", "written", "accepted", "status", "evidence"),
    [
        (["h", "c"], 1, ["c"], "COMPLETED", "the accepted commit is not directly on its input"),
        (["c", "h"], 1, ["c"], "COMPLETED", "a commit that was not accepted is on the accepted one"),
        (["h"], 1, ["c"], "COMPLETED", "the accepted commit is gone"),
        ([], 0, ["c"], "COMPLETED", "the accepted commit is gone"),
        ([], 0, [BASE], "COMPLETED", "its output names the input"),
        (["c"], 1, [], "COMPLETED", "names no commit in workspace.ref"),
        (["c"], 2, ["c"], "COMPLETED", "the head has the objects of 2 executions"),
        (["c"], 0, ["c"], "COMPLETED", "the head has the objects of 0 executions"),
        (["c"], -1, ["c"], "COMPLETED", "an object of the input is gone"),
        (["h"], 1, [], "FAILED", "the workflow ended with FAILED, and no attempt was accepted; attempts: FAILED"),
    ],
)
def test_everything_else_is_broken(history: list[str], written: int, accepted: list[str], status: str, evidence: str) -> None:
    with pytest.raises(Broken) as broken:
        judge(JudgedScene(history, written), JudgedRun(accepted, status))
    assert evidence in str(broken.value)


def test_refusal_is_a_run_without_an_accepted_result() -> None:
    scene = cast("Scene", JudgedScene(["c"]))
    outcomes.require_refused(scene, cast("Run", JudgedRun([], "FAILED")))
    with pytest.raises(Broken, match="not refused; it was accepted with no commit"):
        outcomes.require_refused(scene, cast("Run", JudgedRun([])))
    with pytest.raises(Broken, match="the branch was moved"):
        outcomes.require_untouched(scene)


RESULTS = [
    Result("plain-publication", "One task.", Verdict.HELD, "history: a → c", 1.25),
    Result("lost-reply", "A reply is lost.", Verdict.BROKEN, "two commits\x1b[31m", 2.0),
    Result("double-publish", "Two at once.", Verdict.NOT_REACHED, "no request", 60.0),
]


def test_results_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    command._show(RESULTS)
    assert capsys.readouterr().out.splitlines() == [
        "held: plain-publication: One task.",
        "  history: a → c",
        "broken: lost-reply: A reply is lost.",
        r"  two commits\x1b[31m",
        "not reached: double-publish: Two at once.",
        "  no request",
        "1 held, 1 broken, 1 not reached",
    ]


def test_results_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    command._show(RESULTS)
    shown = capsys.readouterr().out
    assert "what was tried, and what was seen" in shown
    assert "\x1b[31mgarbage" not in shown


def test_results_as_json() -> None:
    document: Any = json.loads(json.dumps(command._document("cmd", "task", RESULTS)))
    assert document["all_held"] is False
    assert document["scenarios"][1] == {
        "scenario": "lost-reply",
        "tried": "A reply is lost.",
        "verdict": "broken",
        "evidence": "two commits\x1b[31m",
        "seconds": 2.0,
    }
