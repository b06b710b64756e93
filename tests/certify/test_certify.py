"""`perago certify` on real servers: Perago's own worker, one without the protocol, and commands that are no workers."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.conductor_sites import RealConductorSite

from perago.certify import catalog
from perago.dev.stack import Endpoints
from perago.model import LakeAccess, TaskType
from perago.operate import servers
from perago.settings import ConductorAccess

ROOT = Path(__file__).parents[2]
OWN = "perago start perago.certify.task"
WORKERS = ROOT / "tests" / "support" / "workers"
NAIVE = f"{sys.executable} {WORKERS / 'naive.py'}"
SECONDS = 300.0
"""A certification takes less, also on a busy machine."""
pytestmark = pytest.mark.timeout(SECONDS + 60)


@dataclass(frozen=True)
class Finished:
    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Kit:
    """`perago certify` on the servers of the run, with a task type of its own."""

    stack: Endpoints
    folder: Path
    task_type: str

    def start(self, worker: str, *options: str) -> "subprocess.Popen[str]":
        line = ["certify", "--worker", worker, "--task", self.task_type, "--configured-servers", *options]
        own = ("PERAGO_", "LAKECTL_", "CONDUCTOR_")
        environ = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        return subprocess.Popen(
            [sys.executable, "-c", "from perago.cli.main import main; main()", *line],
            cwd=self.folder,
            env={**environ, **self.stack.environment()},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, worker: str, *options: str) -> "Finished":
        with self.start(worker, *options) as process:
            stdout, stderr = process.communicate(timeout=SECONDS)
            return Finished(process.returncode, stdout, stderr)

    def verdicts(self, worker: str, *options: str) -> tuple[int, Mapping[str, Any]]:
        """The exit code, and the scenarios by name."""
        done = self.run(worker, "--json", *options)
        assert done.stdout, done.stderr
        document = json.loads(done.stdout)
        assert document["all_held"] is (done.returncode == 0)
        return done.returncode, {one["scenario"]: one for one in document["scenarios"]}


@pytest.fixture
def kit(stack: Endpoints, tmp_path: Path, fresh_name: Any) -> Iterator[Kit]:
    kit = Kit(stack, tmp_path, fresh_name())
    yield kit
    require_nothing_left(kit)


def require_nothing_left(kit: Kit) -> None:
    """Neither repositories, nor task definitions, nor workflows; processes are looked for at the end of every run."""
    keys = LakeAccess(kit.stack.lakefs_url, kit.stack.access_key_id, kit.stack.secret_access_key)
    with servers.connect(keys, ConductorAccess(kit.stack.conductor_url)) as both:
        assert both.conductor.task_definition(TaskType(kit.task_type)) is None
        listed = both.settings._api.get_json("test", "list", "/repositories?amount=1000&prefix=certify-", lambda reply: reply)
        # No other test makes repositories of these names, and the tests of this file run one after another.
        assert [one["id"] for one in listed["results"]] == []


def broken(verdicts: Mapping[str, Any]) -> set[str]:
    return {name for name, one in verdicts.items() if one["verdict"] == "broken"}


def by_verdict(verdicts: Mapping[str, Any], word: str) -> dict[str, str]:
    return {name: one["evidence"] for name, one in verdicts.items() if one["verdict"] == word}


def test_own_worker_holds_in_every_scenario(kit: Kit) -> None:
    code, verdicts = kit.verdicts(OWN)
    assert by_verdict(verdicts, "broken") | by_verdict(verdicts, "not reached") == {}
    assert list(verdicts) == catalog.names()
    assert code == 0


def test_worker_that_publishes_by_hand_is_found_out(kit: Kit) -> None:
    logs = kit.folder / "logs"
    code, verdicts = kit.verdicts(NAIVE, "--log-dir", str(logs))
    assert code == 1
    assert {path.name for path in logs.iterdir()} >= {"first-1.log", "pair-1.log", "pair-2.log", "killed-1.log", "killed-2.log"}
    assert by_verdict(verdicts, "not reached") == {}
    assert broken(verdicts) >= {
        "labels",
        "stale-publish",
        "double-publish",
        "lost-reply",
        "late-request",
        "paused-worker",
        "killed-after-publish",
        "leftover-branches",
    }
    assert by_verdict(verdicts, "held").keys() >= {"plain-publication", "no-change", "killed-before-publish"}
    assert "was not refused" in verdicts["stale-publish"]["evidence"]


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("rule", "scenario"),
    [
        ("verify-abandoned", "stale-publish"),
        ("revoke", "late-request"),
        ("verify", "commit-by-hand"),
        ("restore", "late-report-after-rerun"),
        ("clean-up", "leftover-branches"),
    ],
)
def test_own_worker_without_one_rule_is_found_out(kit: Kit, rule: str, scenario: str) -> None:
    """Each rule is needed, and the kit notices where it is missing."""
    worker = f"env PYTHONPATH={WORKERS / 'without_a_rule'} WITHOUT_RULE={rule} {OWN}"
    code, verdicts = kit.verdicts(worker, "--only", scenario)
    assert (code, {name: one["verdict"] for name, one in verdicts.items()}) == (1, {scenario: "broken"}), verdicts


@pytest.mark.parametrize(
    ("worker", "said"),
    [
        (
            "sh -c 'echo no such module; exit 3'",
            "the worker ended with exit code 3 before it was stopped; its last output: no such module",
        ),
        ("sleep 100", "the worker did not poll Conductor"),
        (r"printf '\377\0\033[31mgarbage'", "its last output: "),
    ],
    ids=["exits", "never polls", "garbage"],
)
def test_command_that_is_no_worker_is_one_line(kit: Kit, worker: str, said: str) -> None:
    done = kit.run(worker, "--time-limit", "4s")
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert line.isprintable()
    assert said in line


def test_task_type_that_is_in_use_is_refused(kit: Kit) -> None:
    site = RealConductorSite(kit.stack.conductor_url)
    taken = site.task_type()
    try:
        done = Kit(kit.stack, kit.folder, taken).run(OWN)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.splitlines() == [
            f"error: Conductor has a task definition {taken} already; choose another name with --task [PG-100]"
        ]
        assert site.client.task_definition(taken) is not None
    finally:
        site.call("DELETE", f"/metadata/taskdefs/{taken}")
        site.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_leaves_nothing(kit: Kit, number: signal.Signals) -> None:
    with kit.start(NAIVE) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("held: plain-publication")
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (130, "")
    assert "Traceback" not in stderr
