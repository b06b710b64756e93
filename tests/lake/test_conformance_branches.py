"""Conformance suite for commits and branches, on the in-memory lake and on lakeFS."""

import hashlib

import pytest
from tests.support.lake_sites import MAIN, Site, merge, stage

from perago.errors import LakeConflict, LakeForbidden, LakeNotFound, LakeRejected
from perago.lake.port import ChangeType, ObjectChange, ObjectDifference, SmallFile
from perago.model import BranchName, CommitId, ObjectPath, Repository

NO_COMMIT = CommitId("0" * 64)


def test_a_new_repository_has_one_commit_without_parent_or_content(site: Site) -> None:
    first = site.lake.head(site.repository, MAIN)
    assert (first.parents, first.first_parent, first.meta_range_id) == ((), None, "")


def test_a_commit_is_found_by_id_branch_tag_and_short_id_and_always_tells_its_full_id(site: Site) -> None:
    made = site.publish("main", {"a": b"1"})
    site.tag("v1.0", made)
    for ref in (made, MAIN, "v1.0", made[:12]):
        assert site.lake.commit(site.repository, CommitId(ref)).id == made


@pytest.mark.parametrize("ref", [NO_COMMIT, "missing", "abcdef0123"])
def test_an_unknown_ref_is_not_found(site: Site, ref: str) -> None:
    with pytest.raises(LakeNotFound, match=ref):
        site.lake.commit(site.repository, CommitId(ref))


@pytest.mark.parametrize("ref", ["", "..", "a/b", "a b", "a\nb", "é"])
def test_what_cannot_be_a_ref_is_rejected(site: Site, ref: str) -> None:
    with pytest.raises(LakeRejected):
        site.lake.commit(site.repository, CommitId(ref))


@pytest.mark.parametrize("name", ["", "..", "ab", "Upper", "a/b", "x" * 64])
def test_what_cannot_be_a_repository_is_rejected(site: Site, name: str) -> None:
    with pytest.raises(LakeRejected):
        site.lake.head(Repository(name), MAIN)


def test_nothing_works_on_a_repository_that_does_not_exist(site: Site) -> None:
    gone, lake = Repository("no-such-repository"), site.lake
    calls = [
        lambda: lake.head(gone, MAIN),
        lambda: lake.branch(gone, MAIN),
        lambda: lake.interrupt_updates(gone, MAIN),
        lambda: lake.commit(gone, MAIN),
        lambda: lake.create_branch(gone, BranchName("s"), NO_COMMIT),
        lambda: lake.delete_branch(gone, MAIN),
        lambda: list(lake.branches(gone, "")),
        lambda: lake.commit_branch(gone, MAIN, "m", {}),
        lambda: lake.merge(gone, BranchName("s"), MAIN, message="m", metadata={}, timeout=9),
        lambda: lake.relocate(gone, MAIN, BranchName("s"), timeout=9),
        lambda: lake.objects(gone, MAIN, ""),
        lambda: list(lake.uncommitted(gone, MAIN)),
    ]
    for call in calls:
        with pytest.raises(LakeNotFound):
            call()


def test_head_tells_the_parent_in_one_call(site: Site) -> None:
    first = site.lake.head(site.repository, MAIN)
    made = site.publish("main", {"a": b"1"}, "second")
    head = site.lake.head(site.repository, MAIN)
    assert (head.id, head.parents, head.message) == (made, (first.id,), "second")


def test_head_of_a_branch_that_does_not_exist(site: Site) -> None:
    with pytest.raises(LakeNotFound, match="missing"):
        site.lake.head(site.repository, BranchName("missing"))


def test_a_branch_tells_its_commit(site: Site) -> None:
    first = site.lake.branch(site.repository, MAIN)
    made = site.publish("main", {"a": b"1"})
    site.put("main", "uncommitted", b"x")
    assert (first, site.lake.branch(site.repository, MAIN)) == (site.lake.commit(site.repository, made).first_parent, made)


@pytest.mark.parametrize("wrong", ["tag", "commit id", "short id", "missing"])
def test_what_is_no_branch_is_not_found_as_a_branch(site: Site, wrong: str) -> None:
    made = site.publish("main", {"a": b"1"})
    site.tag("v1", made)
    name = {"tag": "v1", "commit id": made, "short id": made[:12], "missing": "missing"}[wrong]
    with pytest.raises(LakeNotFound, match=name):
        site.lake.branch(site.repository, BranchName(name))


