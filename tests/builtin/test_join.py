"""What the lanes of a fork changed becomes one commit on the fork's commit, or none."""

from collections.abc import Mapping
from typing import Any, cast

import pytest
from tests.support.attempts import memory_scene, once, raising
from tests.support.lanes import Edits, LaneScene

from perago.builtin import composition, lane_changes, names
from perago.errors import LakeConflict, TaskStatus
from perago.in_memory.lake import MemoryLake
from perago.model import ExecutionId
from perago.protocol import commit_labels, kept_labels, kept_names

BASE = {"a": b"A", "m/kept": b"kept", "z": b"Z"}


def after(base: Mapping[str, bytes], *edits: Edits) -> dict[str, bytes]:
    files: dict[str, bytes | None] = dict(base)
    for one in edits:
        files.update(one)
    return {path: data for path, data in files.items() if data is not None}


CHANGES: dict[str, dict[str, Edits]] = {
    "added": {"one": {"b": b"1"}, "two": {"c": b"2"}},
    "changed": {"one": {"a": b"1"}, "two": {"z": b"2"}},
    "removed": {"one": {"a": None}, "two": {"z": None}},
    "renamed": {"one": {"a": None, "renamed": b"A"}, "two": {"new": b"2"}},
    "one lane": {"only": {"a": b"1", "b": b"2", "z": None}},
    "a lane without changes": {"idle": {}, "busy": {"b": b"1"}},
    "prefixes": {"one": {"x/a": b"1", "x/b": b"2"}, "two": {"y/a": b"1"}, "three": {"m/kept": b"new"}},
    "the same change": {"one": {"a": b"same", "z": None}, "two": {"a": b"same", "z": None, "b": b"own"}},
    "the same content": {"one": {"a": b"same"}, "two": {"a": b"same"}},
    "empty files": {"one": {"b": b""}, "two": {"c": b"", "a": b""}},
    "names": {"one": {"ü /+%": b"1"}, "two": {"ü /+%2": b"2"}},
}


@pytest.mark.parametrize("edits", CHANGES.values(), ids=list(CHANGES))
def test_the_commit_holds_what_the_lanes_changed(lanes: LaneScene, edits: dict[str, Edits]) -> None:
    lanes.set_base(BASE)
    outcome = lanes.joined(edits)
    assert lanes.published(outcome) == after(BASE, *edits.values())
    assert lanes.lane_branches() == [], "the join deletes the branches of lanes and its own"
    counts = commit_labels.read_counts(lanes.scene.head().metadata)
    assert counts is not None
    files = after(BASE, *edits.values())
    assert (counts.added, counts.deleted) == (len(files.keys() - BASE.keys()), len(BASE.keys() - files.keys()))


