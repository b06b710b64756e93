"""Kills workers and executors of a demo at random moments of a run, and starts the workers again."""

import random
from collections.abc import Iterator, Sequence

from perago.demo import workers
from perago.demo.workers import DemoWorker
from perago.model import WorkflowId


class RandomKills:
    """A moment is a number of completed steps, so that the kills are spread over the whole run, however fast it is."""

    def __init__(self, among: Sequence[DemoWorker], amount: int, steps: int, chance: random.Random) -> None:
        self.executors = 0
        """How many were killed alone."""
        self.workers = 0
        """How many were killed with all their executors."""
        self.abandoned: list[WorkflowId] = []
        """The workflows whose attempts killed workers ran: Conductor notices that when the leases expire."""
        self._workers = among
        self._chance = chance
        self._moments = sorted(chance.randrange(steps) for _ in range(amount))

    def due(self, completed: int) -> Iterator[str]:
        """Carry out the kills whose moment has come; a line for each."""
        while self._moments and self._moments[0] <= completed:
            self._moments.pop(0)
            yield self._kill(self._chance.choice(self._workers))

    def _kill(self, worker: DemoWorker) -> str:
        """Half of the time the worker with all its executors, else one executor that runs an attempt, if there is any."""
        attempts = worker.running()
        victim = self._chance.choice(attempts) if attempts and self._chance.random() < 0.5 else None  # noqa: PLR2004
        if victim is not None and workers.kill_executor(victim):
            self.executors += 1
            return f"killed an executor of {worker.name} during {victim.step} ({victim.phase})"
        worker.kill()
        worker.start()
        self.workers += 1
        self.abandoned += [attempt.workflow for attempt in attempts]
        busy = ", ".join(attempt.step for attempt in attempts)
        return f"killed {worker.name}{f' during {busy}' if busy else ', which was idle'}; it is started again"
