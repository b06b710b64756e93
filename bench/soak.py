"""Runs workflows under random kills and network faults for a given time, then checks the invariants of the protocol.

    PYTHONPATH=. .venv/bin/python bench/soak.py [--minutes N | --quick] [--seed N] [--stack FILE] [--json FILE]
    PYTHONPATH=. .venv/bin/python bench/soak.py --contention [--without-rule RULE] [--html FILE] [...]

Two workers behind fault-injecting proxies run several chains of workspace tasks. Each chain has its own repository, and each step
builds on the result of the previous one. Meanwhile executors and supervisors are killed, and requests are cut, delayed, answered
with 503, or applied with the reply lost. Afterwards every accepted step has to be on the branch once, in order, directly on its
input, and nothing else; no staging branch, workspace or process may be left. Exit code 1 otherwise. The seed repeats the faults,
not their timing. Run it from the root of the project, which has to be on the Python path: `make soak` does that.

With --contention several workflows at a time compete for one branch instead, most of them with inputs that can only be refused.
Porcupine, an independent checker, then checks that the history of the branch is linearizable as an append-only list of which each
accepted step is an operation. With --without-rule it has to be not linearizable: exit code 1 if it is.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from bench._contention import Contention
from bench._switches import RULES
from tests.support.conductor_sites import RealConductorSite
from tests.support.fault_proxy import Fault, FaultProxy, answer, cut, delay, drop_reply
from tests.support.waiting import eventually
from tests.support.worker_harness import GROW, Worker, WorkerHarness

from perago.dev.stack import Endpoints, Stack
from perago.model import CommitId, WorkflowId

CHAINS = 4
STEPS = 3
WORKERS = 2
FAULTS: dict[str, Fault] = {
    "cut": cut(),
    "reset": cut(reset=True),
    "reply lost": drop_reply(),
    "delay": delay(0.5),
    "503": answer(503),
}
RESPONSE_SECONDS = "4"
PATIENCE = 180.0
SHOWN = 10


class WorkflowSequence(Protocol):
    """Workflows that are started one after the other."""

    def start_next(self) -> int:
        """Start the next workflow, or two of them; returns how many."""
        ...

    def has_ended(self) -> bool:
        """Whether all started workflows have ended. Asks Conductor to evaluate timeouts now, which it does late on its own."""
        ...


class Load(Protocol):
    """The workflows that the workers run, and the checks of their results."""

    module: ClassVar[str]
    jobs: ClassVar[int]
    disturbances: ClassVar[Mapping[str, int]]

    @property
    def sequences(self) -> Sequence[WorkflowSequence]: ...

    @property
    def settings(self) -> Mapping[str, str]: ...

    def wrong(self) -> list[str]: ...

    def figures(self) -> dict[str, Any]: ...


@dataclass
class Chain:
    """One repository, and workflows that run one after the other on its branch."""

    harness: WorkerHarness
    base: CommitId
    expected: list[str] = field(default_factory=list[str])
    workflow: WorkflowId | None = None
    line: int = 0
    completed: int = 0
    attempts: int = 0

    def start_next(self) -> int:
        given: Any = self.harness.workspace(self.harness.head().id)
        steps: list[dict[str, Any]] = []
        for number in range(STEPS):
            steps.append(self.harness.step(GROW, f"s{number}", {"line": str(self.line + number)}, given))
            given = f"${{s{number}.output.workspace}}"
        self.workflow = self.harness.real.start_workflow(steps)
        return 1

    def has_ended(self) -> bool:
        if self.workflow is None:
            return True
        self.harness.real.call("PUT", f"/workflow/decide/{self.workflow}")
        if self.harness.real.workflow_status(self.workflow) == "RUNNING":
            return False
        self._count(self.workflow)
        self.workflow = None
        return True

    def _count(self, workflow: WorkflowId) -> None:
        tasks = self.harness.tasks(workflow)
        self.attempts += len(tasks)
        done = [task for task in tasks if task["status"] == "COMPLETED"]
        self.expected += [str(task["outputData"]["workspace"]["ref"]) for task in done]
        self.completed += len(done)
        self.line += len(done)
        if len(done) < STEPS:
            raise AssertionError(f"workflow {workflow} ended after {len(done)} steps: {[t['status'] for t in tasks]}")

    def wrong(self) -> list[str]:
        """Violations on the branch of this chain."""
        found: list[str] = []
        history = [str(commit) for commit in reversed(self.harness.history(self.base)[:-1])]
        if history != self.expected:
            found.append(f"history is {history}, accepted was {self.expected}")
        if self.harness.log_at(self.harness.head().id) != "".join(f"{number}\n" for number in range(self.line)):
            found.append("the file does not contain each accepted line once, in order")
        found += [f"staging branch left: {name}" for name in self.harness.staging_branches()]
        return found


@dataclass(frozen=True)
class Chains:
    """Chains in which each step builds on the result of the previous one, without competing writers."""

    sequences: Sequence[Chain]
    module: ClassVar[str] = GROW
    jobs: ClassVar[int] = 2
    disturbances: ClassVar[Mapping[str, int]] = {"executor": 3, "supervisor": 1, "fault": 12}

    @property
    def settings(self) -> dict[str, str]:
        return {"E2E_RETRIES": "10"}

    def wrong(self) -> list[str]:
        return [text for chain in self.sequences for text in chain.wrong()]

    def figures(self) -> dict[str, Any]:
        return {
            "steps accepted": sum(chain.completed for chain in self.sequences),
            "attempts": sum(chain.attempts for chain in self.sequences),
        }


@dataclass
class Soak:
    harness: WorkerHarness
    load: Load
    conductor: FaultProxy
    lakefs: FaultProxy
    dice: random.Random
    workers: list[Worker] = field(default_factory=list[Worker])
    done: Counter[str] = field(default_factory=Counter[str])

    def start_worker(self) -> Worker:
        return self.harness.start(
            self.load.module,
            jobs=self.load.jobs,
            CONDUCTOR_SERVER_URL=self.conductor.url,
            LAKECTL_SERVER_ENDPOINT_URL=self.lakefs.url,
            E2E_RESPONSE=RESPONSE_SECONDS,
            **self.load.settings,
        )

    def disturb(self) -> None:
        """Kill a random process, or add a random fault to a proxy."""
        kind = self.dice.choices(list(self.load.disturbances), list(self.load.disturbances.values()))[0]
        if kind == "fault":
            name, proxy = self.dice.choice(list(FAULTS)), self.dice.choice([self.conductor, self.lakefs])
            proxy.on(".*", FAULTS[name])
            self.done[f"fault: {name}"] += 1
            return
        at = self.dice.randrange(len(self.workers))
        worker = self.workers[at]
        if kind == "executor":
            for executor in worker.executors()[:1]:
                os.kill(executor, signal.SIGKILL)
        else:
            worker.kill()
            # A worker cannot start without its servers.
            self.conductor.heal()
            self.lakefs.heal()
            self.workers[at] = self.start_worker()
        self.done[f"kill: {kind}"] += 1

    def run(self, seconds: float) -> None:
        self.workers = [self.start_worker() for _ in range(WORKERS)]
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for sequence in self.load.sequences:
                if sequence.has_ended():
                    self.done["workflows"] += sequence.start_next()
            self.disturb()
            time.sleep(self.dice.uniform(0.05, 0.6))

    def settle(self) -> None:
        """Remove all faults, wait until all workflows have ended, and stop the workers."""
        self.conductor.heal()
        self.lakefs.heal()
        for sequence in self.load.sequences:
            eventually(sequence.has_ended, within=PATIENCE, what="the end of a workflow")
        for worker in self.workers:
            worker.stop(within=60)

    def wrong(self) -> list[str]:
        found = self.load.wrong()
        found += [f"process left: {pid}" for worker in self.harness.workers for pid in worker.survivors()]
        return found + [f"workspace left: {name}" for name in self.harness.left_workspaces()]


@contextmanager
def prepared(stack: Endpoints, folder: Path, options: argparse.Namespace) -> Generator[Soak]:
    dice = random.Random(options.seed)
    with ExitStack() as things:
        harness = things.enter_context(_closing(WorkerHarness(stack, folder, RealConductorSite(stack.conductor_url))))
        conductor = things.enter_context(FaultProxy(stack.conductor_url))
        lakefs = things.enter_context(FaultProxy(stack.lakefs_url))
        if options.contention:
            load: Load = Contention(harness, harness.seed(), dice, options.without_rule, options.html)
        else:
            load = Chains([_chain(things, stack, harness, folder / f"chain-{number}") for number in range(CHAINS)])
        yield Soak(harness, load, conductor, lakefs, dice)


def _chain(things: ExitStack, stack: Endpoints, harness: WorkerHarness, folder: Path) -> Chain:
    own = things.enter_context(_closing(WorkerHarness(stack, folder, RealConductorSite(stack.conductor_url), harness.prefix)))
    return Chain(own, own.seed())


@contextmanager
def _closing(harness: WorkerHarness) -> Generator[WorkerHarness]:
    try:
        yield harness
    finally:
        harness.close()


def measure(stack: Endpoints, options: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    with tempfile.TemporaryDirectory(prefix="perago-soak-") as name, prepared(stack, Path(name), options) as soak:
        soak.run(options.minutes * 60)
        soak.settle()
        wrong = soak.wrong()
        figures = {"seed": options.seed, "minutes": options.minutes, **soak.load.figures(), **dict(sorted(soak.done.items()))}
        return figures, wrong


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--quick", action="store_const", dest="minutes", const=0.75, help="run for 45 seconds")
    parser.add_argument("--contention", action="store_true", help="let several workflows compete for one branch")
    parser.add_argument("--without-rule", choices=RULES, default="", help="switch this rule off in the workers")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a visualisation of the branch's history to this file")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--stack", type=Path, help="use the servers of this file, written by `perago dev --json`")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    options = parser.parse_args()
    if not options.contention and (options.without_rule or options.html):
        parser.error("--without-rule and --html require --contention")
    return options


def main() -> int:
    options = arguments()
    print(f"seed {options.seed}", flush=True)
    if options.stack is not None:
        figures, wrong = measure(Endpoints.from_json(options.stack.read_text()), options)
    else:
        with Stack() as stack:
            figures, wrong = measure(stack.endpoints, options)
    for name, value in figures.items():
        print(f"{name:16} {value}" if not isinstance(value, dict) else f"{name}:")
        for part, count in list(value.items())[:SHOWN] if isinstance(value, dict) else ():
            print(f"    {part:30} {count}")
    for text in wrong[-SHOWN:]:
        print(f"WRONG {text}")
    print("all invariants hold" if not wrong else f"{len(wrong)} violations")
    if options.json is not None:
        options.json.write_text(json.dumps({**figures, "wrong": wrong}, indent=2) + "\n")
    if options.without_rule:
        is_found = figures["verdict"]["verdict"] == "illegal"
        print(f"target: not linearizable without the rule {options.without_rule}: {'reached' if is_found else 'MISSED'}")
        return 0 if is_found else 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
