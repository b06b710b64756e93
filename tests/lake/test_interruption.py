"""On a real lakeFS: after a source was deleted and updates were interrupted, the head does not move any more.

A revocation relies on this. Relocations and merges by name run in threads, at random times around the revocation.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable

import pytest
from tests.support.lake_sites import MAIN, RealSite, merge, stage

from perago.errors import LakeConflict, LakeNotFound
from perago.model import BranchName, CommitId

ROUNDS = 40
WIDEST = 0.012
"""Seconds: some of the updates end before the deletion, some begin after it, most meet it."""


def race(
    update: Callable[[], object], revoke: Callable[[], CommitId], delay: float, *, update_waits: bool
) -> tuple[str, CommitId]:
    """The outcome of the update, and the head that was read after the revocation."""
    ready = threading.Barrier(2)
    ended: list[str] = []

    def updating() -> None:
        ready.wait(10)
        if update_waits:
            threading.Event().wait(delay)
        try:
            update()
        except LakeNotFound:
            ended.append("revoked")
        except LakeConflict:
            ended.append("refused")
        else:
            ended.append("applied")

    thread = threading.Thread(target=updating)
    thread.start()
    ready.wait(10)
    if not update_waits:
        threading.Event().wait(delay)
    read = revoke()
    thread.join(60)
    assert ended, "the update never ended"
    return ended[0], read


@pytest.mark.parametrize("verb", ["relocate", "merge"])
def test_the_head_read_after_an_interruption_is_final(real: RealSite, verb: str) -> None:
    chance = random.Random(verb)
    ends: Counter[str] = Counter()
    for number in range(ROUNDS):
        name = BranchName(f"stage-{number}")
        base = real.lake.head(real.repository, MAIN).id
        stage(real, name, base, {f"file-{number}": b"x"})

        def update(name: BranchName = name) -> None:
            if verb == "relocate":
                real.lake.relocate(real.repository, MAIN, name, timeout=30)
            else:
                merge(real, name)

        def revoke(name: BranchName = name) -> CommitId:
            real.lake.delete_branch(real.repository, name)
            real.lake.interrupt_updates(real.repository, MAIN)
            return real.lake.head(real.repository, MAIN).id

        end, read = race(update, revoke, chance.random() * WIDEST, update_waits=bool(number % 2))
        ends[end] += 1
        assert real.lake.head(real.repository, MAIN).id == read, f"round {number}: {end} after the head was read"
        assert (read == base) is (end != "applied"), f"round {number}: {end}"
    assert ends["applied"], ends
    assert ends["revoked"], ends
