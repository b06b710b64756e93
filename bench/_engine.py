"""The workspace engine in a separate process, as in an executor: reads one JSON command per line, answers with its duration.

Time is measured here, around the calls of the engine: an executor keeps running between tasks, so its start is not measured.
"""

import json
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perago.http.request import HttpTimeouts
from perago.lake import client
from perago.model import (
    Attempt,
    BranchName,
    CommitId,
    ExecutionId,
    Repository,
    TaskId,
    TaskType,
    WorkerId,
    WorkflowId,
    WorkspaceRef,
)
from perago.workspace import local_workspace, options

Command = dict[str, Any]
Answer = dict[str, Any]


class Engine:
    def __init__(self, setup: Command) -> None:
        self._lake = client.LakeFS(setup["url"], setup["key"], setup["secret"], timeouts=HttpTimeouts(connect=10, request=120))
        self._repository = Repository(setup["repository"])
        self._root = Path(setup["root"])
        self._made = 0
        self._workspace: local_workspace.LocalWorkspace | None = None
        self._commit = CommitId("")
        self._lake.capabilities()

    def open(self, command: Command) -> Answer:
        """Open a workspace. `cache` names the content cache: a new name is cold, a used one warm.

        Workspaces are not removed: for a minute after a removal ext4 does not reuse the inodes of the removed files, but searches
        through them, so that files which are created in this time take longer.
        """
        self._made += 1
        self._commit = CommitId(command["ref"])
        settings = options.WorkspaceOptions(self._root, self._root / command["cache"], **command.get("options", {}))
        attempt = Attempt(WorkflowId("w"), TaskId("bench"), 0, "r", 1, 0, TaskType("t"), WorkerId("x"), 0, 0)
        ref = WorkspaceRef(self._repository, BranchName("main"), self._commit)
        execution = ExecutionId(f"{os.getpid()}x{self._made}")
        workspace = local_workspace.LocalWorkspace(self._lake, ref, "data", attempt, execution, settings)
        took = _seconds(workspace.open)
        self._workspace = workspace
        return {"seconds": took, "work": str(workspace.argument())}

    def diff(self, _: Command) -> Answer:
        workspace = self._opened()
        took = _seconds(workspace.changed)
        return {"seconds": took}

    def stage(self, command: Command) -> Answer:
        """Diff, create a branch, transfer and commit, as `lakectl local commit` does."""
        workspace, branch = self._opened(), BranchName(command["branch"])
        made: list[str] = []

        def stage() -> None:
            workspace.changed()
            self._lake.create_branch(self._repository, branch, self._commit)
            workspace.fill(branch)
            made.append(self._lake.commit_branch(self._repository, branch, "staged", {}).id)

        return {"seconds": _seconds(stage), "commit": made[0]}

    def change(self, command: Command) -> Answer:
        """Edit (without a change of size) or delete the first `count` files; -1 stands for all."""
        change(Path(self._opened().argument()), command["kind"], command["count"])
        return {}

    def fill(self, command: Command) -> Answer:
        """Create the files of a case under the prefix."""
        root, random_bytes = Path(self._opened().argument()), random.Random(1)
        for n in range(command["files"]):
            path = root / f"{n % 100:02}" / f"{n:06}.bin"
            path.parent.mkdir(exist_ok=True)
            with path.open("wb") as file:
                left = command["size"]
                while left:
                    block = random_bytes.randbytes(min(left, 1 << 20))
                    file.write(block)
                    left -= len(block)
        return {}

    def verified(self, _: Command) -> Answer:
        """Wait until all files are verified; the body of a task would run at the same time."""
        return {"seconds": _seconds(self._opened().verify_input)}

    def cached(self, _: Command) -> Answer:
        """Wait until the cache contains all files; the body of a task would run at the same time."""
        return {"seconds": _seconds(self._opened().until_cached)}

    def peak(self, _: Command) -> Answer:
        return {"megabytes": _peak_memory()}

    def _opened(self) -> local_workspace.LocalWorkspace:
        if self._workspace is None:
            raise SystemExit("open a workspace first")
        return self._workspace


def change(root: Path, kind: str, count: int) -> None:
    paths = sorted(path for path in root.rglob("*.bin"))
    for path in paths if count < 0 else paths[:count]:
        if kind == "delete":
            path.unlink()
        else:
            with path.open("r+b") as file:
                file.write(os.urandom(16))


def _peak_memory() -> float:
    """In megabytes. Not `ru_maxrss`, which begins with that of the process that started this one."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1]) / 1024


def _seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def main() -> None:
    engine = Engine(json.loads(sys.stdin.readline()))
    for line in sys.stdin:
        command = json.loads(line)
        print(json.dumps(getattr(engine, command["do"])(command)), flush=True)


if __name__ == "__main__":
    main()
