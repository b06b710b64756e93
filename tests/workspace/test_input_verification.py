"""Large inputs are verified while the body runs: no damaged byte is published, completed on or cached, whatever the body does."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support import fault_proxy as faults
from tests.support import held_verification, workspaces
from tests.support.waiting import eventually

from perago import events
from perago.errors import LakeCorrupt, WorkspaceError
from perago.lake import object_part, port
from perago.model import FilePath, ObjectInfo, Repository
from perago.workspace import input_verification, local_workspace, scan
from perago.workspace.transfer import large_object, thread_pool

SIZE = thread_pool.HEAVY + 12_345
LARGE = os.urandom(SIZE)
FILES = {"p/large": LARGE, "p/small": b"1"}
READ = "GET .*/objects[?]path=p(%2F|/)large"
HarmBody = Callable[[Path], object]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_object, "PART", 1 << 20)


class Hold:
    """Keeps the verification from hashing until it is released."""

    def __init__(self, fifo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._fifo = fifo
        self._monkeypatch = monkeypatch
        os.mkfifo(fifo)
        self._open = threading.Event()
        self._thread = threading.Thread(target=self._feed)

    def install(self, *changes: str) -> None:
        command = (sys.executable, "-m", held_verification.__name__, str(self._fifo), *changes)
        self._monkeypatch.setattr(input_verification, "COMMAND", command)

    def release(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the feeding thread, which may wait for a reader."""
        self._open.set()
        if self._thread.is_alive():
            reader = os.open(self._fifo, os.O_RDONLY | os.O_NONBLOCK)
            self._thread.join()
            os.close(reader)

    def _feed(self) -> None:
        while not self._open.is_set():
            with contextlib.suppress(BrokenPipeError):
                self._fifo.write_bytes(b"go")


@pytest.fixture
def hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hold]:
    made = Hold(tmp_path / "hold", monkeypatch)
    made.install()
    yield made
    made.close()


