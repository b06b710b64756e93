"""A repository and workflows on the real servers in the states that operators encounter, and the commands for them."""

import contextlib
import io
import json
import os
import pty
import secrets
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from tests.support.attempts import LakeFSAdmin
from tests.support.conductor_sites import RealConductorSite, take

from perago.attempt import transaction
from perago.attempt.execution import Execution
from perago.cli import main
from perago.conductor.direct_fence import DirectFence
from perago.conductor.port import Polled
from perago.dev.stack import Endpoints
from perago.model import BranchName, Commit, CommitId, LakeAccess, Outcome, Repository, TaskType, WorkflowId, WorkspaceRef
from perago.operate import servers
from perago.operate.protocol_check.dict_task import DictTask, DictWorkspace, Files, upload, workspace_input
from perago.operate.protocol_check.scene import ref_of, writes
from perago.operate.servers import Servers
from perago.protocol import staging_names
from perago.settings import ConductorAccess

MAIN = BranchName("main")


@dataclass(frozen=True, slots=True)
class CommandResult:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class Published:
    """A commit on the branch, and the attempt that put it there."""

    commit: CommitId
    polled: Polled
    outcome: Outcome


@dataclass
class OperatorHarness:
    """One repository; `perago` runs a command in this process with the settings of the stack."""

    stack: Endpoints
    folder: Path
    repository: Repository
    server: LakeFSAdmin
    real: RealConductorSite
    environment: dict[str, str] = field(default_factory=dict[str, str])
    task_type: TaskType = field(init=False)

    def __post_init__(self) -> None:
        self.task_type = self.real.task_type(retryCount=0)

    @property
    def target(self) -> str:
        return f"{self.repository}/{MAIN}"

    # commands

    def perago(self, *arguments: str) -> CommandResult:
        out, err = io.StringIO(), io.StringIO()
        environment = {**self.stack.environment(), **self.environment}
        with (
            mock.patch.dict("os.environ", environment),
            mock.patch("sys.argv", ["perago", *arguments]),
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                main.main()
            except SystemExit as ended:
                code = int(ended.code or 0)
            else:
                code = 0
        return CommandResult(code, out.getvalue(), err.getvalue())

    def connected(self) -> contextlib.AbstractContextManager[Servers]:
        """The clients of the commands, for tests that call what a command calls."""
        stack = self.stack
        access = LakeAccess(stack.lakefs_url, stack.access_key_id, stack.secret_access_key)
        return servers.connect(access, ConductorAccess(stack.conductor_url))

    def perago_on_a_terminal(self, answer: str, *arguments: str) -> CommandResult:
        """Run the command in a process of its own, with a terminal as its input on which `answer` is typed."""
        leader, follower = pty.openpty()
        try:
            process = subprocess.Popen(
                [sys.executable, "-c", "from perago.cli.main import main; main()", *arguments],
                env={**os.environ, **self.stack.environment()},
                cwd=self.folder,
                stdin=follower,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            os.write(leader, f"{answer}\n".encode())
            out, err = process.communicate(timeout=60)
        finally:
            os.close(leader)
            os.close(follower)
        return CommandResult(process.returncode, out, err)

    def doctor(self, target: str | None = None) -> dict[str, list[dict[str, Any]]]:
        """Findings whose level is not `ok`, by the name of the check."""
        said = self.perago("doctor", target or self.target, "--json")
        assert said.err == ""
        found = [one for one in said.json["findings"] if one["level"] != "ok"]
        assert said.code == (1 if any(one["level"] == "action" for one in found) else 0)
        assert said.json["needs_action"] == bool(said.code)
        return {check: [one for one in found if one["check"] == check] for check in {one["check"] for one in found}}

    def actions(self, target: str | None = None) -> dict[str, list[dict[str, Any]]]:
        found = self.doctor(target)
        needed = {check: [one for one in ones if one["level"] == "action"] for check, ones in found.items()}
        return {check: ones for check, ones in needed.items() if ones}

    # the branch

    def write(self, path: str, data: bytes = b"x", branch: BranchName = MAIN) -> None:
        upload(self.server.lake, self.repository, branch, path, data)

    def by_hand(self, path: str, data: bytes = b"x", branch: BranchName = MAIN) -> CommitId:
        self.write(path, data, branch)
        return self.server.lake.commit_branch(self.repository, branch, "by hand", {}).id

    def head(self) -> Commit:
        return self.server.lake.head(self.repository, MAIN)

    def staging_branches(self) -> list[str]:
        return [branch.name for branch in self.server.lake.branches(self.repository, "perago-")]

    # workflows

    def start(self, ref: CommitId, steps: int = 1) -> Polled:
        """Later steps take what the one before them left."""
        first = workspace_input(WorkspaceRef(self.repository, MAIN, ref))
        inputs: list[Mapping[str, Any]] = [first]
        inputs += [{"workspace": f"${{s{number}.output.workspace}}", "params": {}} for number in range(steps - 1)]
        tasks = [
            {"name": self.task_type, "taskReferenceName": f"s{number}", "type": "SIMPLE", "inputParameters": given}
            for number, given in enumerate(inputs)
        ]
        self.real.start_workflow(tasks)
        return self.poll()

    def poll(self) -> Polled:
        return take(self.real.conductor, self.task_type)

    def run(self, polled: Polled, files: Mapping[str, bytes | None] | None = None) -> Published:
        """An attempt that writes these files below `in/` and deletes those that are None, or else one file of its own."""
        execution = Execution(
            polled.attempt,
            staging_names.execution_id(time.time(), secrets.token_bytes(8)),
            edits(files) if files is not None else writes(f"data-{secrets.token_hex(4)}"),
            self.server.lake,
            DirectFence(self.real.conductor),
            lambda ref: DictWorkspace(self.server.lake, ref, "in/"),
        )
        outcome = transaction.run(execution, polled.input)
        return Published(ref_of(outcome), polled, outcome)

    def report(self, published: Published) -> None:
        self.real.conductor.report(published.polled.attempt, published.outcome, timeout=20)

    def accepted(self, ref: CommitId, files: Mapping[str, bytes | None] | None = None) -> Published:
        """A publication that Conductor accepted."""
        published = self.run(self.start(ref), files)
        self.report(published)
        return published

    def abandoned(self, ref: CommitId) -> Published:
        """A publication whose workflow was ended before it was reported."""
        published = self.run(self.start(ref))
        self.terminate(published.polled.attempt.workflow_id)
        return published

    def displaced(self, ref: CommitId) -> tuple[Published, Published]:
        """After a rerun Conductor took the report of the first execution, and the branch shows the second one's commit."""
        first = self.run(self.start(ref))
        attempt = first.polled.attempt
        self.terminate(attempt.workflow_id)
        self.real.rerun(attempt.workflow_id, attempt.task_id)
        second = self.run(self.poll())
        self.report(first)
        return first, second

    def terminate(self, workflow_id: WorkflowId) -> None:
        self.real.terminate(workflow_id)

    def staged(self, polled: Polled, *, first_edition: bool = False) -> BranchName:
        """The staging branch of an attempt."""
        name = staging_names.staging_branch(
            polled.attempt, staging_names.execution_id(time.time() - 100, secrets.token_bytes(8)), MAIN
        )
        if first_edition:
            rest = name.removeprefix(staging_names.target_prefix(MAIN))
            name = BranchName(f"{staging_names.PREFIX}{rest}_{staging_names.target_digest(MAIN)}")
        self.server.lake.create_branch(self.repository, name, self.head().id)
        return name


def edits(changes: Mapping[str, bytes | None]) -> DictTask:
    def body(files: Files) -> None:
        files.update({path: data for path, data in changes.items() if data is not None})
        for path in [path for path, data in changes.items() if data is None]:
            del files[path]

    return DictTask(body)


@contextlib.contextmanager
def open_harness(stack: Endpoints, folder: Path, name: str) -> Generator[OperatorHarness]:
    server, real = LakeFSAdmin(stack), RealConductorSite(stack.conductor_url)
    server.request("POST", "/repositories", {"name": name, "storage_namespace": f"local://{name}"})
    try:
        yield OperatorHarness(stack, folder, Repository(name), server, real)
    finally:
        server.remove(name)
        server.close()
        real.close()
