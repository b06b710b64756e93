"""The worker processes that serve the scenarios of one group, and the faults on their way to the servers."""

import re
import time
from collections.abc import Iterator

from perago.certify.verdict import NotReached
from perago.certify.waiting import Patience
from perago.certify.worker_process import WorkerCommand, WorkerProcess
from perago.errors import SetupError
from perago.fault_proxy.faults import HeldRequest
from perago.fault_proxy.proxy import Fault
from perago.model import BranchName, Repository

START_SECONDS = 60.0
QUIET_SECONDS = 2.5
"""A worker that has sent no write to lakeFS for so long has finished what it was about to do."""
_LONGEST_QUIET_WAIT_SECONDS = 15.0
_MOST_RESTARTS = 12
REPORT = r"POST .*/tasks(/update-v2)?(\?|$)"


def publishing(repository: Repository, branch: BranchName) -> str:
    """Matches the requests to lakeFS that move a branch. A merge of the branch into itself does not."""
    to = re.escape(branch)
    moves = rf"(POST .*/refs/(?!{to}/)[^/]+/merge/{to}|PUT .*/branches/{to}/hard_reset"
    return rf"(?=.*/repositories/{repository}/){moves}|POST .*/branches/{to}/(commits|revert|cherry-pick))(\?|$)"


def writing(repository: Repository) -> str:
    """Matches all writes to a repository, through the API or the S3 gateway."""
    return rf"(?!GET|HEAD)\w+ (/|.*/){repository}(/|\?|$)"


class Team:
    """Workers of one domain. The first process is started by `ensure`, and processes that have ended are replaced."""

    def __init__(self, command: WorkerCommand, name: str, domain: str, patience: Patience) -> None:
        self.domain = domain
        self.patience = patience
        self._command = command
        self._name = name
        self._workers: list[WorkerProcess] = []
        self._held: list[HeldRequest] = []
        self._started = 0
        self._last_output = ""

    def ensure(self, count: int) -> None:
        """At least so many workers run, and have asked for tasks. `SetupError` if one does not."""
        self._workers = list(self._living())
        for _ in range(count - len(self._workers)):
            self._workers.append(self._start())
        for worker in self._workers:
            self._until_polled(worker)

    def revive(self) -> None:
        """Start a worker in place of each that has ended by itself, as a service manager would."""
        missing = sum(not worker.is_running() for worker in self._workers)
        if missing:
            self.ensure(len(self._workers))

    def _living(self) -> Iterator[WorkerProcess]:
        for worker in self._workers:
            if worker.is_running():
                yield worker
            else:
                self._last_output = worker.last_output()
                worker.close()

    def _start(self) -> WorkerProcess:
        if self._started == _MOST_RESTARTS:
            raise NotReached(f"the worker ended by itself again and again; {self._last_output}")
        self._started += 1
        return WorkerProcess(self._command, f"{self._name}-{self._started}", self.domain)

    def _until_polled(self, worker: WorkerProcess) -> None:
        def polled() -> bool:
            worker.require_running()
            return worker.has_polled

        began = time.monotonic()
        try:
            self.patience.until(polled, "a poll", START_SECONDS)
        except NotReached as error:
            raise SetupError(
                f"the worker did not poll Conductor at CONDUCTOR_SERVER_URL for tasks of type {self._command.task_type} within "
                f"{time.monotonic() - began:.0f} s; {worker.last_output()}"
            ) from error

    # faults

    def end_faults(self) -> None:
        """No request fails any more, and those that are still held are dropped."""
        self._clear_rules()
        for held in self._held:
            if not held.released.is_set():
                held.drop()
        self._held.clear()

    def on_lakefs(self, pattern: str, fault: Fault) -> None:
        """The next request of each worker that matches the pattern."""
        self._remember(fault)
        for worker in self._workers:
            worker.lakefs.on(pattern, fault)

    def on_report(self, workflow_id: str, fault: Fault) -> None:
        """The next report of a completed task of the workflow."""
        self._remember(fault)
        for worker in self._workers:
            worker.conductor.on(REPORT, fault, containing=("COMPLETED", workflow_id))

    def _remember(self, fault: Fault) -> None:
        if isinstance(fault, HeldRequest):
            self._held.append(fault)

    def _clear_rules(self) -> None:
        for worker in self._workers:
            worker.conductor.heal()
            worker.lakefs.heal()

    def _sender(self, held: HeldRequest) -> WorkerProcess:
        return next(worker for worker in self._workers if held.proxy is worker.conductor or held.proxy is worker.lakefs)

    def until_held(self, held: HeldRequest, what: str) -> WorkerProcess:
        """The worker that sent the request. `NotReached` if none does. Faults for further requests are removed."""

        def reached() -> bool:
            self.revive()
            return held.reached.is_set()

        self.patience.until(reached, what)
        self._clear_rules()
        return self._sender(held)

    def until_quiet(self, repository: Repository) -> None:
        """No worker has written to the repository for a moment. Returns also if they do not stop writing."""
        began = time.monotonic()

        def is_quiet() -> bool:
            writes = [seen.at for worker in self._workers for seen in worker.lakefs.requests(writing(repository))]
            now = time.monotonic()
            return now - max([began, *writes]) > QUIET_SECONDS or now - began > _LONGEST_QUIET_WAIT_SECONDS

        self.patience.until(is_quiet, "the end of the worker's requests")

    def close(self) -> None:
        for worker in self._workers:
            worker.close()
        self._workers.clear()
