"""Rounds of workflows that compete for one branch on real servers: how many accepted commits are lost, and whether one wins.

    PYTHONPATH=. .venv/bin/python bench/contention.py [--quick] [--json FILE] [--rounds N] [--stack FILE] [--seed N]

- together: two workflows that write, from one input, started together;
- move back: a writer and a task without a change, on a branch that shows a publication which Conductor did not accept; the task
  without a change has to move the branch back over it, the writer has to replace it;
- three: three workflows (writers, two writers in a row, tasks without a change) with random pauses before each of their requests;
  in half of the rounds the branch shows a publication that was not accepted;
- three, given up: the same, and Conductor gives up attempts that continue nevertheless.

A round lasts until all of its workflows have ended, with three retries per step and no delay between them. A commit is lost if it
was accepted and is not in the history of the branch afterwards. A round has no winner if none of its workflows is COMPLETED. That
can happen if attempts are given up, because each of these uses up a retry; there it is counted and has no target. The rounds are
then repeated with one rule switched off, which has to lose commits. The seed repeats the random choices, not the timing. Run it
from the root of the project.
"""

import argparse
import itertools
import json
import random
import re
import secrets
import sys
import time
from collections import Counter
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import _lakefs, _rounds
from bench._rounds import Pauses, Round, Rules, Scenario, Step
from tests.support.conductor_sites import RealConductorSite

from perago.dev.stack import Endpoints, Stack
from perago.http.request import HttpTimeouts
from perago.lake.client import LakeFS
from perago.model import CommitId, Repository, TaskType
from perago.operate.protocol_check.dict_task import upload

ROUNDS, QUICK_ROUNDS = 200, 10
MANY = 0.05
"""The least share of rounds that has to lose a commit without a rule; otherwise the rounds prove nothing."""
AT_ONCE = 4
SHORT = Pauses(share=0.3, seconds=0.015, publish_seconds=0.3)
LONG = Pauses(share=0.3, seconds=0.06, publish_seconds=0.6)
SHOWN_REASONS = 6
_VARIABLE = re.compile(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|(conformance_|round-)\w+|\b\d+\b|\bs\d\b")


def _two_writers(_dice: random.Random) -> Sequence[Sequence[Step]]:
    return [[Step("w0")], [Step("w1")]]


def _writer_and_no_change(dice: random.Random) -> Sequence[Sequence[Step]]:
    both = [[Step("w0")], [Step("w1", only_look=True)]]
    dice.shuffle(both)
    return both


def _three(dice: random.Random) -> Sequence[Sequence[Step]]:
    kinds = dice.choices(("write", "write twice", "look"), (5, 2, 3), k=3)
    return [
        [Step(f"w{number}", only_look=kind == "look")] + [Step(f"w{number}.1")] * (kind == "write twice")
        for number, kind in enumerate(kinds)
    ]


def _never(_dice: random.Random) -> bool:
    return False


def _always(_dice: random.Random) -> bool:
    return True


def _half(dice: random.Random) -> bool:
    return dice.random() < 0.5


SCENARIOS = (
    Scenario("together", _two_writers, SHORT, _never),
    Scenario("move back", _writer_and_no_change, SHORT, _always),
    Scenario("three", _three, LONG, _half),
    Scenario("three, given up", _three, LONG, _half, gives_up=True),
)
SWITCHED_OFF = {
    _rounds.WITHOUT_RULE_1: {"together", "move back", "three"},
    _rounds.WITHOUT_RULE_2: {"move back", "three"},
}
"""Scenarios that have to lose commits without the rule. Two writers on the head usually detect each other after the merge."""


@dataclass
class Tally:
    scenario: str
    rules: str
    rounds: int = 0
    attempts: int = 0
    accepted: int = 0
    lost_commits: int = 0
    rounds_with_loss: int = 0
    rounds_without_winner: int = 0
    rounds_with_all_completed: int = 0
    seconds: float = 0.0
    not_accepted: Counter[str] = field(default_factory=Counter[str])
    stories: list[Round] = field(default_factory=list[Round])
    """Rounds with a violation although all rules were on."""

    def add(self, played: Round) -> None:
        self.rounds += 1
        self.attempts += played.attempts
        self.accepted += played.accepted
        self.lost_commits += len(played.lost)
        self.rounds_with_loss += bool(played.lost)
        self.rounds_without_winner += not played.has_winner
        self.rounds_with_all_completed += set(played.ended.values()) == {"COMPLETED"}
        self.not_accepted.update(_VARIABLE.sub("#", reason)[:150] for reason in played.reasons)
        if self.rules == _rounds.ALL_RULES.name and (played.lost or not played.has_winner):
            self.stories.append(played)

    def __str__(self) -> str:
        return (
            f"{self.scenario:<16} {self.rules:<15} {self.rounds:>4} rounds {self.attempts:>5} attempts"
            f" {self.accepted:>5} accepted  {self.lost_commits:>4} lost in {self.rounds_with_loss:>3} rounds"
            f"  {self.rounds_without_winner:>3} without a winner  {self.rounds_with_all_completed:>3} all completed"
            f"  {self.seconds:>5.0f} s"
        )

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "stories": [vars(one) for one in self.stories]}


