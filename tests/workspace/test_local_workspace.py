"""A whole local workspace, on the in-memory lake and on a real lakeFS: the difficult cases of paths and files."""

import hashlib
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from tests.support import workspaces

from perago import events
from perago.attempt import port as attempt_port
from perago.errors import WorkspaceError
from perago.lake import port
from perago.model import BranchName, FilePath, ObjectInfo, ObjectPath
from perago.workspace import diff, options, scan

HOSTILE = [
    "100%", "a+b", "a#b?c&d=e", " spaced out ", "emoji-🎧/🎚️.wav", "back\\slash", "C:x", "C:\\x\\y", "new\nline", "tab\t",
    "\x1b[31m",
    "...", "-rf", "~", "%2e%2e", "Foo", "foo", "caf\u00e9", "cafe\u0301", "a\"'`$b", "x.perago-attempt.json", "x" * 255,
    "/".join(["y" * 200] * 5) + "z" * 18,
]  # fmt: skip


def test_what_stands_under_the_prefix_and_nothing_else_is_there(harness: workspaces.WorkspaceHarness) -> None:
    commit = harness.setup.commit({
        "audio/render/a": b"1", "audio/render/sub/b": b"22", "audio/render2/x": b"no", "audio/rende": b"no",
        "audio/render": b"no", "top": b"no",
    })  # fmt: skip
    with harness.opened(commit, "/audio/render") as workspace:
        assert workspaces.read(workspace.argument()) == {"a": b"1", "sub/b": b"22"}
        assert workspace.listing().files == ["a", "sub/b"]


def test_hostile_but_legal_names_round_trip(harness: workspaces.WorkspaceHarness) -> None:
    assert max(len(f"p/{name}".encode()) for name in HOSTILE) == 1024
    base = harness.setup.commit({"p/start": b""})
    files = {name: name.encode() for name in HOSTILE}
    with harness.opened(base, "p") as workspace:
        workspaces.write(workspace.argument(), files)
        made = harness.publish(workspace, base)
    with harness.opened(made, "p", settings=options.WorkspaceOptions(harness.settings.root, cache_bytes=0)) as workspace:
        assert workspaces.read(workspace.argument()) == {"start": b"", **files}
        assert workspace.changed().is_empty


@pytest.mark.parametrize(
    "path",
    ["p/a//b", "p//a", "p/./x", "p/../../etc/passwd", "p/x/..", "p/" + "s" * 256, "p/nul\0x", "p/full/"],
)
def test_an_object_that_no_file_can_stand_for_is_one_clear_error(harness: workspaces.WorkspaceHarness, path: str) -> None:
    commit = harness.setup.commit({path: b"x", "p/fine": b"1", "other/a//b": b"not under the prefix"})
    workspace = harness.workspace(commit, "p")
    with pytest.raises(WorkspaceError, match="cannot be a local file") as caught:
        workspace.open()
    assert repr(path) in str(caught.value)
    workspace.close()
    with harness.opened(harness.setup.commit({"q/fine": b"1"}), "q") as untouched:
        assert workspaces.read(untouched.argument()) == {"fine": b"1"}


def test_a_name_that_is_not_utf8_is_refused(
    server_harness: workspaces.WorkspaceHarness, server_setup: workspaces.ServerLakeSetup
) -> None:
    server_setup.put(b"p/bad-\xff-name", workspaces.Content(b"x"))
    workspace = server_harness.workspace(server_setup.seal(), "p")
    with pytest.raises(WorkspaceError, match=r"U\+FFFD"):
        workspace.open()
    workspace.close()


def test_a_file_beside_a_directory_of_its_name_is_refused(harness: workspaces.WorkspaceHarness) -> None:
    workspace = harness.workspace(harness.setup.commit({"p/a": b"1", "p/a/b": b"2"}), "p")
    with pytest.raises(WorkspaceError, match="object 'a' is a file and a directory at once"):
        workspace.open()
    workspace.close()


