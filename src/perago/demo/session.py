"""What both demos do on servers that run already: import a folder, submit a pipeline, follow its run."""

import contextlib
import importlib
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from perago.conductor import workflows
from perago.conductor.workflows import WorkflowClient
from perago.demo import workers
from perago.dev.stack import Stack
from perago.errors import SetupError
from perago.model import BranchName, Commit, CommitId, LakeAccess, Repository, WorkflowId
from perago.operate import import_folder, servers, submission, watching
from perago.operate.import_folder import ImportTarget
from perago.operate.run_state import RunReader, RunState
from perago.pipelines import inputs, loader
from perago.pipelines.graph import Pipeline
from perago.settings import ConductorAccess
from perago.workspace import path_mapping

MAIN = BranchName("main")
_PATIENCE_SECONDS = 60.0


class RunView(Protocol):
    """Shows a run while it goes on."""

    def show(self, run: RunState) -> None: ...

    def note(self, line: str) -> None: ...


Views = Callable[[Path], AbstractContextManager[RunView]]
"""Opens a view. The path is the log root of the workers, which tells what the running attempts do."""


@dataclass(frozen=True, slots=True)
class Session:
    stack: Stack
    servers: servers.Servers
    client: WorkflowClient
    repository: Repository
    views: Views

    @property
    def directory(self) -> Path:
        """Of the workers."""
        return self.stack.data_dir / "workers"

    def import_folder(self, folder: Path, prefix: str) -> CommitId:
        """Make the repository with the files of a folder; the commit, from which the pipeline starts."""
        import_folder.require_repository(self.servers, self.repository, create=True, branch=MAIN, namespace="")
        target = ImportTarget(self.repository, MAIN, path_mapping.listing_prefix(prefix))
        plan = import_folder.plan(self.servers, target, folder, delete=False)
        return import_folder.apply(self.servers, plan, "initial commit").id

    def submit(self, module: str, given: Mapping[str, Any], branch: BranchName = MAIN) -> WorkflowId:
        """Register the pipeline and start a run from the head of the branch."""
        pipeline = loader.load(module)
        if not isinstance(pipeline, Pipeline):
            raise SetupError(f"{module} declares no pipeline")
        base = submission.find_base(self.servers, self.repository, branch)
        registered = submission.register(self.servers.conductor, pipeline, submission.needed_tasks(pipeline))
        complete = inputs.with_defaults(pipeline, given)
        return submission.start(self.client, registered.workflow, base.workspace, complete, workflows.correlation_id())

    def follow(
        self, run: WorkflowId, view: RunView, react: Callable[[RunState], None] | None = None, *, expected: str = "COMPLETED"
    ) -> RunState:
        """Show the run until it ends, and call `react` with each state; `SetupError` if it ends with another status."""

        def show(state: RunState) -> None:
            view.show(state)
            if react is not None:
                react(state)
            # Ends the demo if a server has ended or a stop is requested.
            self.stack.wait(0)

        ended = watching.follow(RunReader(self.client), run, show, view.note, patience=_PATIENCE_SECONDS)
        if ended.status != expected:
            raise SetupError(f"the pipeline ended with {ended.status}: {ended.reason}")
        return ended

    def history(self, since: CommitId, branch: BranchName = MAIN) -> list[Commit]:
        """The commits of the branch, newest first; the last is `since`."""
        found = [self.servers.lake.head(self.repository, branch)]
        while found[-1].id != since:
            parent = found[-1].first_parent
            if parent is None:
                raise SetupError(f"{branch} does not descend from commit {since}")
            found.append(self.servers.lake.commit(self.repository, parent))
        return found


@contextlib.contextmanager
def opened(stack: Stack, repository: Repository, views: Views) -> Generator[Session]:
    lakefs = LakeAccess(stack.lakefs_url, stack.access_key_id, stack.secret_access_key)
    conductor = ConductorAccess(stack.conductor_url)
    client = WorkflowClient(conductor.url, timeout=servers.TIMEOUTS.request)
    with servers.connect(lakefs, conductor) as both, contextlib.closing(client), _importable():
        yield Session(stack, both, client, repository, views)


@contextlib.contextmanager
def _importable() -> Generator[None]:
    """The example modules can be imported, also from an installed package."""
    root = str(workers.examples())
    sys.path.insert(0, root)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(root)