@dataclass
class ContentionBench:
    """A repository, and one task type for each round that runs at the same time."""

    lake: LakeFS
    real: RealConductorSite
    repository: Repository
    base: CommitId
    types: Sequence[TaskType]
    seed: int

    def measure(self, scenario: Scenario, rules: Rules, rounds: int) -> Tally:
        tally, began = Tally(scenario.name, rules.name), time.monotonic()
        numbers = itertools.count()

        def lane(task_type: TaskType) -> list[Round]:
            found: list[Round] = []
            while (number := next(numbers)) < rounds:
                found.append(self._play(scenario, rules, task_type, number))
            return found

        with ThreadPoolExecutor(len(self.types)) as pool:
            for played in itertools.chain.from_iterable(pool.map(lane, self.types)):
                tally.add(played)
        tally.seconds = time.monotonic() - began
        return tally

    def _play(self, scenario: Scenario, rules: Rules, task_type: TaskType, number: int) -> Round:
        dice = random.Random(f"{self.seed} {scenario.name} {number}")
        place = (self.lake, self.real, self.repository, self.base, task_type)
        driver = _rounds.Driver(*place, rules, scenario, dice, Round(scenario.name, number))
        try:
            return driver.play()
        except _rounds.Stalled as error:
            print(f"round {number} of {scenario.name} is repeated: {error}", flush=True)
            driver.give_up()
            return self._play(scenario, rules, task_type, number)


@contextmanager
def prepared(endpoints: Endpoints, seed: int) -> Generator[ContentionBench]:
    with ExitStack() as things:
        keys = (endpoints.access_key_id, endpoints.secret_access_key)
        timeouts = HttpTimeouts(connect=10, request=60)
        lake = things.enter_context(closing(LakeFS(endpoints.lakefs_url, *keys, timeouts=timeouts)))
        real = things.enter_context(closing(RealConductorSite(endpoints.conductor_url)))
        store, name = _lakefs.Store(endpoints), f"bench-contention-{secrets.token_hex(4)}"
        store.create_repository(name)
        things.callback(store.delete_repository, name)
        repository = Repository(name)
        upload(lake, repository, _rounds.BranchName("main"), "first", b"first")
        base = lake.commit_branch(repository, _rounds.BranchName("main"), "the input of every round", {}).id
        types = [real.task_type(retryCount=3) for _ in range(AT_ONCE)]
        for task_type in types:
            things.callback(real.call, "DELETE", f"/metadata/taskdefs/{task_type}")
        yield ContentionBench(lake, real, repository, base, types, seed)


def measure(endpoints: Endpoints, rounds: int, seed: int, chosen: Sequence[str]) -> list[Tally]:
    tallies: list[Tally] = []
    with prepared(endpoints, seed) as place:
        for rules in (_rounds.ALL_RULES, *SWITCHED_OFF):
            for scenario in (one for one in SCENARIOS if not chosen or one.name in chosen):
                if rules is not _rounds.ALL_RULES and scenario.gives_up:
                    continue
                tallies.append(place.measure(scenario, rules, rounds))
                _show(tallies[-1])
    return tallies


def _show(tally: Tally) -> None:
    print(tally, flush=True)
    if tally.rules != _rounds.ALL_RULES.name:
        return
    for reason, count in tally.not_accepted.most_common(SHOWN_REASONS):
        print(f"    {count:>5} x {reason}")
    for wrong in tally.stories:
        print(f"    round {wrong.number}: {wrong.ended}, lost {wrong.lost}", *wrong.story, sep="\n      ")


def targets(tallies: Sequence[Tally]) -> Generator[tuple[str, str, bool]]:
    """Each target with the value that was reached, and whether it is met."""
    for tally in tallies:
        if tally.rules != _rounds.ALL_RULES.name:
            continue
        lost, without = tally.lost_commits, tally.rounds_without_winner
        yield f"{tally.scenario}: accepted commits lost = 0", str(lost), lost == 0
        if "given up" not in tally.scenario:
            yield f"{tally.scenario}: rounds without a winner = 0", str(without), without == 0
    for rules, scenarios in SWITCHED_OFF.items():
        played = [tally for tally in tallies if tally.rules == rules.name and tally.scenario in scenarios]
        if rounds := sum(tally.rounds for tally in played):
            share = sum(tally.rounds_with_loss for tally in played) / rounds
            yield f"{rules.name}: rounds that lose a commit >= {MANY:.0%}", f"{share:.0%}", share >= MANY


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds instead of {ROUNDS}")
    parser.add_argument("--rounds", type=int, help="number of rounds of each scenario")
    parser.add_argument("--scenario", action="append", default=[], choices=[one.name for one in SCENARIOS], help="only these")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--stack", type=Path, help="use the servers of this file, written by `perago dev --json`")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="write all figures to this file, with the requests of each round with a violation",
    )
    options = parser.parse_args()
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    with ExitStack() as things:
        if options.stack is not None:
            endpoints = Endpoints.from_json(options.stack.read_text())
        else:
            endpoints = things.enter_context(Stack()).endpoints
        tallies = measure(endpoints, rounds, options.seed, options.scenario)
    if options.json:
        options.json.write_text(json.dumps([tally.as_json() for tally in tallies], indent=2) + "\n")
    reached = list(targets(tallies))
    for what, value, is_reached in reached:
        print(f"{'reached' if is_reached else 'MISSED '}  {what}: {value}")
    return 0 if all(is_reached for _, _, is_reached in reached) else 1


if __name__ == "__main__":
    sys.exit(main())
