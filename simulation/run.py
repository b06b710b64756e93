"""The command of `make simulate`: runs schedules for a given time or number; prints progress, or the first failing schedule."""

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
    make_world: explore.WorldFactory = RULES[options.without].world if options.without else World
    started, number = time.monotonic(), 0
    for number, done in enumerate(_runs(make_world, options), 1):
        if done.broken is not None or options.show:
            _show(make_world, done, number)
            return 0 if done.broken is None else 1
        if number % 5000 == 0:
            _print(f"{number:,} schedules, {time.monotonic() - started:.0f} s")
    _print(f"{number:,} schedules in {time.monotonic() - started:.0f} s: none broke a rule")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make simulate", description="Run the publication protocol under many interleavings and faults."
    )
    parser.add_argument("--minutes", type=float, default=1.0, metavar="N", help="duration of the run (1)")
    parser.add_argument("--schedules", type=int, metavar="N", help="number of schedules, instead of a duration")
    parser.add_argument("--seed", type=int, metavar="N", help="run only the random schedule with this seed")
    parser.add_argument("--schedule", metavar="LABEL", help="run only the systematic schedule with this label")
    parser.add_argument("--first-seed", type=int, metavar="N", help="the first random seed (chosen at random)")
    parser.add_argument("--without", choices=RULES, metavar="RULE", help=f"switch a rule off: {', '.join(RULES)}")
    parser.add_argument("--show", action="store_true", help="print the first schedule, even if it breaks no rule")
    return parser.parse_args(arguments)


def _runs(make_world: explore.WorldFactory, options: argparse.Namespace) -> Iterator[explore.ScheduleRun]:
    if options.seed is not None:
        return explore.at_random(make_world, [options.seed])
    if options.schedule is not None:
        return iter([explore.labelled(make_world, options.schedule)])
    first = secrets.randbelow(10**9) if options.first_seed is None else options.first_seed
    _print(f"alternating random schedules from seed {first} and systematic schedules")
    families = RULES[options.without].families if options.without else explore.FAMILIES
    runs = explore.mixed(make_world, count(first), families, depth=4)
    return islice(runs, options.schedules) if options.schedules else _until(runs, time.monotonic() + 60 * options.minutes)


def _until(runs: Iterator[explore.ScheduleRun], deadline: float) -> Iterator[explore.ScheduleRun]:
    for done in runs:
        yield done
        if time.monotonic() > deadline:
            return


def _show(make_world: explore.WorldFactory, done: explore.ScheduleRun, number: int) -> None:
    if done.broken is None:
        _print("\n".join(trace.describe(done)))
        return
    _print(f"schedule {number:,} broke a rule: {done.broken}\nto repeat it: {done.name}\n")
    short = explore.shortened(make_world, done)
    _print(f"{len(done.moves)} moves, shortened to {len(short.moves)}\n")
    _print("\n".join(f"  {line}" for line in trace.describe(short)))


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