@pytest.mark.parametrize("name", ["", "-a", "a.b", "main~1", "main@"])
def test_what_cannot_be_a_branch_is_rejected_as_a_branch(site: Site, name: str) -> None:
    with pytest.raises(LakeRejected):
        site.lake.branch(site.repository, BranchName(name))


def test_a_staging_branch_is_hidden_from_people_and_listed_for_us(site: Site) -> None:
    head = site.lake.head(site.repository, MAIN).id
    site.lake.create_branch(site.repository, BranchName("stage-1"), head)
    assert site.visible_branches() == ["main"]
    assert [(found.name, found.commit) for found in site.lake.branches(site.repository, "stage-")] == [("stage-1", head)]


def test_a_taken_branch_name_is_a_conflict(site: Site) -> None:
    head = site.lake.head(site.repository, MAIN).id
    site.lake.create_branch(site.repository, BranchName("stage-1"), head)
    with pytest.raises(LakeConflict, match="stage-1"):
        site.lake.create_branch(site.repository, BranchName("stage-1"), head)


def test_a_branch_cannot_be_named_like_a_commit(site: Site) -> None:
    head = site.lake.head(site.repository, MAIN).id
    with pytest.raises(LakeConflict):
        site.lake.create_branch(site.repository, BranchName(head), head)


@pytest.mark.parametrize("name", ["", "-a", "a/b", "a.b", "a b", "é", "a\n"])
def test_what_cannot_be_a_branch_name_is_rejected(site: Site, name: str) -> None:
    with pytest.raises(LakeRejected):
        site.lake.create_branch(site.repository, BranchName(name), site.lake.head(site.repository, MAIN).id)


def test_a_branch_from_an_unknown_commit(site: Site) -> None:
    with pytest.raises(LakeNotFound):
        site.lake.create_branch(site.repository, BranchName("s"), NO_COMMIT)


def test_a_deleted_branch_is_gone_and_cannot_be_deleted_again(site: Site) -> None:
    name = BranchName("stage-1")
    site.lake.create_branch(site.repository, name, site.lake.head(site.repository, MAIN).id)
    site.lake.delete_branch(site.repository, name)
    assert list(site.lake.branches(site.repository, "stage")) == []
    with pytest.raises(LakeNotFound):
        site.lake.delete_branch(site.repository, name)


def test_the_default_branch_cannot_be_deleted(site: Site) -> None:
    with pytest.raises(LakeForbidden):
        site.lake.delete_branch(site.repository, MAIN)


def test_a_listing_of_branches_goes_on_beyond_a_page(site: Site) -> None:
    head = site.lake.head(site.repository, MAIN).id
    names = [f"many-{number:04}" for number in range(1001)]
    for name in names:
        site.lake.create_branch(site.repository, BranchName(name), head)
    assert [found.name for found in site.lake.branches(site.repository, "many-")] == names


@pytest.mark.parametrize("page", [1, 2, 3, 4, 1000])
def test_a_listing_of_branches_is_the_same_whatever_its_page(site: Site, page: int) -> None:
    head = site.lake.head(site.repository, MAIN).id
    for name in ("b-2", "a-1", "b-1", "b-3", "c-1"):
        site.lake.create_branch(site.repository, BranchName(name), head)
    assert [found.name for found in site.lake.branches(site.repository, "b-", page=page)] == ["b-1", "b-2", "b-3"]


def test_the_first_branch_of_a_listing_takes_one_request(site: Site) -> None:
    head = site.lake.head(site.repository, MAIN).id
    for number in range(3):
        site.lake.create_branch(site.repository, BranchName(f"s-{number}"), head)
    before = site.requests("branches")
    assert next(iter(site.lake.branches(site.repository, "s-", page=1))).name == "s-0"
    assert site.requests("branches") == before + 1


def test_an_interruption_moves_nothing_and_makes_no_commit(site: Site) -> None:
    base = site.publish("main", {"a": b"1"})
    before = site.lake.head(site.repository, MAIN)
    for _ in range(3):
        site.lake.interrupt_updates(site.repository, MAIN)
    assert site.lake.head(site.repository, MAIN) == before
    assert site.content("main") == {"a": b"1"}
    staged = stage(site, "s1", base, {"a": b"new"})
    site.lake.interrupt_updates(site.repository, BranchName("s1"))
    assert site.lake.commit(site.repository, merge(site, "s1")).meta_range_id == staged.meta_range_id


