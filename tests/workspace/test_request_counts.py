"""The exact number of requests of each phase, on the in-memory lake and on a real lakeFS."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support import workspaces

from perago.lake import port
from perago.model import BranchName, CommitId, ObjectInfo, ObjectPath, Repository
from perago.workspace import local_workspace, options
from perago.workspace.cache import small_object_db

STAGING = BranchName("staging")


def files(count: int) -> dict[str, bytes]:
    return {f"p/{n % 10}/{n:05}": b"%d" % n for n in range(count)}


def requests(harness: workspaces.WorkspaceHarness, action: Callable[[], object]) -> Counter[str]:
    harness.setup.lake.capabilities()
    before = Counter(harness.setup.calls)
    action()
    return Counter(harness.setup.calls) - before - Counter({"capabilities": 1})


def staged(harness: workspaces.WorkspaceHarness, workspace: local_workspace.LocalWorkspace, base: CommitId) -> Counter[str]:
    workspace.changed()
    harness.setup.lake.create_branch(harness.setup.repository, STAGING, base)
    return requests(harness, lambda: workspace.fill(STAGING))


def test_a_cold_download_lists_once_and_reads_each_object_once(harness: workspaces.WorkspaceHarness) -> None:
    commit = harness.setup.commit(files(30))
    workspace = harness.workspace(commit, "p")
    assert requests(harness, workspace.open) == {"objects": 1, "read": 30}
    workspace.close()


def test_an_empty_prefix_costs_one_listing(harness: workspaces.WorkspaceHarness) -> None:
    workspace = harness.workspace(harness.setup.commit({"other": b"1"}), "p")
    assert requests(harness, workspace.open) == {"objects": 1}
    workspace.close()


def test_a_second_attempt_on_the_same_host_asks_nothing(harness: workspaces.WorkspaceHarness) -> None:
    commit = harness.setup.commit(files(30))
    with harness.opened(commit, "p"):
        pass
    again = harness.workspace(commit, "p")
    assert requests(harness, again.open) == {}
    assert len(again.listing().files) == 30
    assert again.changed().is_empty
    again.close()


def test_the_next_task_reads_only_what_no_task_on_this_host_read_or_wrote(harness: workspaces.WorkspaceHarness) -> None:
    base = harness.setup.commit(files(10))
    with harness.opened(base, "p") as workspace:
        workspaces.write(workspace.argument(), {"1/00001": b"edited", "new": b"made here"})
        made = harness.publish(workspace, base)
    following = harness.workspace(made, "p")
    assert requests(harness, following.open) == {"objects": 1}
    assert workspaces.read(following.argument())["new"] == b"made here"
    following.close()


def test_with_the_cache_off_every_attempt_reads(harness: workspaces.WorkspaceHarness) -> None:
    settings = options.WorkspaceOptions(harness.settings.root, cache_bytes=0)
    commit = harness.setup.commit(files(5))
    for _ in range(2):
        workspace = harness.workspace(commit, "p", settings=settings)
        assert requests(harness, workspace.open) == {"objects": 1, "read": 5}
        workspace.close()


def test_looking_for_changes_asks_nothing(harness: workspaces.WorkspaceHarness) -> None:
    commit = harness.setup.commit(files(5))
    with harness.opened(commit, "p") as workspace:
        (workspace.argument() / "1/00001").touch()
        assert requests(harness, workspace.changed) == {}
        assert requests(harness, workspace.listing) == {}


def test_one_changed_file_is_one_request(harness: workspaces.WorkspaceHarness) -> None:
    commit = harness.setup.commit(files(20))
    with harness.opened(commit, "p") as workspace:
        workspaces.write(workspace.argument(), {"1/00001": b"edited"})
        assert staged(harness, workspace, commit) == {"write": 1}


@pytest.mark.parametrize(("count", "expected"), [(3, 1), (1000, 1), (1001, 2)])
def test_deletes_go_in_bulk(memory_harness: workspaces.WorkspaceHarness, count: int, expected: int) -> None:
    commit = memory_harness.setup.commit({**files(count), "p/keep": b"1"})
    with memory_harness.opened(commit, "p") as workspace:
        for path in workspaces.read(workspace.argument()).keys() - {"keep"}:
            (workspace.argument() / path).unlink()
        assert staged(memory_harness, workspace, commit) == {"delete_objects": expected}
    assert sorted(memory_harness.objects(CommitId(STAGING))) == ["p/keep"]


def test_pages_of_a_thousand(memory_harness: workspaces.WorkspaceHarness) -> None:
    commit = memory_harness.setup.commit(files(2001))
    workspace = memory_harness.workspace(commit, "p")
    assert requests(memory_harness, workspace.open) == {"objects": 3, "read": 2001}
    assert len(workspaces.read(workspace.argument())) == 2001
    workspace.close()


def test_one_of_two_thousand_on_a_real_server(server_harness: workspaces.WorkspaceHarness, tmp_path: Path) -> None:
    """The whole of staging, branch and commit included, stays under ten requests."""
    setup = server_harness.setup
    empty = setup.commit({"p/seed": b"seed"})
    with server_harness.opened(empty, "p") as workspace:
        workspaces.write(workspace.argument(), {f"{n % 50}/{n}": b"%d" % n for n in range(2000)})
        base = server_harness.publish(workspace, empty)
    with server_harness.opened(base, "p") as workspace:
        assert len(workspace.listing().files) == 2001
        workspaces.write(workspace.argument(), {"7/7": b"edited"})
        assert requests(server_harness, lambda: server_harness.publish(workspace, base)) == {
            "create_branch": 1,
            "write": 1,
            "commit_branch": 1,
            "delete_branch": 1,
        }


class Relabelled:
    """A lake whose checksums are not MD5, as after multipart uploads."""

    def __init__(self, setup: workspaces.MemoryLakeSetup) -> None:
        self._memory = setup.memory
        self.lake = setup.memory
        self._real = setup.memory.objects
        self._read = setup.memory.read

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(self._memory, "objects", self.objects)
        monkeypatch.setattr(self._memory, "read", self.read)

    def objects(self, *arguments: object, **options: object) -> object:
        page = self._real(*arguments, **options)  # pyright: ignore[reportArgumentType]
        return replace(page, objects=[replace(info, checksum=info.checksum + "-2") for info in page.objects])

    def read(self, repository: object, ref: object, info: ObjectInfo, into: Path) -> str:
        return self._read(repository, ref, replace(info, checksum=info.checksum.removesuffix("-2")), into)  # pyright: ignore[reportArgumentType]


def test_checksums_that_are_no_md5_are_compared_by_our_own(
    memory_setup: workspaces.MemoryLakeSetup, memory_harness: workspaces.WorkspaceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = memory_setup.commit(files(5))
    Relabelled(memory_setup).install(monkeypatch)
    with memory_harness.opened(commit, "p") as workspace:
        (workspace.argument() / "1/00001").touch()
        assert workspace.changed().is_empty
        workspaces.write(workspace.argument(), {"2/00002": b"X"})
        assert [upload.path for upload in workspace.changed().uploads] == ["2/00002"]
    again = memory_harness.workspace(commit, "p")
    assert requests(memory_harness, again.open) == {}
    again.close()
    memory_setup.memory.put(memory_setup.repository, workspaces.MAIN, ObjectPath("p/later"), b"later")
    following = memory_harness.workspace(memory_setup.commit({}), "p")
    assert requests(memory_harness, following.open) == {"objects": 1, "read": 1}
    following.close()


def large(count: int) -> dict[str, bytes]:
    """Large files, each of which is a separate entry in the cache."""
    return {path: data + bytes(small_object_db.MAX_SIZE) for path, data in files(count).items()}


def lose_and_damage_small(root: Path) -> None:
    database = sqlite3.connect(root / "small.db")
    (first,), (second,), *_ = database.execute("SELECT id FROM small").fetchall()
    database.execute("DELETE FROM small WHERE id = ?", (first,))
    database.execute("UPDATE small SET data = zeroblob(length(data)) WHERE id = ?", (second,))
    database.commit()
    database.close()


def lose_and_damage_large(root: Path) -> None:
    evicted, damaged, *_ = sorted((root / "objects").rglob("*-*"))
    evicted.unlink()
    damaged.write_bytes(b"?" * damaged.stat().st_size)


@pytest.mark.parametrize(("content", "harm"), [(files, lose_and_damage_small), (large, lose_and_damage_large)])
def test_what_was_evicted_or_damaged_is_read_again_and_nothing_else(
    harness: workspaces.WorkspaceHarness, content: Callable[[int], dict[str, bytes]], harm: Callable[[Path], None]
) -> None:
    commit = harness.setup.commit(content(5))
    with harness.opened(commit, "p"):
        pass
    harm(harness.settings.root / ".cache")
    again = harness.workspace(commit, "p")
    assert requests(harness, again.open) == {"read": 2}
    assert {f"p/{path}": data for path, data in workspaces.read(again.argument()).items()} == content(5)
    again.close()
    healed = harness.workspace(commit, "p")
    assert requests(harness, healed.open) == {}
    healed.close()


def test_signed_links_are_asked_for_and_used_where_the_storage_has_them(
    memory_setup: workspaces.MemoryLakeSetup, memory_harness: workspaces.WorkspaceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = memory_setup.commit(files(3))
    memory = memory_setup.memory
    listed, read = memory.objects, memory.read_small
    used: list[str | None] = []

    def signed(*arguments: object, presign: bool = False) -> port.ObjectPage:
        assert presign
        page = listed(*arguments)  # pyright: ignore[reportArgumentType]
        return replace(page, objects=[replace(info, presigned_url=f"https://{info.path}") for info in page.objects])

    def follow(repository: Repository, ref: port.Ref, infos: Sequence[ObjectInfo]) -> Iterator[tuple[str, bytes]]:
        used.extend(info.presigned_url for info in infos)
        return read(repository, ref, infos)

    monkeypatch.setattr(memory, "capabilities", lambda: port.Capabilities(presign_read=True))
    monkeypatch.setattr(memory, "objects", signed)
    monkeypatch.setattr(memory, "read_small", follow)
    with memory_harness.opened(commit, "p") as workspace:
        assert len(workspaces.read(workspace.argument())) == 3
    assert sorted(link or "" for link in used) == [f"https://{path}" for path in sorted(files(3))]
    kept = b"".join(path.read_bytes() for path in (memory_harness.settings.root / ".cache/listings").rglob("*") if path.is_file())
    assert b"https" not in kept