@pytest.fixture
def damage(memory_setup: workspaces.MemoryLakeSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte of each part arrives wrong."""
    read_part = memory_setup.memory.read_part

    def damaged(
        repository: Repository, ref: port.Ref, info: ObjectInfo, start: int, length: int, write: object_part.Write
    ) -> bool:
        def wrong(data: memoryview, position: int) -> None:
            other = bytearray(data)
            other[len(other) // 2] ^= 1
            write(memoryview(other), position)

        return read_part(repository, ref, info, start, length, wrong)

    monkeypatch.setattr(memory_setup.memory, "read_part", damaged)


def done(harness: workspaces.WorkspaceHarness) -> list[events.Done]:
    return [event for event in harness.events if isinstance(event, events.Done) and event.effect is events.Effect.VERIFY_INPUT]


def test_a_large_object_is_read_in_parts_and_verified(harness: workspaces.WorkspaceHarness) -> None:
    with harness.opened(harness.setup.commit(FILES), "p") as workspace:
        assert workspaces.read(workspace.argument()) == {"large": LARGE, "small": b"1"}
        assert workspace.changed().is_empty
    assert harness.setup.calls["read"] == -(-SIZE // large_object.PART) + 1
    (verified,) = done(harness)
    assert (verified.detail, verified.files, verified.error) == (f"1 files with {SIZE} bytes", 0, None)


@pytest.mark.usefixtures("damage")
def test_without_a_body_in_between_the_damage_is_found_too(memory_harness: workspaces.WorkspaceHarness) -> None:
    workspace = memory_harness.workspace(memory_harness.setup.commit(FILES), "p")
    with pytest.raises(LakeCorrupt, match=r"p/large.*was announced"):
        open_and_compare(workspace)
    workspace.close()


def open_and_compare(workspace: local_workspace.LocalWorkspace) -> None:
    workspace.open()
    workspace.changed()


def leave(_: Path) -> None: ...


def overwrite(work: Path) -> None:
    (work / "large").write_bytes(LARGE)


def append(work: Path) -> None:
    with (work / "large").open("ab") as file:
        file.write(b"more")


def truncate(work: Path) -> None:
    os.truncate(work / "large", 5)


def remove(work: Path) -> None:
    (work / "large").unlink()


def replace_file(work: Path) -> None:
    (work / "new").write_bytes(LARGE)
    (work / "new").rename(work / "large")


def remove_everything(work: Path) -> None:
    shutil.rmtree(work)


BODIES: list[HarmBody] = [leave, overwrite, append, truncate, remove, replace_file, remove_everything]

EXPECTED: dict[HarmBody, tuple[int, int]] = {append: (1, 0), truncate: (1, 0), remove: (0, 1)}
"""Uploads and deletes; the other bodies leave the same bytes."""


def run_body(body: HarmBody, work: Path, hold: Hold) -> None:
    """The body may wait for the verification, so it is released as soon as the body runs."""
    thread = threading.Thread(target=body, args=(work,))
    thread.start()
    hold.release()
    thread.join()


@pytest.mark.usefixtures("damage")
@pytest.mark.parametrize("body", BODIES)
def test_damage_is_found_whatever_the_body_does(memory_harness: workspaces.WorkspaceHarness, hold: Hold, body: HarmBody) -> None:
    workspace = memory_harness.workspace(memory_harness.setup.commit(FILES), "p")
    workspace.open()
    run_body(body, workspace.argument(), hold)
    with pytest.raises(LakeCorrupt, match=r"p/large.*was announced"):
        workspace.verify_input()
    with pytest.raises(LakeCorrupt):
        workspace.changed()
    workspace.until_cached()
    workspace.close()
    assert not memory_harness.settings.make_cache().contains(workspaces.md5(LARGE), SIZE)
    assert all(event.error for event in done(memory_harness))


@pytest.mark.parametrize("body", BODIES)
def test_what_the_body_does_is_not_taken_for_damage(
    memory_harness: workspaces.WorkspaceHarness, hold: Hold, body: HarmBody
) -> None:
    workspace = memory_harness.workspace(memory_harness.setup.commit(FILES), "p")
    workspace.open()
    run_body(body, workspace.argument(), hold)
    workspace.verify_input()
    if body is not remove_everything:
        changed = workspace.changed()
        assert (len(changed.uploads), len(changed.deletes)) == EXPECTED.get(body, (0, 0))
    workspace.close()


def test_a_writer_waits_until_the_file_is_verified(memory_harness: workspaces.WorkspaceHarness, hold: Hold) -> None:
    """Without waiting it fails to open the file, because the lease is in its way."""
    with memory_harness.opened(memory_harness.setup.commit(FILES), "p") as workspace:
        large = workspace.argument() / "large"
        with pytest.raises(BlockingIOError):
            os.open(large, os.O_WRONLY | os.O_NONBLOCK)
        assert large.read_bytes() == LARGE
        hold.release()
        overwrite(workspace.argument())
        workspace.verify_input()


def test_where_files_cannot_be_protected_they_are_verified_before_the_body(
    memory_harness: workspaces.WorkspaceHarness, hold: Hold
) -> None:
    hold.install("no-leases")
    hold.release()
    workspace = memory_harness.workspace(memory_harness.setup.commit(FILES), "p")
    workspace.open()
    assert workspace._verification is not None
    assert workspace._verification._pending == {}
    overwrite(workspace.argument())
    workspace.verify_input()
    workspace.close()


def test_a_file_that_was_changed_too_early_fails_the_attempt(memory_harness: workspaces.WorkspaceHarness, hold: Hold) -> None:
    hold.install("weak-leases")
    with memory_harness.opened(memory_harness.setup.commit(FILES), "p") as workspace:
        overwrite(workspace.argument())
        hold.release()
        with pytest.raises(WorkspaceError, match="'large' was changed before it was verified"):
            workspace.verify_input()


@pytest.mark.usefixtures("hold")
def test_the_end_of_the_process_is_no_verification(memory_harness: workspaces.WorkspaceHarness) -> None:
    with memory_harness.opened(memory_harness.setup.commit(FILES), "p") as workspace:
        assert workspace._verification is not None
        assert workspace._verification._process is not None
        workspace._verification._process.kill()
        with pytest.raises(WorkspaceError, match="ended before"):
            workspace.verify_input()


OWNER = """
import sys, time
from perago.model import FilePath
from perago.workspace import input_verification
input_verification.COMMAND = tuple(sys.argv[2:])
verification = input_verification.InputVerification(sys.argv[1])
verification.reserve()
verification.add(FilePath("large"), "read it", 5, "")
verification.received(FilePath("large"), 5)
verification.protect(lambda: None)
print(verification._process.pid, flush=True)
sys.stdin.read()
"""


def test_a_killed_owner_leaves_no_process_and_no_lease(tmp_path: Path, hold: Hold) -> None:
    (tmp_path / "large").write_bytes(b"12345")
    line = [sys.executable, "-c", OWNER, str(tmp_path), *input_verification.COMMAND]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        owner.send_signal(signal.SIGKILL)
    eventually(lambda: not Path(f"/proc/{pid}").exists())
    os.close(os.open(tmp_path / "large", os.O_WRONLY | os.O_NONBLOCK))


def test_numbers_of_received_bytes_may_arrive_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(LARGE)
    path = FilePath("large")
    verification = input_verification.InputVerification(str(tmp_path))
    assert verification.reserve()
    verification.add(path, "read it", SIZE, workspaces.md5(LARGE))
    for count in (5, SIZE, 7):
        verification.received(path, count)
    eventually(lambda: not verification._pending)
    verification.received(path, 8)
    verification.protect(lambda: None)
    assert verification.wait(lambda: None) == {path: workspaces.md5(LARGE)}
    verification.stop()


def test_a_server_that_ignores_ranges(
    memory_harness: workspaces.WorkspaceHarness, memory_setup: workspaces.MemoryLakeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_part = memory_setup.memory.read_part

    def whole_only(
        repository: Repository, ref: port.Ref, info: ObjectInfo, start: int, length: int, write: object_part.Write
    ) -> bool:
        return length == info.size and read_part(repository, ref, info, start, length, write)

    monkeypatch.setattr(memory_setup.memory, "read_part", whole_only)
    with memory_harness.opened(memory_harness.setup.commit(FILES), "p") as workspace:
        assert (workspace.argument() / "large").read_bytes() == LARGE
        assert workspace.changed().is_empty


@pytest.mark.parametrize("checksum", ["not an MD5", workspaces.md5(b"of several parts")])
def test_checksums_of_other_kinds(
    memory_harness: workspaces.WorkspaceHarness,
    memory_setup: workspaces.MemoryLakeSetup,
    monkeypatch: pytest.MonkeyPatch,
    checksum: str,
) -> None:
    """One that is no MD5 cannot be compared; one that looks like an MD5 has to be right. The MD5 is known afterwards."""
    commit = memory_setup.commit(FILES)
    real = memory_setup.memory.objects

    def objects(*arguments: object, **options: object) -> port.ObjectPage:
        page = real(*arguments, **options)  # pyright: ignore[reportArgumentType]
        return replace(page, objects=[replace(info, checksum=checksum) if info.size == SIZE else info for info in page.objects])

    monkeypatch.setattr(memory_setup.memory, "objects", objects)
    workspace = memory_harness.workspace(commit, "p")
    if checksum == "not an MD5":
        workspace.open()
        workspace.until_cached()
        assert memory_harness.settings.make_cache().contains(workspaces.md5(LARGE), SIZE)
        os.utime(workspace.argument() / "large")
        assert workspace.changed().is_empty
    else:
        with pytest.raises(LakeCorrupt):
            open_and_compare(workspace)
    workspace.close()


def test_beyond_the_limit_files_are_verified_at_once(
    memory_harness: workspaces.WorkspaceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_verification, "MAX_PENDING", 1)
    with memory_harness.opened(memory_harness.setup.commit({**FILES, "p/too": LARGE + b"."}), "p") as workspace:
        assert workspace.changed().is_empty
    (verified,) = done(memory_harness)
    assert verified.detail.startswith("1 files")


@pytest.mark.server
@pytest.mark.parametrize("fault", [faults.truncate(1000), faults.cut(reset=True), faults.answer(503)])
def test_a_broken_part_is_read_again(
    server_harness: workspaces.WorkspaceHarness, server_setup: workspaces.ServerLakeSetup, fault: faults.Fault
) -> None:
    with faults.FaultProxy(server_setup.endpoints.lakefs_url) as proxy:
        proxy.on(READ, fault, times=2)
        lake = server_setup.client(proxy.url)
        workspace = server_harness.workspace(server_setup.commit(FILES), "p", lake=lake)
        workspace.open()
        assert (workspace.argument() / "large").read_bytes() == LARGE
        assert workspace.changed().is_empty
        workspace.close()
        lake.close()


@pytest.mark.server
def test_a_byte_that_arrives_wrong_fails_this_attempt_and_not_the_next(
    server_harness: workspaces.WorkspaceHarness, server_setup: workspaces.ServerLakeSetup
) -> None:
    commit = server_setup.commit(FILES)
    with faults.FaultProxy(server_setup.endpoints.lakefs_url) as proxy:
        proxy.on(READ, faults.corrupt(50))
        lake = server_setup.client(proxy.url)
        first = server_harness.workspace(commit, "p", lake=lake)
        with pytest.raises(LakeCorrupt, match="p/large"):
            open_and_compare(first)
        first.close()
        second = server_harness.workspace(commit, "p", lake=lake)
        second.open()
        assert (second.argument() / "large").read_bytes() == LARGE
        assert second.changed().is_empty
        second.close()
        lake.close()


def test_the_manifest_has_the_stat_data_of_the_finished_file(memory_harness: workspaces.WorkspaceHarness) -> None:
    with memory_harness.opened(memory_harness.setup.commit(FILES), "p") as workspace:
        entry = workspace._before[FilePath("large")]
        assert entry.stat == scan.file_stat((workspace.argument() / "large").stat())
        assert entry.md5 == workspaces.md5(LARGE)
