"""`perago import` on the real servers: what is uploaded, what is refused, and that no attempt removes the commit."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

import pytest
from tests.support.operator import MAIN, OperatorHarness

from perago.lake.client import LakeFS
from perago.lake.port import SmallFile
from perago.model import BranchName, CommitId, ObjectInfo, Repository
from perago.protocol import commit_labels
from perago.workspace.transfer import upload


@pytest.fixture
def folder(harness: OperatorHarness) -> Path:
    made = harness.folder / "data"
    fill(made, {"a.txt": b"one", "sub/b.bin": b"two" * 1000, "sub/run.sh": b"#!/bin/sh\n"})
    (made / "sub" / "run.sh").chmod(0o755)
    return made


def fill(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def content(harness: OperatorHarness, prefix: str = "") -> dict[str, int]:
    return {info.path: info.size for info in harness.server.lake.objects(harness.repository, MAIN, prefix).objects}


def test_only_what_differs_is_uploaded_and_one_commit_is_made(harness: OperatorHarness, folder: Path) -> None:
    said = harness.perago("import", "data", f"{harness.target}/in", "--json")
    assert (said.code, said.err) == (0, "uploading 3 files, 3.01 kB\n")
    head = harness.head()
    counts = {"added": 3, "changed": 0, "deleted": 0, "bytes": 3013}
    place = {"repository": harness.repository, "branch": "main", "prefix": "in/", "created": None}
    assert said.json == {"commit": head.id, "parent": head.parents[0], **place, **counts, "kept": 0}
    assert content(harness) == {"in/a.txt": 3, "in/sub/b.bin": 3000, "in/sub/run.sh": 10}

    # Only the stat data differs: nothing to upload, no commit.
    os.utime(folder / "a.txt", (1, 1))
    with mock.patch.object(upload, "upload_changes", side_effect=AssertionError):
        again = harness.perago("import", "data", f"{harness.target}/in")
    assert (again.code, again.out) == (0, f"nothing differs: {harness.target} is at {head.id}\n")
    assert harness.head().id == head.id

    (folder / "a.txt").write_bytes(b"ONE")
    (folder / "sub" / "b.bin").unlink()
    kept = harness.perago("import", "data", f"{harness.target}/in", "-m", "a correction")
    assert kept.out.splitlines()[0] == (
        "0 added, 1 changed, 0 deleted, 3 B uploaded; 1 objects that the folder does not have stay"
    )
    assert harness.head().message == "a correction"
    assert content(harness).keys() == {"in/a.txt", "in/sub/b.bin", "in/sub/run.sh"}

    deleted = harness.perago("import", "data", f"{harness.target}/in", "--delete", "--json").json
    assert (deleted["added"], deleted["changed"], deleted["deleted"]) == (0, 0, 1)
    assert content(harness).keys() == {"in/a.txt", "in/sub/run.sh"}
    assert harness.staging_branches() == []


def test_delete_stays_below_the_prefix_and_leaves_hooks_alone(harness: OperatorHarness, folder: Path) -> None:
    harness.write("elsewhere/x")
    harness.by_hand("in2/x")
    assert harness.perago("protect", harness.repository, "main").code == 0
    hook = "_lakefs_actions/perago_protect_main.yaml"
    imported = {"a.txt", "sub/b.bin", "sub/run.sh"}
    assert harness.perago("import", "data", f"{harness.target}/in", "--delete").code == 0
    assert content(harness).keys() == {hook, "elsewhere/x", "in2/x", *(f"in/{path}" for path in imported)}
    assert harness.perago("import", "data", harness.target, "--delete").code == 0
    assert content(harness).keys() == {hook, *imported}


def test_repository_and_branch_are_made_if_asked_to(harness: OperatorHarness, folder: Path) -> None:
    name = f"{harness.repository}-made"
    said = harness.perago("import", "data", name)
    assert said.code == 1
    assert f"error: repository {name} does not exist in lakeFS at {harness.stack.lakefs_url}; --create makes it" in said.err
    try:
        made = harness.perago("import", "data", name, "--create", "--json").json
        assert (made["created"], made["branch"], made["added"]) == ("repository", "main", 3)
        side = harness.perago("import", "data", f"{name}/side")
        assert f"error: branch side does not exist in repository {name}; --create makes it" in side.err
        made = harness.perago("import", "data", f"{name}/side/more", "--create", "--json").json
        assert (made["created"], made["branch"], made["prefix"]) == ("branch", "side", "more/")
        # A visible branch, unlike those of attempts.
        shown = harness.server.lake.branch(Repository(name), BranchName("side"))
        assert shown == made["commit"]
    finally:
        harness.server.remove(name)


def test_a_store_without_a_default_place_needs_a_namespace(harness: OperatorHarness, folder: Path) -> None:
    storage = {"blockstore_type": "s3", "blockstore_namespace_example": "s3://example-bucket/", "default_namespace_prefix": ""}
    with mock.patch("perago.operate.servers.LakeSettings.configuration", return_value={"storage_config": storage}):
        said = harness.perago("import", "data", f"{harness.repository}-new", "--create")
    assert said.code == 1
    assert (
        f"pass --storage-namespace with an empty place in its s3 store, such as s3://example-bucket/{harness.repository}-new"
        in said.err
    )
    wrong = harness.perago("import", "data", harness.repository, "--storage-namespace", "local://x")
    assert (wrong.code, "only a new repository takes it; add --create" in wrong.err) == (2, True)


def test_what_cannot_be_an_object_is_refused_before_a_request(harness: OperatorHarness, folder: Path) -> None:
    before = harness.head().id
    (folder / "link").symlink_to("a.txt")
    said = harness.perago("import", "data", harness.target)
    assert (said.code, said.err) == (1, "error: workspace publication does not support symlinks: link [PG-340]\n")
    (folder / "link").unlink()
    os.mkfifo(folder / "pipe")
    assert "workspace publication does not support fifos: pipe" in harness.perago("import", "data", harness.target).err
    (folder / "pipe").unlink()
    assert harness.perago("import", "data/a.txt", harness.target).err == "error: data/a.txt is not a folder [PG-100]\n"
    assert "cannot be used" in harness.perago("import", "data", f"{harness.target}/a//b").err
    assert harness.head().id == before
    harness.by_hand("a.txt/below")
    said = harness.perago("import", "data", harness.target)
    assert "is a file and a directory at once" in said.err
    assert harness.perago("import", "data", harness.target, "--delete").code == 0


def test_it_is_shown_as_an_operators_commit_and_no_attempt_removes_it(harness: OperatorHarness, folder: Path) -> None:
    published = harness.accepted(harness.by_hand("in/x"))
    made = harness.perago("import", "data", harness.target, "--json").json["commit"]
    assert harness.head().metadata[commit_labels.IMPORT] == "data"
    (newest, *_) = harness.perago("log", harness.target, "--json").json["publications"]
    assert (newest["commit"], newest["standing"], newest["command"]) == (made, "operator", "import")
    shown = harness.perago("log", harness.target).out.splitlines()[0]
    assert "operator" in shown
    assert "import of data by " in shown
    # A step whose input is older is refused, with or without a change.
    with pytest.raises(AssertionError, match=f"the target branch is at {made}, made by `perago import`"):
        harness.run(harness.start(published.commit))
    assert harness.head().id == made
    # It can be undone.
    assert harness.perago("undo", harness.target, made, "--yes").code == 0


def test_an_unaccepted_head_is_not_built_upon(harness: OperatorHarness, folder: Path) -> None:
    seed = harness.by_hand("in/x")
    running = harness.run(harness.start(seed))
    said = harness.perago("import", "data", harness.target)
    assert said.code == 1
    assert f"branch main was left alone: its head {running.commit} is still running" in said.err
    assert "uploading" not in said.err, "refused before the upload, not only after it"
    harness.terminate(running.polled.attempt.workflow_id)
    said = harness.perago("import", "data", harness.target)
    assert f"run perago recover {harness.target} first" in said.err
    side = harness.perago("import", "data", f"{harness.repository}/side", "--create")
    assert "branch side was not made from main: its head" in side.err
    assert harness.head().id == running.commit


def test_an_attempt_that_publishes_meanwhile_goes_first(harness: OperatorHarness, folder: Path) -> None:
    seed = harness.by_hand("in/x")
    uploaded = upload.upload_changes
    published: list[CommitId] = []

    def overtaken(*arguments: object, **named: object) -> None:
        published.append(harness.accepted(seed).commit)
        uploaded(*arguments, **named)  # pyright: ignore[reportArgumentType]

    with mock.patch.object(upload, "upload_changes", overtaken):
        said = harness.perago("import", "data", harness.target)
    assert said.code == 1
    assert "run the command again" in said.err
    assert published == [harness.head().id]
    assert harness.staging_branches() == []
    assert harness.perago("import", "data", harness.target).code == 0


def test_a_file_that_changes_meanwhile_is_not_published(harness: OperatorHarness, folder: Path) -> None:
    write_small = LakeFS.write_small
    before = harness.head().id

    def changed(lake: LakeFS, repository: Repository, branch: BranchName, files: Sequence[SmallFile]) -> Iterator[ObjectInfo]:
        if any(file.path == "a.txt" for file in files):
            (folder / "a.txt").write_bytes(b"other content")
        return write_small(lake, repository, branch, files)

    with mock.patch.object(LakeFS, "write_small", changed):
        said = harness.perago("import", "data", harness.target)
    assert said.code == 1
    assert "changed while it was read for publication" in said.err
    assert harness.head().id == before
    assert harness.staging_branches() == []


def test_the_bar_follows_the_bytes(folder: Path, harness: OperatorHarness) -> None:
    """On a terminal; in a pipe there is one line before the upload."""
    del folder
    with mock.patch("rich.console.Console.is_terminal", new=True):
        said = harness.perago("import", "data", harness.target)
    assert said.code == 0
    assert "uploading 3 files" in said.err