def test_a_new_repository_can_be_interrupted(site: Site) -> None:
    first = site.lake.head(site.repository, MAIN)
    site.lake.interrupt_updates(site.repository, MAIN)
    assert site.lake.head(site.repository, MAIN) == first


def test_a_dirty_branch_refuses_an_interruption_and_stays_as_it_is(site: Site) -> None:
    site.publish("main", {"a": b"1"})
    before = site.lake.head(site.repository, MAIN)
    site.put("main", "dirt", b"x")
    with pytest.raises(LakeConflict, match="dirty"):
        site.lake.interrupt_updates(site.repository, MAIN)
    assert site.lake.head(site.repository, MAIN) == before
    assert site.content("main") == {"a": b"1", "dirt": b"x"}


def test_a_branch_that_does_not_exist_cannot_be_interrupted(site: Site) -> None:
    with pytest.raises(LakeNotFound, match="missing"):
        site.lake.interrupt_updates(site.repository, BranchName("missing"))


def test_a_commit_keeps_message_metadata_and_parent(site: Site) -> None:
    head = site.lake.head(site.repository, MAIN).id
    site.put("main", "a", b"1")
    made = site.lake.commit_branch(site.repository, MAIN, "Grüße", {"perago.task": "ü", "k": ""})
    assert (made.message, made.metadata, made.parents) == ("Grüße", {"perago.task": "ü", "k": ""}, (head,))
    assert site.lake.head(site.repository, MAIN) == made


def test_nothing_to_commit_is_a_conflict(site: Site) -> None:
    with pytest.raises(LakeConflict, match="no changes"):
        site.lake.commit_branch(site.repository, MAIN, "m", {})


def test_an_empty_commit_is_made_if_it_is_allowed(site: Site) -> None:
    site.publish("main", {"before": b"1"})
    before = site.lake.head(site.repository, MAIN)
    made = site.lake.commit_branch(site.repository, MAIN, "m", {"k": "v" * 4000}, allow_empty=True)
    assert (made.parents, made.meta_range_id, made.metadata) == ((before.id,), before.meta_range_id, {"k": "v" * 4000})
    site.put("main", "a", b"1")
    with_content = site.lake.commit_branch(site.repository, MAIN, "m", {}, allow_empty=True)
    assert with_content.parents == (made.id,)
    assert site.content(with_content.id)["a"] == b"1"


def test_the_same_content_again_is_nothing_to_commit(site: Site) -> None:
    site.publish("main", {"a": b"1"})
    site.put("main", "a", b"1")
    site.lake.delete_objects(site.repository, MAIN, [ObjectPath("missing")])
    assert list(site.lake.uncommitted(site.repository, MAIN)) == []
    with pytest.raises(LakeConflict, match="no changes"):
        site.lake.commit_branch(site.repository, MAIN, "m", {})


def test_another_content_type_alone_is_a_change(site: Site) -> None:
    site.publish("main", {"a": b"1"})
    site.put("main", "a", b"1", "text/html")
    assert list(site.lake.uncommitted(site.repository, MAIN)) == [ObjectChange(ObjectPath("a"), ChangeType.CHANGED)]


def test_committing_a_branch_that_does_not_exist(site: Site) -> None:
    with pytest.raises(LakeNotFound):
        site.lake.commit_branch(site.repository, BranchName("missing"), "m", {})


def test_the_same_objects_have_the_same_meta_range(site: Site) -> None:
    base = site.publish("main", {"a": b"1", "b": b"2"})
    without, again = stage(site, "s1", base, {}, deletes=("b",)), stage(site, "s2", base, {}, deletes=("b",))
    assert without.meta_range_id == again.meta_range_id


def test_each_upload_makes_a_meta_range_of_its_own_even_of_equal_content(site: Site) -> None:
    base = site.publish("main", {"a": b"1", "b": b"2"})
    one, two = stage(site, "s1", base, {"a": b"new"}), stage(site, "s2", base, {"a": b"new"})
    emptied = stage(site, "s3", base, {}, deletes=("a", "b"))
    assert len({one.meta_range_id, two.meta_range_id, emptied.meta_range_id, ""}) == 4


