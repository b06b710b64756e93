"""Hand-written histories of one branch through the real checker: which of them are an append-only list."""

import json
import random
import subprocess
from pathlib import Path

import pytest
from bench import _linearizability as lin
from bench._linearizability import History, Publish, Read, UnusableHistory

pytestmark = pytest.mark.server
"""The checker is a Go program that is built once and then taken from the cache."""


def publish(name: str, given: str, made: str, called: int, returned: int | None) -> Publish:
    return Publish(name, given, made, called, returned)


def history(*operations: Publish, read: list[str], at: int = 100) -> History:
    return History("a", [*operations, Read("final", read, at, at + 1)])


LEGAL = {
    "nothing happened": history(read=["a"]),
    "one after the other": history(
        publish("w1", "a", "m1", 1, 2),
        publish("w2", "m1", "m2", 3, 4),
        publish("w3", "m2", "m3", 5, 6),
        read=["a", "m1", "m2", "m3"],
    ),
    "at the same time, in the order that the inputs say": history(
        publish("w2", "m1", "m2", 1, 9), publish("w1", "a", "m1", 1, 9), read=["a", "m1", "m2"]
    ),
    "a step returns in the millisecond in which the next is called": history(
        publish("w2", "m1", "m2", 2, 3), publish("w1", "a", "m1", 1, 2), read=["a", "m1", "m2"]
    ),
    "no change on the head": history(publish("w1", "a", "m1", 1, 2), publish("w2", "m1", "m1", 3, 4), read=["a", "m1"]),
    "no change on an input that another step replaced as head in the same interval": history(
        publish("w1", "a", "m1", 1, 9), publish("w2", "a", "a", 2, 8), read=["a", "m1"]
    ),
    "not accepted, and the head at the end": history(
        publish("w1", "a", "m1", 1, 2), publish("w2", "m1", "m2", 3, None), read=["a", "m1", "m2"]
    ),
    "not accepted, and replaced by the retry": history(
        publish("w1", "a", "m1", 1, None), publish("w1 retry", "a", "m2", 5, 6), read=["a", "m2"]
    ),
    "not accepted, and it never happened": history(publish("w1", "a", "m1", 1, None), read=["a"]),
    "not accepted, and another step was given it as input": history(
        publish("w1", "a", "m1", 1, None), publish("w2", "m1", "m2", 3, 4), read=["a", "m1", "m2"]
    ),
}

ILLEGAL = {
    "two accepted on one input, one of them lost": (
        history(publish("w1", "a", "m1", 1, 5), publish("w2", "a", "m2", 6, 9), read=["a", "m2"]),
        "its input is in the list, but not the last commit",
    ),
    "two accepted at the same time on one input": (
        history(publish("w1", "a", "m1", 1, 9), publish("w2", "a", "m2", 1, 9), read=["a", "m1"]),
        "its input is in the list, but not the last commit",
    ),
    "a step without a change moved the branch back over an accepted commit": (
        history(publish("w1", "a", "m1", 1, 2), publish("w2", "a", "a", 3, 4), read=["a"]),
        "its input is in the list, but not the last commit",
    ),
    "no change accepted on an outdated input, nothing lost": (
        history(publish("w1", "a", "m1", 1, 2), publish("w2", "a", "a", 3, 4), read=["a", "m1"]),
        "its input is in the list, but not the last commit",
    ),
    "an accepted commit is missing at the end": (
        history(publish("w1", "a", "m1", 1, 2), read=["a"]),
        "the list has 2 commits",
    ),
    "a commit in the history that no operation made": (
        history(publish("w1", "a", "m1", 1, 2), read=["a", "x", "m1"]),
        "at position 1 the list has m1 and the read shows x",
    ),
    "an accepted commit not directly on its input": (
        history(publish("w1", "a", "m1", 1, 9), publish("w2", "a", "m2", 1, None), read=["a", "m2", "m1"]),
        "at position 1 the list has m1 and the read shows m2",
    ),
    "an unaccepted commit stays below the retry's": (
        history(publish("w1", "a", "m1", 1, None), publish("w1 retry", "a", "m2", 5, 6), read=["a", "m1", "m2"]),
        "at position 1 the list has m2 and the read shows m1",
    ),
    "accepted before its input existed": (
        history(publish("w2", "m1", "m2", 1, 2), publish("w1", "a", "m1", 3, 4), read=["a", "m1", "m2"]),
        "its input is not in the list",
    ),
    "an unaccepted commit that appears before its attempt began": (
        history(publish("w1", "m2", "m1", 1, 4), publish("w2", "a", "m2", 5, None), read=["a", "m2", "m1"]),
        "its input is not in the list",
    ),
}


