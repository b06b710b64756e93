"""Trees with unusual names and contents: a staged tree is downloaded unchanged, or refused with one error and no effect."""

import itertools
import os
import tempfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support import workspaces

from perago.errors import WorkspaceError
from perago.workspace import options

SEGMENTS = st.one_of(
    st.sampled_from(
        [
            "a",
            "b",
            "A",
            "a.b",
            "...",
            "-",
            "%2F",
            "+",
            " ",
            "a b",
            "C:x",
            "a\\b",
            "é",
            "e\u0301",
            "🎧",
            "\n",
            ".perago-attempt.json",
        ]
    ),
    st.sampled_from(["x" * 255, "\ufffd", "bad\udcff"]),
    st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=6).filter(
        lambda name: name not in {".", ".."}
    ),
)
PATHS = st.lists(SEGMENTS, min_size=1, max_size=3).map("/".join)
CONTENTS = st.sampled_from([b"", b"x", b"same", b"SAME", bytes(70_000)]) | st.binary(max_size=40)


def is_tree(files: dict[str, bytes]) -> bool:
    """No path is a directory of another, and none is Perago's marker."""
    directories = {str(parent) for path in files for parent in PurePosixPath(path).parents}
    return not directories & files.keys() and ".perago-attempt.json" not in {path.split("/")[-1] for path in files}


TREES = st.dictionaries(PATHS, CONTENTS, max_size=6).filter(is_tree)


def is_storable(files: dict[str, bytes]) -> bool:
    return not any("\ufffd" in path or any("\ud800" <= character <= "\udfff" for character in path) for path in files)


def round_trip(harness: workspaces.WorkspaceHarness, first: dict[str, bytes], second: dict[str, bytes], prefix: str) -> None:
    commit = harness.setup.commit({f"{prefix}/seed": b"seed", f"{prefix}2/beside": b"beside"})
    for files in (first, second):
        with harness.opened(commit, prefix) as workspace:
            root = workspace.argument()
            for path in workspaces.read(root):
                (root / path).unlink()
            for path in sorted(root.rglob("*"), reverse=True):
                path.rmdir()
            workspaces.write(root, files)
            if not is_storable(files):
                refused(workspace.changed)
                continue
            commit = harness.publish(workspace, commit)
        assert {path: info.checksum for path, info in harness.objects(commit, prefix + "/").items()} == {
            f"{prefix}/{path}": workspaces.md5(data) for path, data in files.items()
        }
        for chosen in (harness.settings, options.WorkspaceOptions(harness.settings.root, cache_bytes=0)):
            with harness.opened(commit, prefix, settings=chosen) as workspace:
                assert workspaces.read(workspace.argument()) == files
                assert workspace.changed().is_empty
    assert f"{prefix}2/beside" in harness.objects(commit)


def refused(action: Callable[[], object]) -> None:
    try:
        action()
    except WorkspaceError as error:
        assert "cannot be published" in str(error)  # noqa: PT017
    else:
        raise AssertionError("a name that cannot be stored was accepted")


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=TREES, second=TREES)
def test_trees_round_trip_through_the_fake(first: dict[str, bytes], second: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        round_trip(workspaces.WorkspaceHarness(workspaces.MemoryLakeSetup(), Path(scratch)), first, second, "p")


_COUNT = itertools.count()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(first=TREES, second=TREES)
def test_trees_round_trip_through_lakefs(
    server_setup: workspaces.ServerLakeSetup, first: dict[str, bytes], second: dict[str, bytes]
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        round_trip(workspaces.WorkspaceHarness(server_setup, Path(scratch)), first, second, f"example-{next(_COUNT)}")


@pytest.mark.slow
@pytest.mark.parametrize("thousands", [20, pytest.param(100, marks=pytest.mark.chaos)])
def test_many_files_are_scanned_and_compared(tmp_path: Path, thousands: int) -> None:
    setup = workspaces.MemoryLakeSetup()
    harness = workspaces.WorkspaceHarness(setup, tmp_path)
    base = setup.commit({"p/seed": b"1"})
    with harness.opened(base, "p", settings=options.WorkspaceOptions(tmp_path, cache_bytes=0)) as workspace:
        root = workspace.argument()
        for shard in range(thousands):
            (root / str(shard)).mkdir()
            (root / str(shard) / "0").touch()
            for n in range(1, 1000):  # links, because as many new inodes would take most of the test's time
                os.link(root / str(shard) / "0", root / str(shard) / str(n))
        change = workspace.changed()
        assert len(change.uploads) == 1000 * thousands
        assert len(workspace.listing().files) == 1000 * thousands + 1
