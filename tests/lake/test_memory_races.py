"""Concurrent branch updates of the in-memory lake behave as those of lakeFS, and its gate can interrupt any call."""

from collections.abc import Callable
from pathlib import Path

import pytest

from perago.errors import LakeError, LakeNotFound, LakeUnavailable, LakeUnknown
from perago.in_memory.gate import RequestStep
from perago.in_memory.lake import UPDATE_TRIES, MemoryLake
from perago.model import BranchName, CommitId, ObjectPath, Repository

REPOSITORY = Repository("repository")
MAIN, S1, S2 = BranchName("main"), BranchName("s1"), BranchName("s2")


class Once:
    """A gate that calls `action` the first time the step of the verb is reached."""

    def __init__(self, verb: str, step: RequestStep, action: Callable[[], None]) -> None:
        self._place = (verb, step)
        self._action: Callable[[], None] | None = action

    def __call__(self, verb: str, step: RequestStep) -> None:
        if (verb, step) == self._place and self._action is not None:
            action, self._action = self._action, None
            action()


class Arranged:
    """Two attempts staged from the same commit."""

    def __init__(self) -> None:
        self.lake = MemoryLake()
        self.lake.create_repository(REPOSITORY)
        self.base = self.lake.publish(REPOSITORY, MAIN, {"a": b"1"}).id
        self.staged = {name: self.stage(name) for name in (S1, S2)}

    def stage(self, name: BranchName) -> CommitId:
        self.lake.create_branch(REPOSITORY, name, self.base)
        self.lake.put(REPOSITORY, name, ObjectPath(f"by-{name}"), name.encode())
        return self.lake.commit_branch(REPOSITORY, name, "stage", {}).id

    def merge(self, name: BranchName) -> CommitId:
        return self.lake.merge(REPOSITORY, name, MAIN, message="publish", metadata={}, timeout=1)

    def relocate(self, name: BranchName) -> None:
        self.lake.relocate(REPOSITORY, MAIN, name, timeout=1)

    @property
    def head(self) -> CommitId:
        return self.lake.head(REPOSITORY, MAIN).id


@pytest.fixture
def arranged() -> Arranged:
    return Arranged()


def test_of_two_merges_that_meet_both_publish_and_the_second_has_the_first_as_parent(arranged: Arranged) -> None:
    other: list[CommitId] = []
    arranged.lake.gate = Once("merge", RequestStep.BETWEEN, lambda: other.append(arranged.merge(S2)))
    merged = arranged.lake.commit(REPOSITORY, arranged.merge(S1))
    assert merged.parents == (other[0],)
    assert arranged.lake.commit(REPOSITORY, other[0]).parents == (arranged.base,)
    assert set(arranged.lake.content(REPOSITORY, MAIN)) == {"a", "by-s1", "by-s2"}


def test_a_merge_whose_source_is_deleted_before_it_starts_over_is_revoked(arranged: Arranged) -> None:
    def newer_attempt() -> None:
        arranged.lake.delete_branch(REPOSITORY, S1)
        arranged.merge(S2)

    arranged.lake.gate = Once("merge", RequestStep.BETWEEN, newer_attempt)
    with pytest.raises(LakeNotFound):
        arranged.merge(S1)
    assert set(arranged.lake.content(REPOSITORY, MAIN)) == {"a", "by-s2"}


def test_a_relocation_whose_source_is_deleted_meanwhile_is_revoked_once_the_target_moved(arranged: Arranged) -> None:
    def newer_attempt() -> None:
        arranged.lake.delete_branch(REPOSITORY, S1)
        arranged.relocate(S2)

    arranged.lake.gate = Once("relocate", RequestStep.BETWEEN, newer_attempt)
    with pytest.raises(LakeNotFound):
        arranged.relocate(S1)
    assert arranged.head == arranged.staged[S2]


def test_an_update_already_under_way_is_not_revoked_while_the_target_stands_still(arranged: Arranged) -> None:
    arranged.lake.gate = Once("relocate", RequestStep.BETWEEN, lambda: arranged.lake.delete_branch(REPOSITORY, S1))
    arranged.relocate(S1)
    assert arranged.head == arranged.staged[S1]


@pytest.mark.parametrize("verb", ["merge", "relocate"])
def test_without_an_interruption_an_update_under_way_survives_its_source(arranged: Arranged, verb: str) -> None:
    """Why revocation interrupts: the head that is read after the deletion may still be moved by its owner."""
    read: list[CommitId] = []

    def revoke() -> None:
        arranged.lake.delete_branch(REPOSITORY, S1)
        read.append(arranged.head)

    arranged.lake.gate = Once(verb, RequestStep.BETWEEN, revoke)
    getattr(arranged, verb)(S1)
    assert read == [arranged.base]
    assert arranged.head != arranged.base


@pytest.mark.parametrize("verb", ["merge", "relocate"])
def test_an_interruption_revokes_an_update_under_way(arranged: Arranged, verb: str) -> None:
    read: list[CommitId] = []

    def revoke() -> None:
        arranged.lake.delete_branch(REPOSITORY, S1)
        arranged.lake.interrupt_updates(REPOSITORY, MAIN)
        read.append(arranged.head)

    arranged.lake.gate = Once(verb, RequestStep.BETWEEN, revoke)
    with pytest.raises(LakeNotFound):
        getattr(arranged, verb)(S1)
    assert read == [arranged.base] == [arranged.head]
    assert set(arranged.lake.content(REPOSITORY, MAIN)) == {"a"}


