"""The fences on a real lakeFS: what they prevent, and what they cost.

    PYTHONPATH=. .venv/bin/python bench/fence.py [--quick] [--json FILE] [--rounds N]

What they prevent: in each round an older attempt stops before one of its requests, Conductor gives it up, a successor publishes
and is accepted, and the older attempt continues: in half of the rounds afterwards, in the other half while the successor is about
to publish. In every other round it stops before its publish request; the rounds in between use each of its requests in turn. A
result is lost if the target branch does not show the accepted commit directly on its input after both attempts have ended.

What they cost: the control requests of a publication; its time with 0, 1,000 and 10,000 staging branches of other targets in the
repository, measured in turn; the time of a merge with and without the hook of `perago protect`. Exit code 1 if a target is
missed.
"""

import argparse
import json
import secrets
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import _lakefs
import _publication
from _publication import Target
from tests.support.recording import RecordingTap

from perago.conductor.port import Polled
from perago.dev.stack import Endpoints
from perago.errors import TaskStatus
from perago.http.request import HttpTimeouts, RequestRecord
from perago.lake.client import LakeFS
from perago.lake.port import BranchHead, Lake
from perago.model import CommitId, Repository
from perago.operate.protocol_check.dict_task import DictTask
from perago.operate.protocol_check.scene import Scene, ref_of, writes

ROUNDS, QUICK_ROUNDS = 200, 24
PUBLICATIONS, QUICK_PUBLICATIONS = 200, 40
MANY = 0.05
"""The least share of rounds that has to lose a publication without revocation; otherwise the rounds prove nothing."""
PATIENCE = 60.0


@dataclass(frozen=True)
class Kind:
    name: str
    task: Callable[[], DictTask]
    is_abandoned: bool
    """Whether the target shows an abandoned publication when the older attempt starts."""


KINDS = (
    Kind("merge", lambda: writes("older"), is_abandoned=False),
    Kind("replacement", lambda: writes("older"), is_abandoned=True),
    Kind("no-op relocation", DictTask, is_abandoned=True),
)


@dataclass
class Tally:
    kind: str
    revocation: bool
    rounds: int = 0
    lost: int = 0
    lost_when_stopped_before: Counter[str] = field(default_factory=Counter[str])
    older_ended: Counter[str] = field(default_factory=Counter[str])


