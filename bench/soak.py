"""Workflows under random kills and network faults for as long as asked; at the end the protocol's invariants are checked.

    PYTHONPATH=. .venv/bin/python bench/soak.py [--minutes N | --quick] [--seed N] [--stack FILE] [--json FILE]
    PYTHONPATH=. .venv/bin/python bench/soak.py --contention [--without-rule RULE] [--html FILE] [...]

Several chains of workspace tasks, each in a repository of its own and each step on the result of the one before, are run by two
workers behind fault-injecting proxies. Meanwhile executors and supervisors are killed, requests are cut, delayed, answered with
503, or acted upon with the reply lost. Afterwards: every accepted step is on the branch, in order, directly on its input, once;
nothing else is; no staging branch, workspace or process is left. Exit code 1 otherwise. The seed repeats the faults, not their
timing. Run from the project's root, which has to be on the Python path: `make soak` does that.

With --contention several workflows at a time compete for one branch instead, most of them with inputs that can only be refused.
The history of the branch goes through an independent checker, Porcupine: it has to be linearizable as an append-only list, of
which each accepted step is an operation. With --without-rule it must not be: exit code 1 if it is.
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
from tests.support.worker_harness import GROW, Worker, WorkerHarness, eventually

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


class Line(Protocol):
    """Workflow after workflow."""

    def begin(self) -> int:
        """Start the next one, or two; how many."""
        ...

    def poke(self) -> bool:
        """Ask Conductor to look at timeouts now; whether everything that was begun has ended."""
        ...


class Load(Protocol):
    """What the workers are given to do."""

    module: ClassVar[str]
    jobs: ClassVar[int]
    troubles: ClassVar[Mapping[str, int]]

    @property
    def lines(self) -> Sequence[Line]: ...

    @property
    def settings(self) -> Mapping[str, str]: ...

    def wrong(self) -> list[str]: ...

    def figures(self) -> dict[str, Any]: ...


@dataclass
class Chain:
    """One repository, and workflow after workflow on its branch."""

    harness: WorkerHarness
    base: CommitId
    expected: list[str] = field(default_factory=list[str])
    workflow: WorkflowId | None = None
    line: int = 0
    completed: int = 0
    attempts: int = 0

    def begin(self) -> int:
        given: Any = self.harness.workspace(self.harness.head().id)
        steps: list[dict[str, Any]] = []
        for number in range(STEPS):
            steps.append(self.harness.step(GROW, f"s{number}", {"line": str(self.line + number)}, given))
            given = f"${{s{number}.output.workspace}}"
        self.workflow = self.harness.real.start_workflow(steps)
        return 1

    def poke(self) -> bool:
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
        """What does not hold on this chain's branch."""
        found: list[str] = []
        history = [str(commit) for commit in reversed(self.harness.history(self.base)[:-1])]
        if history != self.expected:
            found.append(f"history is {history}, accepted was {self.expected}")
        if self.harness.log_at(self.harness.head().id) != "".join(f"{number}\n" for number in range(self.line)):
            found.append("the file does not hold each accepted line once, in order")
        found += [f"staging branch left: {name}" for name in self.harness.staging_branches()]
        return found


@dataclass(frozen=True)
class Chains:
    """Each step on the result of the one before; nothing competes with it."""

    lines: Sequence[Chain]
    module: ClassVar[str] = GROW
    jobs: ClassVar[int] = 2
    troubles: ClassVar[Mapping[str, int]] = {"executor": 3, "supervisor": 1, "fault": 12}

    @property
    def settings(self) -> dict[str, str]:
        return {"E2E_RETRIES": "10"}

    def wrong(self) -> list[str]:
        return [text for chain in self.lines for text in chain.wrong()]

    def figures(self) -> dict[str, Any]:
        return {
            "steps accepted": sum(chain.completed for chain in self.lines),
            "attempts": sum(chain.attempts for chain in self.lines),
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

    def trouble(self) -> None:
        """One random misfortune."""
        kind = self.dice.choices(list(self.load.troubles), list(self.load.troubles.values()))[0]
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
            # A worker cannot start without its servers, as it says.
            self.conductor.heal()
            self.lakefs.heal()
            self.workers[at] = self.start_worker()
        self.done[f"kill: {kind}"] += 1

    def run(self, seconds: float) -> None:
        self.workers = [self.start_worker() for _ in range(WORKERS)]
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for line in self.load.lines:
                if line.poke():
                    self.done["workflows"] += line.begin()
            self.trouble()
            time.sleep(self.dice.uniform(0.05, 0.6))

    def settle(self) -> None:
        """No more trouble: everything that was begun comes to its end."""
        self.conductor.heal()
        self.lakefs.heal()
        for line in self.load.lines:
            eventually(line.poke, within=PATIENCE, what="the end of a workflow")
        for worker in self.workers:
            worker.stop(within=60)

    def wrong(self) -> list[str]:
        found = self.load.wrong()
        found += [f"process left: {pid}" for worker in self.harness.workers for pid in worker.survivors()]
        return found + [f"workspace left: {name}" for name in self.harness.left_workspaces()]


@contextmanager
def arranged(stack: Endpoints, folder: Path, options: argparse.Namespace) -> Generator[Soak]:
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
    with tempfile.TemporaryDirectory(prefix="perago-soak-") as name, arranged(stack, Path(name), options) as soak:
        soak.run(options.minutes * 60)
        soak.settle()
        wrong = soak.wrong()
        figures = {"seed": options.seed, "minutes": options.minutes, **soak.load.figures(), **dict(sorted(soak.done.items()))}
        return figures, wrong


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--quick", action="store_const", dest="minutes", const=0.75, help="less than a minute of trouble")
    parser.add_argument("--contention", action="store_true", help="several workflows at a time on one branch")
    parser.add_argument("--without-rule", choices=RULES, default="", help="workers do not follow this rule")
    parser.add_argument("--html", type=Path, metavar="FILE", help="a drawing of the branch's history")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--stack", type=Path, help="use the servers of this file, written by `perago dev --json`")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")
    options = parser.parse_args()
    if not options.contention and (options.without_rule or options.html):
        parser.error("--without-rule and --html belong to --contention")
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
