import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.errors import WorkspaceError
from perago.model import FilePath, ObjectInfo, ObjectPath, is_marker
from perago.workspace import path_mapping


def local(prefix: str, path: str, size: int = 1) -> FilePath | None:
    return path_mapping.to_local(prefix, ObjectInfo(ObjectPath(path), size, ""))


@pytest.mark.parametrize(
    ("prefix", "listed"), [("/", ""), ("", ""), ("/audio/render", "audio/render/"), ("audio/", "audio/"), ("a b", "a b/")]
)
def test_a_listing_prefix_ends_in_a_slash_or_is_the_root(prefix: str, listed: str) -> None:
    assert path_mapping.listing_prefix(prefix) == listed


@pytest.mark.parametrize("prefix", ["../x", "a/../b", "a//b", "./a", "a/\0"])
def test_a_prefix_stays_inside_the_repository(prefix: str) -> None:
    with pytest.raises(WorkspaceError, match="workspace prefix"):
        path_mapping.listing_prefix(prefix)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("p//x", "begins or ends with '/'"),
        ("p/a//b", "empty segment"),
        ("p/a/", "begins or ends with '/'"),
        ("p/.", "'.' segment"),
        ("p/../etc/passwd", "'..' segment"),
        ("p/a/..", "'..' segment"),
        ("p/a\0b", "NUL"),
        ("p/" + "x" * 256, "256 bytes"),
        ("p/" + "é" * 128, "256 bytes"),
        ("p/bad\ufffdname", "U+FFFD"),
        ("p/\ud800", "not valid UTF-8"),
    ],
)
def test_an_object_that_no_local_path_can_hold_is_an_error_that_names_it(path: str, why: str) -> None:
    with pytest.raises(WorkspaceError, match=re.escape(why)) as caught:
        local("p/", path)
    assert repr(path) in str(caught.value)


@pytest.mark.parametrize(
    ("path", "size"),
    [("p/", 0), ("p/dir/", 0), ("p/a//", 0), ("p/.perago-attempt.json", 7), ("p/sub/.perago-attempt.json", 7)],
)
def test_markers_are_not_mapped(path: str, size: int) -> None:
    assert local("p/", path, size) is None


def test_hook_files_of_lakefs_are_never_part_of_a_workspace() -> None:
    assert local("", "_lakefs_actions/fence.yaml") is None
    with pytest.raises(WorkspaceError, match="lakeFS hooks"):
        path_mapping.to_object("", FilePath("_lakefs_actions/evil.yaml"))
    assert path_mapping.to_object("p/", FilePath("_lakefs_actions/data")) == "p/_lakefs_actions/data"


@pytest.mark.parametrize(
    "name",
    ["a\\b", "C:x", "100%", "a+b", "a#b?c", " spaced ", "emoji-🎧", "new\nline", "\x1b[0m", "x.perago-attempt.json", "..."],
)
def test_names_that_linux_can_hold_round_trip(name: str) -> None:
    path = path_mapping.to_object("p/", FilePath(name))
    assert local("p/", path) == name


def test_an_object_path_may_have_1024_bytes_and_not_one_more() -> None:
    longest = "/".join(["x" * 200] * 6)[: 1024 - 2]
    assert len(path_mapping.to_object("p/", FilePath(longest))) == 1024
    with pytest.raises(WorkspaceError, match="1025 bytes"):
        path_mapping.to_object("p/", FilePath(longest + "x"))


def test_a_file_name_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(WorkspaceError, match="not valid UTF-8"):
        path_mapping.to_object("", FilePath(b"caf\xe9".decode("utf-8", "surrogateescape")))


@given(st.text(min_size=1, max_size=300), st.sampled_from(["", "p/", "a/b/"]))
def test_uploaded_name_downloads_as_the_same_file_or_is_refused(name: str, prefix: str) -> None:
    try:
        path = path_mapping.to_object(prefix, FilePath(name))
    except WorkspaceError:
        return
    if not is_marker(name):
        assert local(prefix, path) == name


@given(st.text(min_size=1, max_size=40), st.integers(0, 1))
def test_downloaded_name_uploads_as_the_same_object_or_is_refused(rest: str, size: int) -> None:
    try:
        found = local("p/", "p/" + rest, size)
    except WorkspaceError:
        return
    if found is not None:
        assert path_mapping.to_object("p/", found) == "p/" + rest


@pytest.mark.parametrize("order", [["a", "a/b"], ["a/b", "a"], ["x/a/b/c", "x/a"], ["x/a", "x/a/b/c"]])
def test_a_file_beside_a_directory_of_the_same_name_is_refused(order: list[str]) -> None:
    watch = path_mapping.CollisionDetector(folds=False)
    watch.add(FilePath(order[0]))
    with pytest.raises(WorkspaceError, match="a file and a directory at once"):
        watch.add(FilePath(order[1]))


@pytest.mark.parametrize("pair", [("Foo", "foo"), ("caf\u00e9", "cafe\u0301"), ("Dir/a", "dir/b"), ("\u00df", "SS")])
def test_names_that_fold_together_collide_only_where_the_file_system_folds(pair: tuple[str, str]) -> None:
    plain = path_mapping.CollisionDetector(folds=False)
    for name in pair:
        plain.add(FilePath(name))
    folding = path_mapping.CollisionDetector(folds=True)
    folding.add(FilePath(pair[0]))
    with pytest.raises(WorkspaceError, match="on this file system"):
        folding.add(FilePath(pair[1]))


def test_each_directory_is_needed_once_and_parents_come_first() -> None:
    watch = path_mapping.CollisionDetector(folds=False)
    assert list(watch.add(FilePath("a/b/c/1"))) == ["a", "a/b", "a/b/c"]
    assert list(watch.add(FilePath("a/b/c/2"))) == []
    assert list(watch.add(FilePath("a/b/d/1"))) == ["a/b/d"]
    assert list(watch.add(FilePath("top"))) == []