@pytest.mark.parametrize("given", LEGAL.values(), ids=LEGAL.keys())
def test_a_legal_history_is_linearizable(given: History) -> None:
    verdict = lin.check(given)
    assert (verdict.verdict, verdict.explanation) == ("linearizable", [])
    assert verdict.placed == verdict.operations == len(given.operations)
    assert verdict.missing == []


@pytest.mark.parametrize(("given", "why"), ILLEGAL.values(), ids=ILLEGAL.keys())
def test_an_illegal_history_is_found_and_explained(given: History, why: str) -> None:
    verdict = lin.check(given)
    assert verdict.verdict == "illegal"
    assert verdict.placed < verdict.operations
    assert any(why in line for line in verdict.explanation), verdict.explanation


def test_lost_and_unaccepted_commits_are_named() -> None:
    given = history(
        publish("w1", "a", "m1", 1, 5),
        publish("w2", "a", "m2", 6, 9),
        publish("w3", "m2", "m3", 10, None),
        read=["a", "m2", "m3"],
    )
    verdict = lin.check(given)
    assert verdict.missing == ["m1"]
    assert verdict.unaccepted == ["m3"]


def chain(length: int) -> list[Publish]:
    """Each step starts before the previous one ends; every fifth step has a concurrent one without a change."""
    made = [publish(f"w{n}", f"m{n}" if n else "a", f"m{n + 1}", 10 * n, 10 * n + 15) for n in range(length)]
    idle = [publish(f"i{n}", f"m{n}", f"m{n}", 10 * n - 6, 10 * n + 12) for n in range(5, length, 5)]
    return [*made, *idle]


def test_a_long_history_in_any_order_of_records_takes_seconds() -> None:
    operations = chain(1500)
    random.Random(7).shuffle(operations)
    read = ["a", *(f"m{n + 1}" for n in range(1500))]
    verdict = lin.check(history(*operations, read=read, at=20_000))
    assert verdict.verdict == "linearizable"
    assert verdict.seconds < 20


def test_one_lost_commit_is_found_in_a_long_history() -> None:
    operations = [*chain(1500), publish("lost", "m700", "x", 7000, 7040)]
    read = ["a", *(f"m{n + 1}" for n in range(1500))]
    verdict = lin.check(history(*operations, read=read, at=20_000))
    assert (verdict.verdict, verdict.missing) == ("illegal", ["x"])
    assert any("lost" in line for line in verdict.explanation)


def test_the_drawing_is_written(tmp_path: Path) -> None:
    page = tmp_path / "history.html"
    given, _ = ILLEGAL["two accepted on one input, one of them lost"]
    assert lin.check(given, html=page).verdict == "illegal"
    assert "publish m2 on a" in page.read_text()


@pytest.mark.parametrize(
    "given",
    [
        History("", []),
        History("a", [publish("w1", "a", "m1", 5, 1)]),
        History("a", [publish("w1", "", "m1", 1, 2)]),
        History("a", [Read("final", [], 1, 2)]),
    ],
    ids=["no base", "returns before its call", "no input", "a read of nothing"],
)
def test_an_unusable_history_is_an_error_and_not_a_verdict(given: History) -> None:
    with pytest.raises(UnusableHistory):
        lin.check(given)


def test_a_flag_that_contradicts_the_commits_is_refused() -> None:
    given = History("a", [publish("w1", "a", "m1", 1, 2)]).as_json()
    text = json.dumps(given).replace('"noop": false', '"noop": true')
    done = subprocess.run([lin.program()], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "without a change" in done.stderr


def test_no_client_has_two_operations_at_once() -> None:
    given = history(
        publish("w1", "a", "m1", 1, 9), publish("w2", "a", "a", 2, 3), publish("w3", "a", "a", 4, 5), read=["a", "m1"]
    )
    clients = [one["client"] for one in given.as_json()["operations"]]  # pyright: ignore[reportGeneralTypeIssues]
    assert clients == [0, 1, 1, 0]