def test_a_squash_merge_onto_its_base_is_one_commit_with_exactly_the_staged_content(site: Site) -> None:
    base = site.publish("main", {"a": b"1", "b": b"2"})
    staged = stage(site, "s1", base, {"a": b"new", "c": b"3"}, deletes=("b",))
    merged = site.lake.commit(site.repository, merge(site, "s1"))
    assert (merged.parents, merged.meta_range_id, merged.message) == ((base,), staged.meta_range_id, "publish")
    assert merged.metadata["by"] == "s1"
    assert site.lake.head(site.repository, MAIN) == merged
    assert site.content("main") == {"a": b"new", "c": b"3"}


def test_the_same_squash_merge_again_is_a_second_commit(site: Site) -> None:
    stage(site, "s1", site.publish("main", {"a": b"1"}), {"a": b"new"})
    first = merge(site, "s1")
    again = site.lake.commit(site.repository, merge(site, "s1"))
    assert again.parents == (first,)
    assert again.meta_range_id == site.lake.commit(site.repository, first).meta_range_id


def test_a_merge_onto_a_target_that_moved_merges_anew_and_its_parent_tells(site: Site) -> None:
    base = site.publish("main", {"a": b"1"})
    staged = stage(site, "s1", base, {"a": b"new"})
    moved = site.publish("main", {"other": b"x"})
    merged = site.lake.commit(site.repository, merge(site, "s1"))
    assert merged.parents == (moved,)
    assert merged.meta_range_id != staged.meta_range_id
    assert site.content("main") == {"a": b"new", "other": b"x"}


def test_a_deletion_and_an_addition_merge_with_a_target_that_moved(site: Site) -> None:
    base = site.publish("main", {"a": b"1", "b": b"2"})
    stage(site, "s1", base, {"c": b"3"}, deletes=("a",))
    site.publish("main", {"b": b"changed"})
    merge(site, "s1")
    assert site.content("main") == {"b": b"changed", "c": b"3"}


def test_a_merge_that_conflicts_changes_nothing(site: Site) -> None:
    base = site.publish("main", {"a": b"1"})
    stage(site, "s1", base, {"a": b"ours"})
    moved = site.publish("main", {"a": b"theirs"})
    with pytest.raises(LakeConflict):
        merge(site, "s1")
    assert site.lake.head(site.repository, MAIN).id == moved


def test_a_merge_without_changes_is_a_conflict(site: Site) -> None:
    site.lake.create_branch(site.repository, BranchName("s1"), site.publish("main", {"a": b"1"}))
    with pytest.raises(LakeConflict, match="no changes"):
        merge(site, "s1")


def test_uncommitted_changes_of_the_source_are_not_merged(site: Site) -> None:
    stage(site, "s1", site.publish("main", {"a": b"1"}), {"a": b"new"})
    site.put("s1", "late", b"x")
    merge(site, "s1")
    assert site.content("main") == {"a": b"new"}


def test_a_dirty_target_refuses_a_merge(site: Site) -> None:
    base = site.publish("main", {"a": b"1"})
    stage(site, "s1", base, {"a": b"new"})
    site.put("main", "dirt", b"x")
    with pytest.raises(LakeConflict, match="dirty"):
        merge(site, "s1")
    assert site.lake.head(site.repository, MAIN).id == base


def test_a_target_written_with_what_it_has_already_is_not_dirty(site: Site) -> None:
    base = site.publish("main", {"a": b"1", "b": b"2"})
    stage(site, "s1", base, {"a": b"new"})
    site.put("main", "b", b"2")
    assert site.lake.commit(site.repository, merge(site, "s1")).parents == (base,)


@pytest.mark.parametrize(("source", "target"), [("missing", "main"), ("s1", "missing")])
def test_a_merge_of_or_into_a_branch_that_is_gone(site: Site, source: str, target: str) -> None:
    stage(site, "s1", site.publish("main", {"a": b"1"}), {"a": b"new"})
    with pytest.raises(LakeNotFound):
        merge(site, source, target)


