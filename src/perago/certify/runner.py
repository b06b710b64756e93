"""Runs the scenarios on real servers: one thread and one team of workers per group."""

import contextlib
import queue
import secrets
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from perago.certify import catalog, contract
from perago.certify.catalog import Group, Scenario
from perago.certify.scene import Scene
from perago.certify.team import Team
from perago.certify.verdict import Broken, Interrupted, NotReached, Result, Verdict
from perago.certify.waiting import Patience
from perago.certify.worker_process import WorkerCommand
from perago.errors import ConductorError, PeragoError, SetupError
from perago.model import BranchName, Repository, TaskType
from perago.operate.servers import Servers

_TICK_SECONDS = 0.2


@dataclass
class Certification:
    """One run of the kit. `only` names scenarios; empty means all."""

    servers: Servers
    command: WorkerCommand
    patience: Patience
    only: Collection[str] = ()
    namespace: str = ""
    """Below which the repositories keep their objects; empty for the default of lakeFS."""
    leftovers: dict[str, Sequence[BranchName]] = field(default_factory=dict[str, Sequence[BranchName]])
    id: str = field(default_factory=lambda: secrets.token_hex(4))

    def run(self, tick: Callable[[float], None]) -> Iterator[Result]:
        """The result of each scenario when it is there. `tick` waits for so many seconds, and raises to stop the run.

        `SetupError` if the worker does not start or does not poll, or if the task type is used otherwise.
        """
        with self._registered_task_type(), contextlib.ExitStack() as teams:
            team = teams.enter_context(contextlib.closing(self._team("first")))
            (first,) = self._side_by_side([lambda: [self._run_one(catalog.FIRST, team)]], tick)
            if self._is_wanted(catalog.FIRST.name):
                yield first
            if first.verdict is Verdict.NOT_REACHED:
                yield from self._all_not_reached()
                return
            others = [teams.enter_context(contextlib.closing(self._team(group.name))) for group in catalog.GROUPS[1:]]
            groups = [self._group(group, one) for group, one in zip(catalog.GROUPS, [team, *others], strict=True)]
            yield from filter(lambda result: self._is_wanted(result.name), self._side_by_side(groups, tick))
            if self._is_wanted(catalog.LEFTOVER_BRANCHES):
                yield self._judge_leftovers()

    def _is_wanted(self, name: str) -> bool:
        return not self.only or name in self.only

    def _wanted(self, group: Group) -> list[Scenario]:
        # What is left behind by all of them is only known once all of them have run.
        everything = catalog.LEFTOVER_BRANCHES in self.only
        return [scenario for scenario in group.scenarios if everything or self._is_wanted(scenario.name)]

    def _all_not_reached(self) -> Iterator[Result]:
        why = f"the worker did not get through {catalog.FIRST.name}"
        others = [(scenario.name, scenario.attempted) for group in catalog.GROUPS for scenario in group.scenarios]
        for name, attempted in [*others, (catalog.LEFTOVER_BRANCHES, catalog.LEFTOVERS_ATTEMPTED)]:
            if self._is_wanted(name):
                yield Result(name, attempted, Verdict.NOT_REACHED, why)

    # groups

    def _group(self, group: Group, team: Team) -> Callable[[], Iterator[Result]]:
        return lambda: (self._run_one(scenario, team, group.workers) for scenario in self._wanted(group))

    def _side_by_side(
        self, groups: "Sequence[Callable[[], Iterable[Result]]]", tick: Callable[[float], None]
    ) -> Iterator[Result]:
        """The results of all of them, each run in a thread of its own."""
        results = queue.SimpleQueue[Result]()

        def run_group(one: Callable[[], Iterable[Result]]) -> None:
            with contextlib.suppress(Interrupted):
                for result in one():
                    results.put(result)

        with ThreadPoolExecutor(len(groups), "certify") as pool:
            try:
                running = [pool.submit(run_group, one) for one in groups]
                while not all(one.done() for one in running):
                    tick(_TICK_SECONDS)
                    yield from _drained(results)
            except BaseException:
                # Before the pool waits for its threads.
                self.patience.stopped.set()
                raise
        for one in running:
            one.result()
        yield from _drained(results)

    def _team(self, name: str) -> Team:
        return Team(self.command, name, f"certify-{self.id}-{name}", self.patience)

    # one scenario

    def _run_one(self, scenario: Scenario, team: Team, workers: int = 1) -> Result:
        began = time.monotonic()
        verdict, evidence = Verdict.HELD, ""
        try:
            evidence = self._evidence(scenario, team, workers)
        except Broken as error:
            verdict, evidence = Verdict.BROKEN, str(error)
        except (NotReached, PeragoError) as error:
            if isinstance(error, SetupError) and scenario is catalog.FIRST:
                raise  # the worker does not start, which is not a matter of one scenario
            verdict, evidence = Verdict.NOT_REACHED, str(error)
        return Result(scenario.name, scenario.attempted, verdict, evidence, time.monotonic() - began)

    def _evidence(self, scenario: Scenario, team: Team, workers: int) -> str:
        if self.patience.is_over:
            raise NotReached("the time limit of the run was over")
        repository = Repository(f"certify-{self.id}-{scenario.name}"[:63].rstrip("-"))
        with contextlib.closing(Scene(self.servers, team, self.command.task_type, repository)) as scene:
            scene.open(self.namespace)
            team.ensure(workers)
            try:
                return scenario.procedure(scene)
            finally:
                team.end_faults()
                self.leftovers[scenario.name] = scene.leftovers()

    def _judge_leftovers(self) -> Result:
        found = {name: branches for name, branches in self.leftovers.items() if branches}
        shown = "; ".join(f"after {name}: {', '.join(branches)}" for name, branches in found.items())
        verdict, evidence = (Verdict.BROKEN, shown) if found else (Verdict.HELD, f"{len(self.leftovers)} repositories looked at")
        return Result(catalog.LEFTOVER_BRANCHES, catalog.LEFTOVERS_ATTEMPTED, verdict, evidence)

    # the task type

    @contextlib.contextmanager
    def _registered_task_type(self) -> Generator[None]:
        conductor, name = self.servers.conductor, TaskType(self.command.task_type)
        held = conductor.task_definition(name)
        if held is not None and held.get("ownerEmail") != contract.OWNER:
            raise SetupError(f"Conductor has a task definition {name} already; choose another name with --task")
        conductor.put_task_definition(contract.task_definition(name))
        try:
            yield
        finally:
            with contextlib.suppress(ConductorError):
                self.servers.workflows.api.write("DELETE", f"/metadata/taskdefs/{name}")


def _drained(results: "queue.SimpleQueue[Result]") -> Iterator[Result]:
    with contextlib.suppress(queue.Empty):
        while True:
            yield results.get_nowait()