def test_merged_lanes_and_copied_lanes_become_one_commit(lanes: LaneScene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large lanes are merged by lakeFS, and small ones are copied; here all kinds take part."""
    monkeypatch.setattr(composition, "FEW", 1)
    monkeypatch.setattr(lane_changes, "KEPT", 8)
    monkeypatch.setattr(lane_changes, "_LEAST_PAGE", 2)
    lanes.set_base(BASE)
    edits: dict[str, Edits] = {f"large{n}": {f"large/{n}/{file}": b"%d" % n for file in range(5)} for n in range(5)}
    edits |= {f"small{n}": {f"small/{n}": b"%d" % n} for n in range(3)}
    edits["deletes"] = {"z": None, "m/kept": None}
    outcome = lanes.joined(edits)
    assert lanes.published(outcome) == after(BASE, *edits.values())
    assert lanes.lane_branches() == []


@pytest.mark.parametrize("edits", [{}, {"one": {}}, {"one": {}, "two": {}}], ids=["no lane", "one", "two"])
def test_lanes_without_changes_publish_nothing(lanes: LaneScene, edits: dict[str, Edits]) -> None:
    outcome = lanes.joined(edits)
    assert outcome.output is not None
    assert outcome.output["workspace"] == lanes.scene.target().as_json()
    assert lanes.scene.head().id == lanes.scene.a
    assert lanes.lane_branches() == []


CONFLICTS: dict[str, tuple[dict[str, Edits], str]] = {
    "changed differently": ({"one": {"a": b"1"}, "two": {"a": b"2"}}, "lanes one and two changed 1 object differently: 'a';"),
    "changed and removed": ({"one": {"a": b"1"}, "two": {"a": None}}, "lanes one and two changed 1 object differently: 'a';"),
    "added differently": ({"one": {"n": b"1"}, "two": {"n": b"2"}}, "lanes one and two changed 1 object differently: 'n';"),
    "added like the next of the base": (
        {"one": {"m": b"1"}, "two": {"m": b"kept"}},
        "lanes one and two changed 1 object differently: 'm';",
    ),
    "three lanes": (
        {"one": {"a": b"1", "z": b"1"}, "two": {"a": b"2"}, "three": {"z": b"3"}},
        "lanes changed 2 objects differently: 'a' (lanes one and two), 'z' (lanes one and three);",
    ),
}


@pytest.mark.parametrize(("edits", "text"), CONFLICTS.values(), ids=list(CONFLICTS))
def test_lanes_that_disagree_are_refused_with_their_names(lanes: LaneScene, edits: dict[str, Edits], text: str) -> None:
    lanes.set_base(BASE)
    before = lanes.scene.head().id
    outcome = lanes.joined(edits)
    assert (outcome.status, outcome.error, outcome.code) == (
        TaskStatus.FAILED_WITH_TERMINAL_ERROR,
        "LaneConflictError",
        "PG-240",
    )
    assert (outcome.reason or "").startswith(text)
    assert lanes.scene.head().id == before
    assert all("-scratch-" not in name for name in lanes.lane_branches())


def test_twenty_objects_are_named_and_the_others_counted(memory: LaneScene) -> None:
    files = [f"f{number:02d}" for number in range(25)]
    conflict = memory.joined({name: dict.fromkeys(files, name.encode()) for name in ("one", "two")})
    text = "\n".join(conflict.log)
    assert "changed 25 objects differently" in text
    assert "'f19' and 5 more" in text
    assert "'f20'" not in text


# lakeFS's merge


def _defective() -> LaneScene:
    made = LaneScene(memory_scene())
    cast("MemoryLake", made.scene.lake).merges_with_defects = True
    return made


LOST: dict[str, Edits] = {"deletes": {"z": None}, "adds": {"m": b"Z"}}
"""lakeFS takes the added object, which equals the next one of the base, for the one that the other lane deleted."""


@pytest.fixture(params=["memory", pytest.param("lakefs", marks=pytest.mark.server)])
def defective(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> LaneScene:
    """A lake whose merges lose objects, and a join that merges all lanes."""
    monkeypatch.setattr(composition, "FEW", -1)
    return _defective() if request.param == "memory" else request.getfixturevalue("real")


def test_an_object_that_the_merge_loses_is_restored(defective: LaneScene) -> None:
    defective.set_base({"a": b"A", "z": b"Z"})
    assert defective.published(defective.joined(LOST)) == {"a": b"A", "m": b"Z"}
    assert defective.scene.calls["copy_object"] == 1


def test_without_the_comparison_the_object_would_be_lost(defective: LaneScene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The defect is there: if this fails, lakeFS has been corrected and the fake should be too."""
    monkeypatch.setattr(composition.Composition, "_contradicts", lambda *_: False)
    defective.set_base({"a": b"A", "z": b"Z"})
    assert defective.published(defective.joined(LOST)) == {"a": b"A"}


def test_a_conflict_that_the_merge_does_not_see_is_refused(defective: LaneScene) -> None:
    defective.set_base({"a": b"A", "z": b"two"})
    outcome = defective.joined({"s1": {"m": b"one"}, "s2": {"m": b"two"}})
    assert outcome.error == "LaneConflictError"


def test_a_lane_that_lakefs_does_not_merge_is_copied(memory: LaneScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composition, "FEW", -1)
    memory.set_base(BASE)
    tap = memory.scene.tap
    tap.before["merge"] = once(raising(LakeConflict("a conflict that is none")))
    edits = CHANGES["prefixes"]
    assert memory.published(memory.joined(edits, tap)) == after(BASE, *edits.values())
    assert "copy_object" in tap.verbs


def test_an_object_that_no_lane_changed_is_put_back(memory: LaneScene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge that changes more than the lanes did is repaired too."""
    monkeypatch.setattr(composition, "FEW", -1)
    memory.set_base(BASE)
    lake = cast("MemoryLake", memory.scene.lake)
    tap = memory.scene.tap

    def change_more() -> None:
        scratch = next(name for name in memory.lane_branches() if "-scratch-" in name)
        lake.publish(memory.scene.repository, scratch, {"m/kept": b"damaged", "extra": b"never asked for"})

    tap.after["merge"] = once(change_more)
    edits = CHANGES["added"]
    outcome = memory.joined(edits, tap)
    assert memory.published(outcome) == after(BASE, *edits.values())


def test_what_cannot_be_repaired_is_not_published(memory: LaneScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composition.Composition, "_contradicts", lambda *_: True)
    outcome = memory.joined(CHANGES["added"])
    assert outcome.error == "WorkspaceError"
    assert memory.scene.head().id == memory.scene.a


# input


def test_a_lane_of_another_repository_is_refused(memory: LaneScene) -> None:
    lanes = memory.fork("one")
    outcome = memory.join({"one": {**lanes["one"], "repository": "another"}})
    assert (outcome.error, outcome.reason) == (
        "TaskInputError",
        "lane one is in repository another, and the workspace in repo; give the workspace that the lane's last step left",
    )


def test_an_attempt_that_failed_its_checks_is_no_lane(lanes: LaneScene) -> None:
    made, scene = lanes.fork("one"), lanes.scene
    attempt = scene.start().attempt
    name = kept_names.kept_branch(attempt, ExecutionId("e"), 0)
    scene.lake.create_branch(scene.repository, name, scene.a)
    labels = kept_labels.of_attempt(attempt, ExecutionId("e"), scene.branch, scene.a, "/in", "post guardrail", "")
    kept = scene.lake.commit_branch(scene.repository, name, "m", kept_labels.write(labels), allow_empty=True)
    outcome = lanes.run(lanes.start(names.JOIN, {"lanes": {"one": {**made["one"], "ref": kept.id}}}))
    assert outcome.error == "TaskInputError"
    assert f"lane one: commit {kept.id} is an attempt that failed its checks" in (outcome.reason or "")
    assert scene.head().id == scene.a


def test_a_lane_that_does_not_descend_from_the_input_is_refused(lanes: LaneScene) -> None:
    made = lanes.fork("one")
    later = lanes.edit(made["one"], {"b": b"1"})
    lanes.scene.a = lanes.scene.publish({"c": b"later"}).id
    outcome = lanes.run(lanes.start(names.JOIN, {"lanes": {"one": later}}))
    assert outcome.error == "TaskInputError"
    assert f"commit {later['ref']} does not descend from {lanes.scene.a}" in (outcome.reason or "")


@pytest.mark.parametrize(("ref", "text"), [("main", "is not a commit id"), ("0" * 64, "does not exist")])
def test_a_lane_without_a_commit_is_refused(lanes: LaneScene, ref: str, text: str) -> None:
    made = lanes.fork("one")
    outcome = lanes.join({"one": {**made["one"], "ref": ref}})
    assert outcome.error == "TaskInputError"
    assert text in (outcome.reason or "")


@pytest.mark.parametrize("params", [{}, {"lanes": None}, {"lanes": {"one": None}}, {"lanes": {"one": {"ref": "x"}}}])
def test_lanes_must_be_workspaces(memory: LaneScene, params: dict[str, Any]) -> None:
    outcome = memory.run(memory.start(names.JOIN, params))
    assert outcome.error == "TaskInputError"
    assert "params.lanes" in (outcome.reason or "")


def test_a_retry_works_from_commits_after_the_branches_are_gone(lanes: LaneScene) -> None:
    """The report of the first attempt was lost, and it has deleted the branches of the lanes."""
    made = lanes.fork("one", "two")
    left = {name: lanes.edit(lane, {f"of-{name}": b"1"}) for name, lane in made.items()}
    polled = lanes.begin_join(left)
    first = lanes.run(polled)
    files = lanes.published(first)
    assert lanes.lane_branches() == []
    again = lanes.run(lanes.retry(polled))
    assert lanes.published(again) == files
    assert again.output != first.output