def test_a_relocation_replaces_an_abandoned_publication(site: Site) -> None:
    base = site.publish("main", {"a": b"1"})
    site.publish("main", {"a": b"abandoned"})
    staged = stage(site, "s1", base, {"a": b"new"})
    site.lake.relocate(site.repository, MAIN, BranchName("s1"), timeout=30)
    assert site.lake.head(site.repository, MAIN) == staged
    assert site.content("main") == {"a": b"new"}


def test_a_relocation_is_idempotent(site: Site) -> None:
    staged = stage(site, "s1", site.publish("main", {"a": b"1"}), {"a": b"new"})
    for _ in range(2):
        site.lake.relocate(site.repository, MAIN, BranchName("s1"), timeout=30)
    assert site.lake.head(site.repository, MAIN) == staged


@pytest.mark.parametrize(("target", "to"), [("missing", "s1"), ("main", "missing")])
def test_a_relocation_of_or_to_a_branch_that_is_gone(site: Site, target: str, to: str) -> None:
    base = site.publish("main", {"a": b"1"})
    stage(site, "s1", base, {"a": b"new"})
    with pytest.raises(LakeNotFound):
        site.lake.relocate(site.repository, BranchName(target), BranchName(to), timeout=30)
    assert site.lake.head(site.repository, MAIN).id == base


def test_a_dirty_branch_is_relocated_and_stays_dirty(site: Site) -> None:
    staged = stage(site, "s1", site.publish("main", {"a": b"1"}), {"a": b"new"})
    site.put("main", "dirt", b"x")
    site.lake.relocate(site.repository, MAIN, BranchName("s1"), timeout=30)
    assert site.lake.head(site.repository, MAIN) == staged
    assert site.content("main") == {"a": b"new", "dirt": b"x"}


def test_a_protected_branch_takes_merges_and_interruptions_and_nothing_else(site: Site) -> None:
    base = site.publish("main", {"a": b"1"})
    stage(site, "s1", base, {"a": b"new"})
    site.protect(MAIN)
    calls = [
        lambda: site.lake.relocate(site.repository, MAIN, BranchName("s1"), timeout=30),
        lambda: site.lake.commit_branch(site.repository, MAIN, "m", {}),
        lambda: site.lake.delete_objects(site.repository, MAIN, [ObjectPath("a")]),
    ]
    for call in calls:
        with pytest.raises(LakeForbidden, match=r"protected branch|branch is protected"):
            call()
    site.lake.interrupt_updates(site.repository, MAIN)
    assert site.lake.commit(site.repository, merge(site, "s1")).parents == (base,)


def test_uncommitted_tells_added_changed_and_removed_in_order(site: Site) -> None:
    site.publish("main", {"a": b"1", "b": b"2"})
    site.put("main", "c", b"3")
    site.put("main", "b", b"new")
    site.lake.delete_objects(site.repository, MAIN, [ObjectPath("a")])
    found = [(change.path, change.type) for change in site.lake.uncommitted(site.repository, MAIN)]
    assert found == [("a", ChangeType.REMOVED), ("b", ChangeType.CHANGED), ("c", ChangeType.ADDED)]


def test_uncommitted_of_a_branch_that_does_not_exist(site: Site) -> None:
    with pytest.raises(LakeNotFound):
        list(site.lake.uncommitted(site.repository, BranchName("missing")))


def test_differences_are_those_between_two_commits_with_sizes_in_order(site: Site) -> None:
    before = site.publish("main", {"a": b"1", "b": b"2", "same": b"x"})
    site.put("main", "c", b"333")
    site.put("main", "b", b"22")
    site.lake.delete_objects(site.repository, MAIN, [ObjectPath("a")])
    after = site.publish("main", {})
    site.put("main", "uncommitted", b"x")
    found = [(one.path, one.type, one.size) for one in site.lake.differences(site.repository, before, after)]
    assert found == [("a", ChangeType.REMOVED, 1), ("b", ChangeType.CHANGED, 2), ("c", ChangeType.ADDED, 3)]
    back = [(one.path, one.type, one.size) for one in site.lake.differences(site.repository, after, before)]
    assert back == [("a", ChangeType.ADDED, 1), ("b", ChangeType.CHANGED, 1), ("c", ChangeType.REMOVED, 3)]
    assert list(site.lake.differences(site.repository, after, after)) == []
    with pytest.raises(LakeNotFound):
        list(site.lake.differences(site.repository, after, NO_COMMIT))