def test_names_that_fold_together_are_refused_where_they_fold(
    harness: workspaces.WorkspaceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = harness.setup.commit({"p/Foo": b"1", "p/foo": b"2"})
    with harness.opened(commit, "p") as workspace:
        assert workspaces.read(workspace.argument()) == {"Foo": b"1", "foo": b"2"}
    monkeypatch.setattr("perago.workspace.filesystem_probes.folds_names", lambda _: True)
    folding = harness.workspace(commit, "p")
    with pytest.raises(WorkspaceError, match="folds case or accents"):
        folding.open()
    folding.close()


def test_directory_markers_are_no_files_and_stay(harness: workspaces.WorkspaceHarness) -> None:
    commit = harness.setup.commit({"p/": b"", "p/dir/": b"", "p/dir/file": b"1", "p/empty/": b""})
    with harness.opened(commit, "p") as workspace:
        root = workspace.argument()
        assert workspaces.read(root) == {"dir/file": b"1"}
        shutil.rmtree(root / "dir")
        made = harness.publish(workspace, commit)
    assert sorted(harness.objects(made)) == ["p/", "p/dir/", "p/empty/"]


def test_empty_directories_are_seen_by_checks_and_not_published(harness: workspaces.WorkspaceHarness) -> None:
    commit = harness.setup.commit({"p/a": b"1"})
    with harness.opened(commit, "p") as workspace:
        (workspace.argument() / "hollow").mkdir()
        assert workspace.listing().empty_directories == ["hollow"]
        assert workspace.changed().is_empty


@pytest.mark.parametrize("marker", [".perago-attempt.json", "sub/.perago-attempt.json"])
def test_marker_is_not_downloaded_uploaded_or_deleted(harness: workspaces.WorkspaceHarness, marker: str) -> None:
    commit = harness.setup.commit({f"p/{marker}": b"theirs", "p/a": b"1"})
    with harness.opened(commit, "p") as workspace:
        assert workspaces.read(workspace.argument()) == {"a": b"1"}
        assert workspace.changed().is_empty
        workspaces.write(workspace.argument(), {marker: b"mine"})
        assert workspace.listing().files == ["a"]
        assert workspace.changed().is_empty


def test_listing_saved_by_an_older_version_is_not_used(harness: workspaces.WorkspaceHarness) -> None:
    """It may contain a marker in a subdirectory, which would then look deleted."""
    commit = harness.setup.commit({"p/a": b"1"})
    with harness.opened(commit, "p") as workspace:
        (saved,) = (harness.settings.root / options.CACHE_NAME / "listings").glob("*/*")
        old_key = hashlib.sha256(f"{harness.setup.repository}\0{commit}\0p/".encode()).hexdigest()
        assert saved.name != old_key
        assert workspace.changed().is_empty


def test_hooks_of_lakefs_are_neither_seen_nor_touched_nor_made(harness: workspaces.WorkspaceHarness) -> None:
    script = b"hooks: [{id: quiet, type: lua, properties: {script: print(1)}}]"
    hook = b"name: quiet\non: {pre-merge: {branches: [never]}}\n" + script
    commit = harness.setup.commit({"_lakefs_actions/x.yaml": hook, "a": b"1"})
    with harness.opened(commit) as workspace:
        root = workspace.argument()
        assert workspaces.read(root) == {"a": b"1"}
        (root / "a").unlink()
        made = harness.publish(workspace, commit)
        assert sorted(harness.objects(made)) == ["_lakefs_actions/x.yaml"]
        workspaces.write(root, {"_lakefs_actions/y.yaml": hook})
        with pytest.raises(WorkspaceError, match="lakeFS hooks"):
            workspace.changed()


def test_new_changed_and_deleted_files_reach_the_branch_and_nothing_outside_the_prefix_does(
    harness: workspaces.WorkspaceHarness,
) -> None:
    commit = harness.setup.commit({"p/keep": b"1", "p/edit": b"2", "p/gone": b"3", "p2/other": b"4", "top": b"5"})
    with harness.opened(commit, "p") as workspace:
        root = workspace.argument()
        workspaces.write(root, {"edit": b"two", "deep/er/new": b"6", "zero": b""})
        (root / "gone").unlink()
        change = workspace.changed()
        assert [upload.path for upload in change.uploads] == ["deep/er/new", "edit", "zero"]
        assert change.deletes == ["gone"]
        made = harness.publish(workspace, commit)
    found = harness.objects(made)
    assert {path: info.size for path, info in found.items()} == {
        "p/deep/er/new": 1, "p/edit": 3, "p/keep": 1, "p/zero": 0, "p2/other": 1, "top": 1,
    }  # fmt: skip
    assert found["p/edit"].checksum == workspaces.md5(b"two")


def test_a_file_may_become_a_directory_and_back(harness: workspaces.WorkspaceHarness) -> None:
    commit = harness.setup.commit({"p/a": b"1", "p/b/c": b"2"})
    with harness.opened(commit, "p") as workspace:
        root = workspace.argument()
        (root / "a").unlink()
        shutil.rmtree(root / "b")
        workspaces.write(root, {"a/x": b"3", "b": b"4"})
        made = harness.publish(workspace, commit)
    with harness.opened(made, "p") as workspace:
        assert workspaces.read(workspace.argument()) == {"a/x": b"3", "b": b"4"}


def test_content_type_and_user_metadata_survive_untouched_edited_and_mode_changed(harness: workspaces.WorkspaceHarness) -> None:
    labelled = workspaces.Content(b"#!/bin/sh", "text/x-sh", {"owner": "team-a"})
    commit = harness.setup.commit({"p/same": labelled, "p/edit": labelled, "p/mode": labelled})
    with harness.opened(commit, "p") as workspace:
        root = workspace.argument()
        (root / "same").touch()
        (root / "edit").write_bytes(b"#!/bin/bash")
        (root / "mode").chmod(0o755)
        assert [upload.path for upload in workspace.changed().uploads] == ["edit", "mode"]
        made = harness.publish(workspace, commit)
    found = harness.objects(made)
    assert {info.content_type for info in found.values()} == {"text/x-sh"}
    assert found["p/same"].metadata == found["p/edit"].metadata == {"owner": "team-a"}
    assert found["p/mode"].metadata == {"owner": "team-a", diff.EXECUTABLE_KEY: "true"}


@pytest.mark.parametrize("cache_bytes", [0, 1 << 30])
def test_executable_bits_survive_a_round_trip(harness: workspaces.WorkspaceHarness, cache_bytes: int) -> None:
    settings = options.WorkspaceOptions(harness.settings.root, cache_bytes=cache_bytes)
    base = harness.setup.commit({"p/plain": b"1"})
    with harness.opened(base, "p", settings=settings) as workspace:
        root = workspace.argument()
        workspaces.write(root, {"tool": b"#!/bin/sh", "twin": b"#!/bin/sh"})
        (root / "tool").chmod(0o755)
        made = harness.publish(workspace, base)
    for _ in range(2):
        with harness.opened(made, "p", settings=settings) as workspace:
            root = workspace.argument()
            assert [os.access(root / name, os.X_OK) for name in ("plain", "tool", "twin")] == [False, True, False]
            assert workspace.changed().is_empty
    with harness.opened(made, "p", settings=settings) as workspace:
        (workspace.argument() / "tool").chmod(0o644)
        final = harness.publish(workspace, made)
    assert harness.objects(final)["p/tool"].metadata == {}


def test_zero_bytes_and_large_files_round_trip(harness: workspaces.WorkspaceHarness) -> None:
    large = os.urandom(9 << 20)
    base = harness.setup.commit({"p/start": b"s"})
    with harness.opened(base, "p") as workspace:
        workspaces.write(workspace.argument(), {"large": large, "zero": b""})
        with (workspace.argument() / "sparse").open("wb") as file:
            file.truncate(3 << 20)
        made = harness.publish(workspace, base)
    for settings in (options.WorkspaceOptions(harness.settings.root, cache_bytes=0), harness.settings):
        with harness.opened(made, "p", settings=settings) as workspace:
            expected = {"start": b"s", "large": large, "zero": b"", "sparse": bytes(3 << 20)}
            assert workspaces.read(workspace.argument()) == expected


def test_deleting_everything_is_a_change_when_the_body_did_it(harness: workspaces.WorkspaceHarness) -> None:
    commit = harness.setup.commit({"p/a": b"1", "p/b": b"2", "q": b"3"})
    with harness.opened(commit, "p") as workspace:
        for path in workspace.argument().iterdir():
            path.unlink()
        assert workspace.changed().deletes == ["a", "b"]
        made = harness.publish(workspace, commit)
    assert sorted(harness.objects(made)) == ["q"]


def replaced(root: Path) -> None:
    shutil.rmtree(root)
    root.mkdir()


def removed(root: Path) -> None:
    shutil.rmtree(root)


def emptied_by_a_cleaner(root: Path) -> None:
    for path in [*root.iterdir(), *root.parent.glob(".*")]:
        path.unlink()


def turned_into_a_symlink(root: Path) -> None:
    root.rename(root.parent / "aside")
    root.symlink_to(root.parent / "aside")


def made_unreadable(root: Path) -> None:
    root.chmod(0)


@pytest.mark.parametrize("fate", [replaced, removed, emptied_by_a_cleaner, turned_into_a_symlink, made_unreadable])
def test_a_lost_root_is_never_published_as_all_files_deleted(harness: workspaces.WorkspaceHarness, fate: object) -> None:
    assert callable(fate)
    commit = harness.setup.commit({"p/a": b"1"})
    with harness.opened(commit, "p") as workspace:
        fate(workspace.argument())
        with pytest.raises(WorkspaceError, match="cannot be trusted any more"):
            workspace.changed()
        with pytest.raises(WorkspaceError, match="cannot be trusted any more"):
            workspace.listing()


def test_a_root_that_is_lost_during_the_scan_is_noticed(
    harness: workspaces.WorkspaceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = harness.setup.commit({"p/a": b"1"})
    with harness.opened(commit, "p") as workspace:
        root = workspace.argument()
        real = scan.scan

        def replace_and_scan(path: str) -> scan.ScanResult:
            replaced(root)
            return real(path)

        monkeypatch.setattr(scan, "scan", replace_and_scan)
        with pytest.raises(WorkspaceError, match="cannot be trusted any more: it was replaced"):
            workspace.changed()


def test_a_symlink_fails_publication_by_name_and_does_not_disturb_reading(harness: workspaces.WorkspaceHarness) -> None:
    commit = harness.setup.commit({"p/a": b"1"})
    with harness.opened(commit, "p") as workspace:
        (workspace.argument() / "d").mkdir()
        (workspace.argument() / "d/link").symlink_to("../a")
        assert workspace.listing().files == ["a"]
        with pytest.raises(WorkspaceError, match=r"^workspace publication does not support symlinks: d/link$"):
            workspace.changed()


def test_a_file_that_cannot_be_named_in_lakefs_fails_before_anything_is_sent(harness: workspaces.WorkspaceHarness) -> None:
    commit = harness.setup.commit({"p/a": b"1"})
    with harness.opened(commit, "p") as workspace:
        root = workspace.argument()
        (root / "fine").write_bytes(b"1")
        Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9")).write_bytes(b"x")
        before = Counter(harness.setup.calls)
        with pytest.raises(WorkspaceError, match="not valid UTF-8"):
            workspace.changed()
        assert harness.setup.calls == before


def test_a_file_that_grows_while_it_is_staged_fails_the_stage(harness: workspaces.WorkspaceHarness) -> None:
    commit = harness.setup.commit({"p/a": b"1"})
    with harness.opened(commit, "p") as workspace:
        root = workspace.argument()
        workspaces.write(root, {"log": b"line\n"})
        workspace.changed()
        with (root / "log").open("ab") as file:
            file.write(b"more\n")
        branch = BranchName("staging-x")
        harness.setup.lake.create_branch(harness.setup.repository, branch, commit)
        with pytest.raises(WorkspaceError, match="'log' changed while it was read"):
            workspace.fill(branch)


def test_hard_links_are_published_as_two_files(harness: workspaces.WorkspaceHarness) -> None:
    commit = harness.setup.commit({"p/a": b"1"})
    with harness.opened(commit, "p") as workspace:
        os.link(workspace.argument() / "a", workspace.argument() / "b")
        assert [upload.path for upload in workspace.changed().uploads] == ["b"]


def test_progress_and_results_of_every_phase_are_told(harness: workspaces.WorkspaceHarness) -> None:
    commit = harness.setup.commit({f"p/{n}": b"xy%d" % n for n in range(5)})
    with harness.opened(commit, "p") as workspace:
        workspaces.write(workspace.argument(), {"0": b"abcd"})
        (workspace.argument() / "1").unlink()
        harness.publish(workspace, commit)
    done = {event.phase: event for event in harness.events if isinstance(event, events.Done)}
    assert (done[events.Phase.DOWNLOAD].files, done[events.Phase.DOWNLOAD].bytes) == (5, 15)
    assert done[events.Phase.DOWNLOAD].requests == 6
    assert done[events.Phase.DIFF].detail == "1 to upload, 1 to delete"
    assert (done[events.Phase.STAGE].files, done[events.Phase.STAGE].bytes, done[events.Phase.STAGE].requests) == (2, 4, 2)
    assert any(isinstance(event, events.Progress) and event.phase is events.Phase.DOWNLOAD for event in harness.events)


def test_what_the_listener_raises_stops_the_download(harness: workspaces.WorkspaceHarness) -> None:
    commit = harness.setup.commit({f"p/{n}": b"xyz" for n in range(20)})

    def stop(_: events.Event) -> None:
        raise KeyboardInterrupt

    workspace = harness.workspace(commit, "p")
    workspace._emit = stop
    with pytest.raises(KeyboardInterrupt):
        workspace.open()
    workspace._emit = events.ignore
    workspace.close()


def test_the_attempt_sees_no_more_than_its_own_files(harness: workspaces.WorkspaceHarness) -> None:
    commit = harness.setup.commit({"p/a": b"1"})
    with harness.opened(commit, "p") as workspace:
        assert [path.name for path in workspace.argument().iterdir()] == ["a"]
        assert workspace.listing().files == [FilePath("a")]


def test_a_body_may_change_directory_and_umask(
    harness: workspaces.WorkspaceHarness, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    commit = harness.setup.commit({"p/a": b"1"})
    with harness.opened(commit, "p", settings=options.WorkspaceOptions(Path("scratch"))) as workspace:
        root = workspace.argument()
        assert root.is_absolute()
        monkeypatch.chdir("/")
        before = os.umask(0o777)
        try:
            workspaces.write(root, {"b": b"2"})
            (root / "b").chmod(0o600)
            made = harness.publish(workspace, commit)
        finally:
            os.umask(before)
    monkeypatch.chdir(tmp_path)
    with harness.opened(made, "p") as workspace:
        assert workspaces.read(workspace.argument()) == {"a": b"1", "b": b"2"}


def test_files_over_five_gibibytes_are_handed_over_whole(
    memory_harness: workspaces.WorkspaceHarness, memory_setup: workspaces.MemoryLakeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is sparse and its bytes are not transferred: the test shows that no size is truncated."""
    size = (5 << 30) + 1
    commit = memory_setup.commit({"p/a": b"1"})
    sent: list[int] = []

    def write(repository: object, branch: object, path: ObjectPath, source: Path, **labels: object) -> ObjectInfo:
        sent.append(source.stat().st_size)
        return ObjectInfo(path, sent[-1], "multipart-2")

    def objects(*_: object, **__: object) -> port.ObjectPage:
        return port.ObjectPage([ObjectInfo(ObjectPath("p/huge"), size, "multipart-2")], None)

    def read(repository: object, ref: object, info: ObjectInfo, into: Path) -> str:
        with into.open("xb") as file:
            file.truncate(info.size)
        return workspaces.md5(b"as if")

    settings = options.WorkspaceOptions(memory_harness.settings.root, cache_bytes=0)
    with memory_harness.opened(commit, "p", settings=settings) as workspace:
        with (workspace.argument() / "huge").open("wb") as file:
            file.truncate(size)
        monkeypatch.setattr(memory_setup.memory, "write", write)
        assert workspace.changed().upload_bytes == size
        workspace.fill(BranchName("main"))
    assert sent == [size]
    monkeypatch.setattr(memory_setup.memory, "objects", objects)
    monkeypatch.setattr(memory_setup.memory, "read", read)
    monkeypatch.setattr(memory_setup.memory, "capabilities", lambda: port.Capabilities(parts=False))
    with memory_harness.opened(commit, "p", settings=settings) as workspace:
        assert (workspace.argument() / "huge").stat().st_size == size
        assert workspace.changed().is_empty


def test_an_edit_in_place_never_reaches_the_next_attempt(harness: workspaces.WorkspaceHarness) -> None:
    large = os.urandom(2 << 20)
    commit = harness.setup.commit({"p/small": b"original", "p/large": large})
    for _ in range(3):
        with harness.opened(commit, "p") as workspace:
            root = workspace.argument()
            assert workspaces.read(root) == {"small": b"original", "large": large}
            for name in ("small", "large"):
                with (root / name).open("r+b") as file:
                    file.write(b"EDITED!!")
            assert [upload.path for upload in workspace.changed().uploads] == ["large", "small"]


def test_it_implements_the_workspace_of_attempts(harness: workspaces.WorkspaceHarness) -> None:
    """The annotation is checked with the types; the names are checked here."""
    workspace: attempt_port.AttemptWorkspace = harness.workspace(harness.setup.commit({"p/a": b"1"}), "p")
    assert not workspace.needs_branch_before_body
    wanted = {name for name in vars(attempt_port.AttemptWorkspace) if not name.startswith("_")}
    assert wanted <= set(dir(workspace))
    workspace.close()
