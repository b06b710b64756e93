"""The costs of a publication: its requests, its time beside staging branches of other targets, the hook of `perago protect`."""

import secrets
import statistics
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from perago.conductor.port import Polled
from perago.errors import LakeError, TaskStatus
from perago.http.request import RequestRecord
from perago.in_memory.lake import MAIN
from perago.lake.client import LakeFS
from perago.model import Attempt, BranchName, CommitId, Repository, TaskId, TaskType, WorkerId, WorkflowId
from perago.operate import protection
from perago.operate.protocol_check.dict_task import upload
from perago.operate.protocol_check.scene import Scene, ref_of, writes
from perago.protocol import commit_labels, staging_names

MAX_REQUESTS = 10
FLAT = 1.10
OTHERS = (0, 1_000, 10_000)
CREATORS = 16
RACES, RACERS = 12, 8
_TRANSFERS = frozenset({"read", "read_small", "write", "write_small"})

Records = list[RequestRecord]


@dataclass(frozen=True)
class Target:
    what: str
    reached: str
    is_reached: bool

    def __str__(self) -> str:
        return f"{'reached' if self.is_reached else 'MISSED '}  {self.what}: {self.reached}"


def control_requests(lake: LakeFS, repository: Repository, records: Records) -> tuple[dict[str, int], Target]:
    """Count the requests of a publication of one changed file onto its input, without the transfer of files."""
    scene = Scene(lake, repository)
    lake.capabilities()
    polled = scene.start()
    records.clear()
    _publish(scene, polled)
    counts = Counter(record.verb for record in records if record.verb not in _TRANSFERS)
    shown = ", ".join(f"{verb} {count}" for verb, count in counts.items())
    total = counts.total()
    return dict(counts), Target(f"control requests <= {MAX_REQUESTS}", f"{total} ({shown})", total <= MAX_REQUESTS)


def _publish(scene: Scene, polled: Polled) -> CommitId:
    outcome = scene.run(polled, writes("changed"))
    if outcome.status is not TaskStatus.COMPLETED:
        raise AssertionError(outcome.reason)
    scene.report(polled, outcome)
    return ref_of(outcome)


# staging branches of other targets


@dataclass
class RepositoryWithOthers:
    """A repository with staging branches of other targets."""

    others: int
    scene: Scene
    whole: list[float]
    listing: list[float]

    def publish(self, records: Records) -> None:
        polled = self.scene.start()
        records.clear()
        start = time.perf_counter()
        self.scene.a = _publish(self.scene, polled)
        self.whole.append(time.perf_counter() - start)
        self.listing.append(sum(record.seconds for record in records if record.verb == "branches"))


def create_other_branches(lake: LakeFS, repository: Repository, others: int) -> RepositoryWithOthers:
    scene = Scene(lake, repository)

    def create(number: int) -> None:
        attempt = Attempt(
            WorkflowId(secrets.token_hex(16)), TaskId(secrets.token_hex(16)), 0, "s0", 1, 0, TaskType("t"), WorkerId("w"), 0, 1
        )
        execution = staging_names.execution_id(time.time(), secrets.token_bytes(8))
        lake.create_branch(repository, staging_names.staging_branch(attempt, execution, BranchName(f"other-{number}")), scene.a)

    with ThreadPoolExecutor(CREATORS) as pool:
        for _ in pool.map(create, range(others)):
            pass
    return RepositoryWithOthers(others, scene, [], [])


def with_other_branches(
    lake: LakeFS, repositories: Sequence[Repository], records: Records, rounds: int
) -> tuple[list[dict[str, Any]], list[Target]]:
    """Publish in each repository in turn, so that other load on the machine affects all of them equally."""
    measured = [create_other_branches(lake, repository, others) for repository, others in zip(repositories, OTHERS, strict=True)]
    for one in measured:
        one.publish(records)
        one.whole.clear()
        one.listing.clear()
    for number in range(rounds):
        for at in range(len(measured)):
            measured[(at + number) % len(measured)].publish(records)
    figures = [
        {
            "others": one.others,
            "rounds": len(one.whole),
            "publication_ms": statistics.median(one.whole) * 1000,
            "listing_ms": statistics.median(one.listing) * 1000,
        }
        for one in measured
    ]
    alone = figures[0]["publication_ms"]
    return figures, [_flat(found, found["publication_ms"] / alone) for found in figures[1:]]