@pytest.mark.parametrize("verb", ["merge", "relocate"])
def test_an_interruption_only_delays_an_update_whose_source_is_still_there(arranged: Arranged, verb: str) -> None:
    arranged.lake.gate = Once(verb, RequestStep.BETWEEN, lambda: arranged.lake.interrupt_updates(REPOSITORY, MAIN))
    getattr(arranged, verb)(S1)
    assert set(arranged.lake.content(REPOSITORY, MAIN)) == {"a", "by-s1"}


@pytest.mark.parametrize("verb", ["merge", "relocate"])
def test_an_interruption_before_the_deletion_revokes_nothing(arranged: Arranged, verb: str) -> None:
    """The order matters: an update that starts over before the deletion finds its source again."""
    arranged.lake.interrupt_updates(REPOSITORY, MAIN)
    arranged.lake.gate = Once(verb, RequestStep.BETWEEN, lambda: arranged.lake.delete_branch(REPOSITORY, S1))
    getattr(arranged, verb)(S1)
    assert set(arranged.lake.content(REPOSITORY, MAIN)) == {"a", "by-s1"}


def test_a_relocation_away_and_back_is_not_noticed(arranged: Arranged) -> None:
    """lakeFS compares the branch record by value, and a relocation changes nothing in it but the head."""
    arranged.lake.create_branch(REPOSITORY, BranchName("back"), arranged.base)

    def away_and_back() -> None:
        arranged.relocate(S2)
        arranged.relocate(BranchName("back"))

    arranged.lake.gate = Once("relocate", RequestStep.BETWEEN, away_and_back)
    arranged.relocate(S1)
    assert arranged.head == arranged.staged[S1]


def test_an_update_that_is_always_overtaken_fails(arranged: Arranged) -> None:
    def always(verb: str, step: RequestStep) -> None:
        if (verb, step) == ("merge", RequestStep.BETWEEN):
            other = arranged.lake.head(REPOSITORY, MAIN)
            arranged.lake.publish(REPOSITORY, MAIN, {"noise": other.id.encode()})

    arranged.lake.gate = always
    with pytest.raises(LakeUnavailable):
        arranged.merge(S1)
    assert arranged.lake.calls["head"] == UPDATE_TRIES


@pytest.mark.parametrize(
    ("step", "published"), [(RequestStep.BEFORE, False), (RequestStep.BETWEEN, False), (RequestStep.AFTER, True)]
)
def test_a_reply_can_be_cut_before_or_after_the_effect(arranged: Arranged, step: RequestStep, *, published: bool) -> None:
    def cut() -> None:
        raise LakeUnknown("cut")

    arranged.lake.gate = Once("merge", step, cut)
    with pytest.raises(LakeUnknown):
        arranged.merge(S1)
    assert (arranged.head != arranged.base) is published


def test_every_verb_passes_the_gate_before_and_after(arranged: Arranged, tmp_path: Path) -> None:
    passed: list[tuple[str, RequestStep]] = []
    lake, seen = arranged.lake, arranged.lake.objects(REPOSITORY, MAIN, "").objects[0]
    lake.gate = lambda verb, step: passed.append((verb, step))
    lake.capabilities()
    lake.commit(REPOSITORY, MAIN)
    lake.head(REPOSITORY, MAIN)
    lake.branch(REPOSITORY, MAIN)
    lake.interrupt_updates(REPOSITORY, MAIN)
    lake.create_branch(REPOSITORY, BranchName("s3"), arranged.base)
    list(lake.branches(REPOSITORY, ""))
    lake.read(REPOSITORY, MAIN, seen, tmp_path / "into")
    lake.write(REPOSITORY, BranchName("s3"), ObjectPath("b"), tmp_path / "into", content_type="", metadata={})
    list(lake.uncommitted(REPOSITORY, BranchName("s3")))
    lake.commit_branch(REPOSITORY, BranchName("s3"), "m", {})
    lake.delete_objects(REPOSITORY, BranchName("s3"), [ObjectPath("a")])
    lake.objects(REPOSITORY, MAIN, "")
    arranged.merge(S1)
    arranged.relocate(S2)
    lake.delete_branch(REPOSITORY, S2)
    verbs = {verb for verb, _ in passed}
    assert len(verbs) == 16
    assert {(verb, step) for verb in verbs for step in (RequestStep.BEFORE, RequestStep.AFTER)} <= set(passed)
    assert {verb for verb, step in passed if step is RequestStep.BETWEEN} == {"merge", "relocate"}


def test_equal_commits_of_the_same_second_are_one_commit() -> None:
    """As in lakeFS, a commit's id is made of its content, parents, words and the second it was made in."""
    lake = MemoryLake(clock=lambda: 7)
    lake.create_repository(REPOSITORY)
    base = lake.publish(REPOSITORY, MAIN, {"a": b"1", "b": b"2"}).id
    made: list[CommitId] = []
    for name in (S1, S2):
        lake.create_branch(REPOSITORY, name, base)
        lake.delete_objects(REPOSITORY, name, [ObjectPath("a")])
        made.append(lake.commit_branch(REPOSITORY, name, "same", {}).id)
    assert made[0] == made[1]


def test_a_repository_is_created_once() -> None:
    lake = MemoryLake()
    lake.create_repository(REPOSITORY)
    with pytest.raises(LakeError, match="exists already"):
        lake.create_repository(REPOSITORY)
    assert lake.get(REPOSITORY, lake.publish(REPOSITORY, MAIN, {"a": b"1"}).id, ObjectPath("a")) == b"1"