class FindsNoRivals:
    """A lake that lists no staging branches, so that an attempt revokes nothing."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def branches(self, _repository: Repository, _prefix: str, *, page: int = 0) -> Iterable[BranchHead]:
        del page
        return ()

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._lake, verb)


@dataclass(frozen=True)
class Stop:
    """A place to stop: before the n-th request of a verb. A number over all verbs would depend on the number of downloads."""

    verb: str
    occurrence: int

    @staticmethod
    def at(verbs: list[str]) -> "Stop":
        return Stop(verbs[-1], verbs.count(verbs[-1]))


class PausedAttempt:
    """The older attempt in its own thread, stopped before one of its requests until `resume`."""

    def __init__(self, scene: Scene, polled: Polled, kind: Kind, lake: Lake, stop: Stop) -> None:
        self._tap = RecordingTap(lake)
        self._stopped, self._go = threading.Event(), threading.Event()
        self._tap.at_call = lambda _call: self._pause() if Stop.at(self._tap.verbs) == stop else None
        self.ended = ""
        self._thread = threading.Thread(target=lambda: self._run(scene, polled, kind))
        self._thread.start()
        _wait(self._stopped)

    def _pause(self) -> None:
        self._stopped.set()
        _wait(self._go)

    def _run(self, scene: Scene, polled: Polled, kind: Kind) -> None:
        outcome = scene.run(polled, kind.task(), self._tap)
        self.ended = outcome.status.value if outcome.status is TaskStatus.COMPLETED else str(outcome.reason)
        self._stopped.set()

    def resume(self) -> None:
        self._go.set()

    def join(self) -> None:
        self._go.set()
        self._thread.join(PATIENCE)


def _wait(event: threading.Event) -> None:
    if not event.wait(PATIENCE):
        raise TimeoutError("an attempt hangs")


def accepted(scene: Scene, older: Polled, lake: Lake, meanwhile: Callable[[], None]) -> CommitId:
    """Retry until Conductor accepts a result; returns its commit. `meanwhile` is called as the first retry publishes."""
    polled = scene.retry(older)
    for chance in range(4):
        tap = RecordingTap(lake)
        if chance == 0:
            tap.before["head"] = meanwhile
        outcome = scene.run(polled, writes("newer"), tap)
        if outcome.status is TaskStatus.COMPLETED and scene.report(polled, outcome):
            return ref_of(outcome)
        if chance < 3:
            polled = scene.retry(polled)
    raise AssertionError(f"no successor was accepted: {outcome.reason}")  # pyright: ignore[reportPossiblyUnboundVariable]


def requests(scene: Scene, kind: Kind) -> list[str]:
    """The verbs of the requests that an undisturbed older attempt sends to lakeFS."""
    prepare(scene, kind)
    tap = RecordingTap(scene.lake)
    outcome = scene.run(scene.start(), kind.task(), tap)
    if outcome.status is not TaskStatus.COMPLETED:
        raise AssertionError(outcome.reason)
    return tap.verbs


def schedule(verbs: list[str], rounds: int) -> Iterable[tuple[Stop, bool]]:
    """For each round: the request to stop before, and whether the older attempt continues while the successor publishes."""
    stops = [Stop.at(verbs[: end + 1]) for end in range(len(verbs))]
    stops = [stop for stop in stops if stop.verb != "read" or stop.occurrence == 1]
    last_chance = next(stop for stop in stops if stop.verb in {"merge", "relocate"})
    for number in range(rounds):
        yield last_chance if number % 2 else stops[number // 2 % len(stops)], number // 2 % 2 == 1


def prepare(scene: Scene, kind: Kind) -> None:
    scene.renew()
    if kind.is_abandoned:
        scene.abandon()


def play(scene: Scene, kind: Kind, tally: Tally, stop: Stop, *, together: bool) -> None:
    prepare(scene, kind)
    lake: Any = scene.lake if tally.revocation else FindsNoRivals(scene.lake)
    polled = scene.start()
    older = PausedAttempt(scene, polled, kind, lake, stop)
    ref = accepted(scene, polled, lake, older.resume if together else lambda: None)
    older.join()
    head = scene.head()
    tally.rounds += 1
    tally.older_ended[older.ended.split(":")[0][:60]] += 1
    if head.id != ref or head.parents != (scene.a,):
        tally.lost += 1
        tally.lost_when_stopped_before[stop.verb] += 1
        scene.conductor.tasks.clear()


def measure(lake: Lake, repository: Repository, rounds: int) -> list[Tally]:
    scene = Scene(lake, repository)
    tallies: list[Tally] = []
    for kind in KINDS:
        verbs = requests(scene, kind)
        for revocation in (True, False):
            tally = Tally(kind.name, revocation)
            for stop, together in schedule(verbs, rounds):
                play(scene, kind, tally, stop, together=together)
            tallies.append(tally)
            print(_line(tally), flush=True)
    return tallies


def _line(tally: Tally) -> str:
    found = ", ".join(f"{verb} {count}" for verb, count in tally.lost_when_stopped_before.most_common())
    where = f"  (stopped before: {found})" if found else ""
    mode = "with revocation" if tally.revocation else "without"
    return f"{tally.kind:<17} {mode:<16} {tally.rounds:>4} rounds  {tally.lost:>3} lost{where}"


def targets(tallies: Iterable[Tally]) -> list[Target]:
    found: list[Target] = []
    for tally in tallies:
        if tally.revocation:
            found.append(Target(f"{tally.kind}: lost with revocation = 0", str(tally.lost), tally.lost == 0))
        else:
            share = tally.lost / tally.rounds
            found.append(Target(f"{tally.kind}: lost without revocation >= {MANY:.0%}", f"{share:.0%}", share >= MANY))
    return found


@dataclass
class Bench:
    endpoints: Endpoints
    made: list[Repository] = field(default_factory=list[Repository])
    records: list[RequestRecord] = field(default_factory=list[RequestRecord])

    def run(self, rounds: int, publications: int) -> tuple[dict[str, Any], list[Target]]:
        store = _lakefs.Store(self.endpoints)
        keys = (self.endpoints.access_key_id, self.endpoints.secret_access_key)
        self.made = [Repository(f"bench-fence-{secrets.token_hex(4)}") for _ in range(7)]
        timeouts = HttpTimeouts(connect=10, request=60)
        with ExitStack() as things:
            for name in self.made:
                store.create_repository(name)
                things.callback(store.delete_repository, name)
            hear = self.records.append
            lake = things.enter_context(closing(LakeFS(self.endpoints.lakefs_url, *keys, timeouts=timeouts, on_request=hear)))
            return self._measure(lake, rounds, publications)

    def _measure(self, lake: LakeFS, rounds: int, publications: int) -> tuple[dict[str, Any], list[Target]]:
        counts, first = _publication.control_requests(lake, self.made[0], self.records)
        others, flat = _publication.with_other_branches(lake, self.made[1:4], self.records, publications)
        for one in others:
            print(
                "{others:>6} staging branches of other targets: publication {publication_ms:.1f} ms, "
                "of which listing {listing_ms:.2f} ms".format(**one),
                flush=True,
            )
        hooks, single = _publication.hook(lake, self.made[4:6], publications)
        for one in hooks:
            print(
                "hook {hook!s:<5} merge {merge_ms:.1f} ms; winners of {races} races of {racers}: {winners}".format(**one),
                flush=True,
            )
        tallies = measure(lake, self.made[6], rounds)
        figures = {
            "control requests": counts,
            "other targets": others,
            "hook": hooks,
            "paused attempts": [vars(tally) for tally in tallies],
        }
        return figures, [first, *flat, *single, *targets(tallies)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds instead of {ROUNDS}")
    parser.add_argument("--rounds", type=int, help="number of rounds of each kind")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to this file")
    arguments = parser.parse_args()
    rounds = arguments.rounds or (QUICK_ROUNDS if arguments.quick else ROUNDS)
    with _lakefs.alone() as endpoints:
        figures, reached = Bench(endpoints).run(rounds, QUICK_PUBLICATIONS if arguments.quick else PUBLICATIONS)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    for target in reached:
        print(target)
    return 0 if all(target.is_reached for target in reached) else 1


if __name__ == "__main__":
    sys.exit(main())
