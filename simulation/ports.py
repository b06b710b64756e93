"""Both ports and the workspace of one actor of a simulation. Every call stops the actor, and can fail or crash it."""

import itertools
from collections.abc import Callable
from typing import Any

from perago.in_memory.conductor import FakeConductor
from perago.in_memory.lake import MemoryLake
from perago.lake.port import PAGE, Lake, Ref
from perago.model import Attempt, BranchName, Commit, CommitId, ObjectPath, Outcome, Repository, Snapshot, TaskId, WorkflowId
from perago.operate.protocol_check.dict_task import DictWorkspace, Files
from simulation.actors import Actor

_LISTINGS = frozenset({"branches", "uncommitted"})


class NetLake:
    """The port of the lake over a simulated network; `lake` is the server."""

    def __init__(self, actor: Actor, lake: MemoryLake) -> None:
        self.actor, self.lake = actor, lake

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return self.ask(verb, *args, **kwargs)

        return call

    def ask(self, verb: str, *args: Any, **kwargs: Any) -> Any:
        serve = getattr(self.lake, verb)
        if verb in _LISTINGS:
            return self.actor.call(verb, lambda: list(serve(*args, **kwargs)))
        return self.actor.call(verb, lambda: serve(*args, **kwargs))

    def fetch(self, repository: Repository, ref: CommitId) -> dict[ObjectPath, bytes]:
        """Read all objects in one call, into memory."""
        return self.actor.call("read", lambda: self.lake.content(repository, ref))

    def upload(self, repository: Repository, branch: BranchName, path: ObjectPath, data: bytes) -> None:
        """Write one object from memory."""
        self.actor.call("write", lambda: self.lake.put(repository, branch, path, data))

    # verbs that mutations override

    def commit(self, repository: Repository, ref: CommitId) -> Commit:
        return self.ask("commit", repository, ref)

    def create_branch(self, repository: Repository, branch: BranchName, source: CommitId) -> None:
        self.ask("create_branch", repository, branch, source)

    def delete_branch(self, repository: Repository, branch: BranchName) -> None:
        self.ask("delete_branch", repository, branch)

    def head(self, repository: Repository, branch: BranchName) -> Commit:
        found: Commit = self.ask("head", repository, branch)
        self.actor.last_head = found.id
        return found

    def branch(self, repository: Repository, branch: BranchName) -> CommitId:
        return self.ask("branch", repository, branch)

    def branches(self, repository: Repository, prefix: str, *, page: int = PAGE) -> Any:
        """The search for names of the first edition (`page` is 1) is the separate verb `peek`: its time does not matter."""
        if page == 1:
            return self.actor.call("peek", lambda: list(itertools.islice(self.lake.branches(repository, prefix, page=1), 1)))
        return self.ask("branches", repository, prefix)

    def interrupt_updates(self, repository: Repository, branch: BranchName) -> None:
        self.ask("interrupt_updates", repository, branch)

    def commit_branch(self, repository: Repository, branch: BranchName, *args: Any) -> Commit:
        return self.ask("commit_branch", repository, branch, *args)

    def merge(self, repository: Repository, source: Ref, target: BranchName, **kwargs: Any) -> CommitId:
        return self.ask("merge", repository, source, target, **kwargs)

    def relocate(self, repository: Repository, target: BranchName, to: BranchName, **kwargs: Any) -> None:
        self.ask("relocate", repository, target, to, **kwargs)


class NetConductor:
    """The requests of an attempt to Conductor: fence and report. The lease never ends, which is the worst case."""

    def __init__(self, actor: Actor, conductor: FakeConductor, take: Callable[[Outcome], None]) -> None:
        self.actor, self.conductor, self._take = actor, conductor, take

    def snapshot(self, workflow_id: WorkflowId, task_id: TaskId) -> Snapshot:
        return self.actor.call("snapshot", lambda: self.conductor.snapshot(workflow_id, task_id))

    def task(self, task_id: TaskId) -> Snapshot:
        return self.actor.call("task", lambda: self.conductor.task(task_id))

    def report(self, attempt: Attempt, outcome: Outcome, *, timeout: float) -> None:
        del attempt, timeout
        self.actor.call("report", lambda: self._take(outcome))

    def decide(self, workflow_id: WorkflowId) -> None:
        """Not a request here: the in-memory Conductor looks at the workflow with each report."""


class NetWorkspace(DictWorkspace):
    """A dictionary of files that is read from the lake and written to it without a disk."""

    def __init__(self, net: NetLake, lake: Lake, *args: Any) -> None:
        super().__init__(lake, *args)
        self._net = net

    def open(self) -> None:
        self._lake.objects(self._source.repository, self._source.ref, self._prefix)
        everything = self._net.fetch(self._source.repository, self._source.ref)
        self._before = {
            path.removeprefix(self._prefix): data for path, data in everything.items() if path.startswith(self._prefix)
        }
        self.files: Files = dict(self._before)

    def fill(self, branch: BranchName) -> None:
        change = self.changed()
        if change.deletes:
            gone = [ObjectPath(self._prefix + path) for path in change.deletes]
            self._lake.delete_objects(self._source.repository, branch, gone)
        for path, data in change.uploads.items():
            self._net.upload(self._source.repository, branch, ObjectPath(self._prefix + path), data)


class BranchWorkspace(NetWorkspace):
    """A workspace whose body writes to the staging branch directly, as Spark does: everything is written when it returns."""

    needs_branch_before_body = True

    def attach(self, branch: BranchName) -> None:
        self._branch = branch

    def settle(self) -> None:
        super().fill(self._branch)

    def fill(self, branch: BranchName) -> None:
        assert branch == self._branch
