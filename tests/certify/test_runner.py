"""The run of all scenarios, with scenarios and servers of the test: order, verdicts, stop and clean-up."""

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self, cast

import pytest

from perago.certify import catalog, contract, runner
from perago.certify.catalog import Group, Scenario
from perago.certify.runner import Certification
from perago.certify.verdict import Broken, NotReached, Result, Verdict
from perago.certify.waiting import Patience
from perago.certify.worker_process import WorkerCommand
from perago.errors import LakeUnavailable, SetupError
from perago.model import LakeAccess
from perago.operate.servers import Servers
from perago.settings import ConductorAccess


class FakeServers:
    """One task definition; it is both clients that the run uses."""

    def __init__(self, definition: Mapping[str, Any] | None = None) -> None:
        self.definition = definition
        self.conductor = self.workflows = self.api = self

    def task_definition(self, _name: str) -> Mapping[str, Any] | None:
        return self.definition

    def put_task_definition(self, definition: Mapping[str, Any]) -> None:
        self.definition = definition

    def write(self, method: str, path: str) -> None:
        assert (method, path) == ("DELETE", "/metadata/taskdefs/t")
        self.definition = None


class FakeTeam:
    opened: list[Self]
    fails = False

    def __init__(self, *_: object) -> None:
        self.closed = False
        self.opened.append(self)

    def ensure(self, _count: int) -> None:
        if self.fails:
            raise SetupError("the worker did not poll")

    def end_faults(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


class FakeScene:
    left: list[str]

    def __init__(self, *_: object) -> None:
        pass

    def open(self, namespace: str) -> None:
        assert namespace == "s3://bucket"

    def leftovers(self) -> list[str]:
        return self.left

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    FakeTeam.opened, FakeTeam.fails, FakeScene.left = [], False, []
    monkeypatch.setattr(runner, "Team", FakeTeam)
    monkeypatch.setattr(runner, "Scene", FakeScene)
    yield
    assert all(team.closed for team in FakeTeam.opened)


def scenario(name: str, does: Callable[[], str]) -> Scenario:
    return Scenario(name, f"{name} is tried.", lambda _scene: does())


def raises(error: Exception) -> Callable[[], str]:
    def does() -> str:
        raise error

    return does


def prepare(monkeypatch: pytest.MonkeyPatch, first: Callable[[], str], *others: tuple[str, Callable[[], str]]) -> FakeServers:
    """The first scenario, and each other one in a group of its own."""
    monkeypatch.setattr(catalog, "FIRST", scenario("first", first))
    monkeypatch.setattr(catalog, "GROUPS", tuple(Group(name, 1, (scenario(name, does),)) for name, does in others))
    return FakeServers()


def certification(servers: FakeServers, *only: str, patience: Patience | None = None) -> Certification:
    access = ConductorAccess("http://127.0.0.1:1/api"), LakeAccess("http://127.0.0.1:1", "k", "s")
    command = WorkerCommand(["true"], "t", *access, Path(), Path())
    return Certification(cast("Servers", servers), command, patience or Patience(60), only, "s3://bucket")


def run(servers: FakeServers, *only: str, patience: Patience | None = None) -> dict[str, Result]:
    def tick(_seconds: float) -> None:
        threading.Event().wait(0.01)

    return {result.name: result for result in certification(servers, *only, patience=patience).run(tick)}


def test_each_scenario_has_its_verdict_and_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = prepare(
        monkeypatch,
        lambda: "fine",
        ("good", lambda: "seen"),
        ("bad", raises(Broken("two commits"))),
        ("never", raises(NotReached("no request"))),
        ("offline", raises(LakeUnavailable("no lakeFS"))),
    )
    FakeScene.left = ["work-1"]
    found = run(servers)
    assert {name: (one.verdict.value, one.evidence) for name, one in found.items()} == {
        "first": ("held", "fine"),
        "good": ("held", "seen"),
        "bad": ("broken", "two commits"),
        "never": ("not reached", "no request"),
        "offline": ("not reached", "no lakeFS"),
        "leftover-branches": ("broken", found["leftover-branches"].evidence),
    }
    assert "after bad: work-1" in found["leftover-branches"].evidence
    assert servers.definition is None


def test_worker_that_fails_the_first_scenario_is_not_tried_further(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = prepare(monkeypatch, raises(NotReached("no end")), ("other", lambda: pytest.fail("it ran")))
    found = run(servers)
    assert {name: one.verdict for name, one in found.items()} == dict.fromkeys(
        ("first", "other", "leftover-branches"), Verdict.NOT_REACHED
    )
    assert found["other"].evidence == "the worker did not get through first"


def test_worker_that_does_not_start_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = prepare(monkeypatch, lambda: "fine")
    FakeTeam.fails = True
    with pytest.raises(SetupError, match="the worker did not poll"):
        run(servers)
    assert servers.definition is None


def test_only_the_named_scenarios_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = prepare(monkeypatch, lambda: "fine", ("one", lambda: "1"), ("two", lambda: pytest.fail("it ran")))
    assert list(run(servers, "one")) == ["one"]
    servers = prepare(monkeypatch, lambda: "fine", ("one", lambda: "1"), ("two", lambda: "2"))
    assert run(servers, "leftover-branches")["leftover-branches"].evidence == "3 repositories looked at"


def test_task_type_of_another_owner_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(monkeypatch, lambda: "fine", ("one", lambda: "1"))
    servers = FakeServers({"name": "t", "ownerEmail": "team@example.com"})
    with pytest.raises(SetupError, match="choose another name with --task"):
        run(servers)
    assert servers.definition is not None
    assert run(FakeServers(contract.task_definition("t")))["first"].verdict is Verdict.HELD


def test_nothing_begins_after_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = prepare(monkeypatch, lambda: pytest.fail("it ran"))
    assert run(servers, patience=Patience(0))["first"].evidence == "the time limit of the run was over"


def test_stop_ends_the_scenarios_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    patience, waits = Patience(60), threading.Event()

    def wait() -> str:
        waits.set()
        patience.until(lambda: False, "what never comes")
        return ""

    servers = prepare(monkeypatch, lambda: "fine", ("one", wait), ("two", wait))

    def stop(_seconds: float) -> None:
        if waits.is_set():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(certification(servers, patience=patience).run(stop))
    assert servers.definition is None
