"""Conformance suite for listing, reading, writing and deleting objects, on the in-memory lake and on lakeFS."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.lake_sites import MAIN, Site, file

from perago.errors import LakeConflict, LakeCorrupt, LakeError, LakeNotFound, LakeRejected, WorkspaceError
from perago.lake.port import PAGE, ChangeType, SmallFile
from perago.model import BranchName, CommitId, ObjectInfo, ObjectPath

HOSTILE = [
    "plain",
    "with space",
    " leading and trailing ",
    "a+b%20c%2Fd",
    "q?x=1&y=2#z",
    "emoji-😀/ünï",
    "new\nline",
    "tab\tand\x1besc",
    "back\\slash",
    "C:x",
    "'quotes\"",
    "semi;colon,comma",
    "/absolute",
    "a//b",
    "../../up",
    ".",
    "dir/",
    "nul\0byte",
    "é" * 512,
    "x" * 1024,
]


def write(
    site: Site,
    path: str,
    source: Path,
    *,
    branch: str = "main",
    content_type: str = "text/plain",
    metadata: dict[str, str] | None = None,
) -> ObjectInfo:
    return site.lake.write(
        site.repository, BranchName(branch), ObjectPath(path), source, content_type=content_type, metadata=metadata or {}
    )


def listed(site: Site, prefix: str = "", ref: str = "main") -> list[ObjectInfo]:
    found: list[ObjectInfo] = []
    after = None
    while True:
        page = site.lake.objects(site.repository, CommitId(ref), prefix, after)
        found.extend(page.objects)
        if (after := page.after) is None:
            return found


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name)[:30])
def test_a_hostile_name_goes_out_and_comes_back(site: Site, tmp_path: Path, name: str) -> None:
    data = name.encode() * 3
    sent = write(site, name, file(tmp_path, data))
    assert [info.path for info in listed(site)] == [name]
    assert listed(site)[0] == sent
    assert site.content("main") == {name: data}
    assert site.lake.read(site.repository, MAIN, sent, tmp_path / "into") == hashlib.md5(data).hexdigest()
    assert (tmp_path / "into").read_bytes() == data
    site.lake.delete_objects(site.repository, MAIN, [sent.path])
    assert site.content("main") == {}


@pytest.mark.parametrize("name", ["", "x" * 1025, "é" * 513, "surrogate-\udcff"])
def test_a_name_that_lakefs_cannot_hold_is_rejected(site: Site, tmp_path: Path, name: str) -> None:
    with pytest.raises(LakeRejected):
        write(site, name, file(tmp_path, b"x"))
    assert site.content("main") == {}


@pytest.mark.parametrize("size", [0, 1, 64 * 1024, 64 * 1024 + 1, 3 * 1024 * 1024 + 7])
def test_content_of_any_size_round_trips(site: Site, tmp_path: Path, size: int) -> None:
    data = bytes(range(251)) * (size // 251 + 1)
    data = data[:size]
    sent = write(site, "data", file(tmp_path, data))
    assert (sent.size, sent.checksum) == (size, hashlib.md5(data).hexdigest())
    site.lake.read(site.repository, MAIN, sent, tmp_path / "into")
    assert (tmp_path / "into").read_bytes() == data


def test_what_another_writer_wrote_is_read_back(site: Site, tmp_path: Path) -> None:
    commit = site.publish("main", {"theirs": b"content"})
    info = listed(site, ref=commit)[0]
    site.lake.read(site.repository, commit, info, tmp_path / "into")
    assert (tmp_path / "into").read_bytes() == b"content"
    assert (info.content_type, info.metadata, info.size) == ("text/plain", {}, 7)


@pytest.mark.parametrize(
    "metadata",
    [{}, {"perago-mode": "0755"}, {"k": "ünï 😀"}, {"X-Amz-Meta-Key": "kept"}, {"k": " spaces "}, {"k": "a\nb", "schlüssel": ""}],
)
def test_content_type_and_metadata_are_kept_exactly(site: Site, tmp_path: Path, metadata: dict[str, str]) -> None:
    sent = write(site, "a", file(tmp_path, b"1"), content_type="application/x-perago; v=1", metadata=metadata)
    assert (sent.content_type, sent.metadata) == ("application/x-perago; v=1", metadata)
    assert listed(site)[0] == sent


def test_metadata_is_part_of_an_objects_identity(site: Site, tmp_path: Path) -> None:
    source = file(tmp_path, b"1")
    write(site, "a", source, metadata={"k": "v"})
    site.lake.commit_branch(site.repository, MAIN, "first", {})
    write(site, "a", source, metadata={"k": "v"})
    with pytest.raises(LakeConflict, match="no changes"):
        site.lake.commit_branch(site.repository, MAIN, "same", {})
    write(site, "a", source, metadata={"k": "other"})
    assert [change.type for change in site.lake.uncommitted(site.repository, MAIN)] == [ChangeType.CHANGED]


@pytest.mark.parametrize("kind", ["text/plain\r\nX-Evil: 1", "multipart/form-data; boundary=x", "text/ünï"])
def test_a_content_type_that_cannot_be_told_is_rejected(site: Site, tmp_path: Path, kind: str) -> None:
    with pytest.raises(LakeRejected, match="content type"):
        write(site, "a", file(tmp_path, b"1"), content_type=kind)
    assert site.content("main") == {}


def test_listing_keeps_to_the_prefix_in_byte_order(site: Site) -> None:
    names = ["audio/render/b", "audio/render/a", "audio/render2/x", "audio/render/é", "audio/render/~", "z", "audio/render/😀"]
    commit = site.publish("main", dict.fromkeys(names, b"1"))
    found = [info.path for info in listed(site, "audio/render/", commit)]
    assert found == sorted((name for name in names if name.startswith("audio/render/")), key=str.encode)


def test_listing_goes_on_beyond_a_page(site: Site, tmp_path: Path) -> None:
    source = file(tmp_path, b"1")
    names = [f"many/{number:04}" for number in range(PAGE + 1)]
    for name in names:
        write(site, name, source)
    page = site.lake.objects(site.repository, MAIN, "many/")
    assert (len(page.objects), page.after) == (PAGE, names[PAGE - 1])
    assert [info.path for info in listed(site, "many/")] == names
    assert len(list(site.lake.uncommitted(site.repository, MAIN))) == PAGE + 1


def test_a_full_page_that_is_the_last_one_ends_the_listing(site: Site, tmp_path: Path) -> None:
    source = file(tmp_path, b"1")
    for number in range(PAGE):
        write(site, f"{number:04}", source)
    assert site.lake.objects(site.repository, MAIN, "").after is None


def test_listing_an_unknown_ref(site: Site) -> None:
    with pytest.raises(LakeNotFound):
        site.lake.objects(site.repository, BranchName("missing"), "")


def test_a_commit_is_read_as_it_was_and_a_branch_with_its_uncommitted_changes(site: Site) -> None:
    commit = site.publish("main", {"a": b"1"})
    site.put("main", "b", b"2")
    assert [info.path for info in listed(site, ref=commit)] == ["a"]
    assert [info.path for info in listed(site)] == ["a", "b"]


@pytest.mark.parametrize("ref", ["main", "missing"])
def test_reading_what_is_not_there_leaves_no_file(site: Site, tmp_path: Path, ref: str) -> None:
    with pytest.raises(LakeNotFound):
        site.lake.read(site.repository, BranchName(ref), ObjectInfo(ObjectPath("missing"), 1, "x"), tmp_path / "into")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("size", "checksum"), [(7, "0" * 32), (8, hashlib.md5(b"content").hexdigest()), (6, "not an md5")])
def test_other_bytes_than_announced_are_corrupt_and_leave_no_file(site: Site, tmp_path: Path, size: int, checksum: str) -> None:
    site.put("main", "a", b"content")
    with pytest.raises(LakeCorrupt, match="'a'"):
        site.lake.read(site.repository, MAIN, ObjectInfo(ObjectPath("a"), size, checksum), tmp_path / "into")
    assert list(tmp_path.iterdir()) == []


def test_a_checksum_that_is_no_md5_is_not_compared(site: Site, tmp_path: Path) -> None:
    site.put("main", "a", b"content")
    info = ObjectInfo(ObjectPath("a"), 7, "d41d8cd98f00b204e9800998ecf8427e-3")
    assert site.lake.read(site.repository, MAIN, info, tmp_path / "into") == hashlib.md5(b"content").hexdigest()


def test_a_part_of_an_object(site: Site) -> None:
    site.put("main", "a", b"0123456789")
    (info,) = listed(site)
    got = bytearray(b"." * 10)

    def write(data: memoryview, position: int) -> None:
        got[position : position + len(data)] = data

    assert site.lake.read_part(site.repository, MAIN, info, 2, 3, write)
    assert bytes(got) == b"..234....."
    assert site.lake.read_part(site.repository, MAIN, info, 0, 10, write)
    assert bytes(got) == b"0123456789"
    with pytest.raises(LakeError, match="'a'"):
        site.lake.read_part(site.repository, MAIN, replace(info, size=20), 15, 5, write)


def test_what_lakefs_stored_is_compared_with_an_md5_that_is_known(site: Site, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"content")
    labels: dict[str, Any] = {"content_type": "x/y", "metadata": {}}
    where = (site.repository, MAIN, ObjectPath("a"), tmp_path / "a")
    assert site.lake.write(*where, **labels, md5=hashlib.md5(b"content").hexdigest()).size == 7
    with pytest.raises(LakeCorrupt, match="MD5"):
        site.lake.write(*where, **labels, md5="0" * 32)


def test_small_objects_come_together_in_the_order_they_were_asked_for(site: Site) -> None:
    content = {f"d/{number:03}": b"%d" % number * number for number in range(40)}
    commit = site.publish("main", content)
    wanted = list(reversed(listed(site, ref=commit)))
    assert list(site.lake.read_small(site.repository, commit, wanted)) == [
        (hashlib.md5(content[info.path]).hexdigest(), content[info.path]) for info in wanted
    ]
    assert list(site.lake.read_small(site.repository, commit, [])) == []


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (ObjectInfo(ObjectPath("missing"), 1, "x"), LakeNotFound),
        (ObjectInfo(ObjectPath("a"), 7, "0" * 32), LakeCorrupt),
        (ObjectInfo(ObjectPath("a"), 8, "no md5"), LakeCorrupt),
        (ObjectInfo(ObjectPath("a"), 6, "no md5"), LakeCorrupt),
    ],
)
def test_a_wrong_one_among_small_objects_is_named_after_those_before_it(
    site: Site, wrong: ObjectInfo, error: type[Exception]
) -> None:
    commit = site.publish("main", {"a": b"content", "b": b"other"})
    first, last = listed(site, ref=commit)
    coming = site.lake.read_small(site.repository, commit, [first, wrong, last])
    assert next(coming) == (hashlib.md5(b"content").hexdigest(), b"content")
    with pytest.raises(error, match=repr(wrong.path)):
        next(coming)


def small(path: str, data: bytes, **metadata: str) -> SmallFile:
    return SmallFile(ObjectPath(path), data, "text/plain", metadata)


@pytest.mark.parametrize("metadata", [{}, {"key": "value"}, {"Upper": "no header holds this"}])
def test_small_files_go_out_together_in_order(site: Site, metadata: dict[str, str]) -> None:
    content = {f"d/{number:03}": b"%d" % number * number for number in range(30)}
    sent = list(site.lake.write_small(site.repository, MAIN, [small(path, data, **metadata) for path, data in content.items()]))
    assert [info.path for info in sent] == list(content)
    assert [(info.size, info.checksum) for info in sent] == [(len(d), hashlib.md5(d).hexdigest()) for d in content.values()]
    assert site.content("main") == content
    assert all((info.content_type, info.metadata) == ("text/plain", metadata) for info in listed(site))
    assert list(site.lake.write_small(site.repository, MAIN, [])) == []


def test_small_files_for_a_branch_that_is_not_there(site: Site) -> None:
    with pytest.raises(LakeNotFound, match="missing"):
        list(site.lake.write_small(site.repository, BranchName("missing"), [small("a", b"1"), small("b", b"2")]))


def test_a_small_file_with_a_name_that_lakefs_cannot_hold(site: Site) -> None:
    with pytest.raises(LakeRejected):
        list(site.lake.write_small(site.repository, MAIN, [small("a", b"1"), small("x" * 1025, b"2")]))


def test_an_existing_file_is_never_overwritten(site: Site, tmp_path: Path) -> None:
    site.put("main", "a", b"content")
    (tmp_path / "into").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WorkspaceError, match="into"):
        site.lake.read(site.repository, MAIN, listed(site)[0], tmp_path / "into")
    assert not (tmp_path / "elsewhere").exists()
    assert (tmp_path / "into").is_symlink()


def test_reading_into_a_folder_that_does_not_exist(site: Site, tmp_path: Path) -> None:
    site.put("main", "a", b"content")
    with pytest.raises(WorkspaceError):
        site.lake.read(site.repository, MAIN, listed(site)[0], tmp_path / "missing" / "into")


def test_writing_a_file_that_is_gone(site: Site, tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="nothing-here"):
        write(site, "a", tmp_path / "nothing-here")


def test_writing_to_a_branch_that_does_not_exist(site: Site, tmp_path: Path) -> None:
    with pytest.raises(LakeNotFound, match="missing"):
        write(site, "a", file(tmp_path, b"1"), branch="missing")


def test_deleting_missing_objects_is_no_error(site: Site) -> None:
    site.publish("main", {"a": b"1", "b": b"2"})
    site.lake.delete_objects(site.repository, MAIN, [ObjectPath("a"), ObjectPath("missing")])
    site.lake.delete_objects(site.repository, MAIN, [])
    assert site.content("main") == {"b": b"2"}


def test_deleting_from_a_branch_that_does_not_exist_passes_unnoticed(site: Site) -> None:
    """lakeFS answers 200; only the following commit fails."""
    gone = BranchName("missing")
    site.lake.delete_objects(site.repository, gone, [ObjectPath("a")])
    with pytest.raises(LakeError):
        site.lake.commit_branch(site.repository, gone, "m", {})


def test_a_page_of_deletes_is_taken_and_one_more_is_rejected(site: Site) -> None:
    site.publish("main", {"a": b"1"})
    paths = [ObjectPath("a"), *(ObjectPath(f"missing-{number}") for number in range(PAGE))]
    with pytest.raises(LakeRejected, match="1000"):
        site.lake.delete_objects(site.repository, MAIN, paths)
    assert site.content("main") == {"a": b"1"}
    site.lake.delete_objects(site.repository, MAIN, paths[:PAGE])
    assert site.content("main") == {}