def test_a_commit_tells_its_time(site: Site) -> None:
    first = site.lake.head(site.repository, MAIN)
    made = site.lake.commit(site.repository, site.publish("main", {"a": b"1"}))
    assert 0 < first.created <= made.created


def test_a_revert_takes_back_one_commit_and_keeps_the_others(site: Site) -> None:
    site.publish("main", {"a": b"1", "b": b"1", "same": b"x"})
    site.put("main", "a", b"new")
    site.put("main", "added", b"new")
    site.lake.delete_objects(site.repository, MAIN, [ObjectPath("b")])
    undone = site.lake.commit(site.repository, site.publish("main", {}))
    later = site.publish("main", {"later": b"x"})
    made = site.lake.revert(site.repository, MAIN, undone, "take it back")
    assert (made.parents, made.message) == ((later,), "take it back")
    assert site.lake.head(site.repository, MAIN) == made
    assert site.content("main") == {"a": b"1", "b": b"1", "same": b"x", "later": b"x"}
    with pytest.raises(LakeConflict, match="no changes"):
        site.lake.revert(site.repository, MAIN, undone, "again")
    assert site.lake.head(site.repository, MAIN) == made


def test_a_revert_of_what_was_changed_since_is_a_conflict(site: Site) -> None:
    site.publish("main", {"a": b"1"})
    undone = site.lake.commit(site.repository, site.publish("main", {"a": b"2", "b": b"2"}))
    head = site.publish("main", {"a": b"3"})
    with pytest.raises(LakeConflict):
        site.lake.revert(site.repository, MAIN, undone, "take it back")
    assert site.lake.head(site.repository, MAIN).id == head


def test_differences_hold_what_makes_an_object_the_same(site: Site) -> None:
    before = site.publish("main", {"a": b"1", "b": b"2"})
    branch = BranchName("changes")
    site.lake.create_branch(site.repository, branch, before)
    site.lake.delete_objects(site.repository, branch, [ObjectPath("b")])
    described = [
        SmallFile(ObjectPath("a"), b"1", "text/x", {"key": "value"}),
        SmallFile(ObjectPath("c"), b"3", "application/octet-stream", {}),
    ]
    list(site.lake.write_small(site.repository, branch, described))
    after = site.lake.commit_branch(site.repository, branch, "change", {}).id
    found = list(site.lake.differences(site.repository, before, after, page=1))
    assert found == [
        ObjectDifference(ObjectPath("a"), ChangeType.CHANGED, 1, hashlib.md5(b"1").hexdigest(), "text/x", {"key": "value"}),
        ObjectDifference(ObjectPath("b"), ChangeType.REMOVED, 1),
        ObjectDifference(ObjectPath("c"), ChangeType.ADDED, 1, hashlib.md5(b"3").hexdigest(), "application/octet-stream"),
    ]


def test_a_copied_object_is_the_same_object(site: Site) -> None:
    base = site.publish("main", {"a": b"1"})
    for name in ("source", "copy"):
        site.lake.create_branch(site.repository, BranchName(name), base)
    file = SmallFile(ObjectPath("d/ü +%"), b"data", "text/x", {"key": "value"})
    list(site.lake.write_small(site.repository, BranchName("source"), [file]))
    source = site.lake.commit_branch(site.repository, BranchName("source"), "source", {}).id
    site.lake.copy_object(site.repository, BranchName("copy"), file.path, source)
    copied = site.lake.commit_branch(site.repository, BranchName("copy"), "copy", {}).id
    assert list(site.lake.differences(site.repository, source, copied)) == []
    assert site.content(copied) == {"a": b"1", "d/ü +%": b"data"}
    with pytest.raises(LakeNotFound):
        site.lake.copy_object(site.repository, BranchName("copy"), ObjectPath("missing"), source)


def test_a_commit_is_merged_by_its_id(site: Site) -> None:
    base = site.publish("main", {"a": b"1"})
    staged = stage(site, "staging", base, {"b": b"2"})
    site.lake.delete_branch(site.repository, BranchName("staging"))
    merged = site.lake.merge(site.repository, staged.id, BranchName("main"), message="by id", metadata={}, timeout=30)
    made = site.lake.commit(site.repository, merged)
    assert (made.parents, made.meta_range_id) == ((base,), staged.meta_range_id)