def _flat(found: dict[str, Any], ratio: float) -> Target:
    what = f"publication with {found['others']:,} staging branches of other targets <= {FLAT} x the one with none"
    return Target(what, f"{ratio:.2f}", ratio <= FLAT)


# the hook


@dataclass(frozen=True)
class Merges:
    lake: LakeFS
    repository: Repository
    is_protected: bool

    def prepare(self) -> None:
        """Put a file onto `main`, and the action file if it is protected, by a merge: the hooks refuse direct commits."""
        at, name = self.lake.branch(self.repository, MAIN), BranchName("preparation")
        self.lake.create_branch(self.repository, name, at)
        upload(self.lake, self.repository, name, "first", b"first")
        if self.is_protected:
            upload(self.lake, self.repository, name, protection.path_of(MAIN), protection.action_file(MAIN).encode())
        self.lake.commit_branch(self.repository, name, "first", {})
        self.merge(name, at)

    def stage(self) -> tuple[BranchName, CommitId]:
        at, name = self.lake.branch(self.repository, MAIN), BranchName(f"by-hand-{secrets.token_hex(6)}")
        self.lake.create_branch(self.repository, name, at)
        upload(self.lake, self.repository, name, f"data/{name}", secrets.token_bytes(8))
        self.lake.commit_branch(self.repository, name, "change", {})
        return name, at

    def merge(self, name: BranchName, at: CommitId) -> float:
        began = time.perf_counter()
        self.lake.merge(self.repository, name, MAIN, message="merge", metadata={commit_labels.EXPECTED_HEAD: at}, timeout=60)
        return time.perf_counter() - began

    def timed(self) -> float:
        name, at = self.stage()
        seconds = self.merge(name, at)
        self.lake.delete_branch(self.repository, name)
        return seconds

    def race(self) -> int:
        """Send `RACERS` merges that were prepared on the same head at the same time; returns how many succeed."""
        staged = [self.stage() for _ in range(RACERS)]
        gate = threading.Barrier(RACERS)

        def one(name: BranchName, at: CommitId) -> bool:
            gate.wait()
            try:
                self.merge(name, at)
            except LakeError:
                return False
            return True

        with ThreadPoolExecutor(RACERS) as pool:
            winners = sum(pool.map(one, *zip(*staged, strict=True)))
        for name, _ in staged:
            self.lake.delete_branch(self.repository, name)
        return winners


def hook(lake: LakeFS, repositories: Sequence[Repository], rounds: int) -> tuple[list[dict[str, Any]], list[Target]]:
    """Measure single merges with and without the hook in turn, then races."""
    found: list[tuple[Merges, list[float], list[int]]] = []
    for repository, is_protected in zip(repositories, (False, True), strict=True):
        merges = Merges(lake, repository, is_protected)
        merges.prepare()
        found.append((merges, [], []))
    for _ in range(rounds):
        for merges, seconds, _winners in found:
            seconds.append(merges.timed())
    for _ in range(RACES):
        for merges, _seconds, winners in found:
            winners.append(merges.race())
    figures = [
        {
            "hook": merges.is_protected,
            "merge_ms": statistics.median(seconds) * 1000,
            "races": RACES,
            "racers": RACERS,
            "winners": winners,
        }
        for merges, seconds, winners in found
    ]
    alone = sum(won == 1 for won in found[1][2])
    what = f"races of {RACERS} merges by hand with the hook that have exactly one winner = {RACES}"
    return figures, [Target(what, str(alone), alone == RACES)]
