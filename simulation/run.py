"""Simulates publication for as long as asked: options in; progress, or the first failing schedule made short, out."""

import argparse
import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import count, islice

from simulation import explore, trace
from simulation.mutations import RULES
from simulation.world import World


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    worlds: explore.Worlds = RULES[options.without].world if options.without else World
    started, number = time.monotonic(), 0
    for number, done in enumerate(_runs(worlds, options), 1):
        if done.broken is not None or options.show:
            _show(worlds, done, number)
            return 0 if done.broken is None else 1
        if number % 5000 == 0:
            _say(f"{number:,} schedules, {time.monotonic() - started:.0f} s")
    _say(f"{number:,} schedules in {time.monotonic() - started:.0f} s: every rule held in each of them")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make simulate", description="The publication protocol under every kind of bad luck.")
    parser.add_argument("--minutes", type=float, default=1.0, metavar="N", help="how long (1)")
    parser.add_argument("--schedules", type=int, metavar="N", help="how many, instead of how long")
    parser.add_argument("--seed", type=int, metavar="N", help="only the random schedule of this seed")
    parser.add_argument("--schedule", metavar="LABEL", help="only the systematic schedule of this label")
    parser.add_argument("--first-seed", type=int, metavar="N", help="where random seeds begin; anywhere, if not said")
    parser.add_argument("--without", choices=RULES, metavar="RULE", help=f"switch a rule off: {', '.join(RULES)}")
    parser.add_argument("--show", action="store_true", help="tell the first schedule, broken or not")
    return parser.parse_args(arguments)


def _runs(worlds: explore.Worlds, options: argparse.Namespace) -> Iterator[explore.ScheduleRun]:
    if options.seed is not None:
        return explore.at_random(worlds, [options.seed])
    if options.schedule is not None:
        return iter([explore.labelled(worlds, options.schedule)])
    first = secrets.randbelow(10**9) if options.first_seed is None else options.first_seed
    _say(f"random schedules from seed {first} on, and all with few deviations, in turn")
    families = RULES[options.without].families if options.without else explore.FAMILIES
    runs = explore.mixed(worlds, count(first), families, depth=4)
    return islice(runs, options.schedules) if options.schedules else _until(runs, time.monotonic() + 60 * options.minutes)


def _until(runs: Iterator[explore.ScheduleRun], deadline: float) -> Iterator[explore.ScheduleRun]:
    for done in runs:
        yield done
        if time.monotonic() > deadline:
            return


def _show(worlds: explore.Worlds, done: explore.ScheduleRun, number: int) -> None:
    if done.broken is None:
        _say("\n".join(trace.tell(done)))
        return
    _say(f"schedule {number:,} broke a rule: {done.broken}\nto have it again: {done.name}\n")
    short = explore.shortened(worlds, done)
    _say(f"{len(done.moves)} moves, made short: {len(short.moves)}\n")
    _say("\n".join(f"  {line}" for line in trace.tell(short)))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
