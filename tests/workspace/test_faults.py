"""Network faults (cuts, delays, truncation, corruption): no wrong byte on disk, no hang, no half-staged commit."""

from collections.abc import Generator

import pytest
from tests.support import fault_proxy as faults
from tests.support import workspaces

from perago.errors import LakeConflict, LakeError, LakeUnavailable, LakeUnknown, WorkspaceError
from perago.in_memory.gate import RequestStep
from perago.model import BranchName, CommitId
from perago.workspace import attempt_directory, local_workspace

STAGING = BranchName("staging")
FILES: dict[str, bytes] = {f"p/{n}": b"%d" % n * 2000 for n in range(8)}
READ = "GET .*/objects[?]path=p%2F3|GET .*/objects[?]path=p/3"
WRITE = "POST .*/objects[?]path="


class Line:
    """A setup behind a proxy."""

    def __init__(self, harness: workspaces.WorkspaceHarness, setup: workspaces.ServerLakeSetup, proxy: faults.FaultProxy) -> None:
        self.harness = harness
        self.setup = setup
        self.proxy = proxy
        self.client = setup.client(proxy.url)
        self.base = setup.commit(FILES)

    def workspace(self) -> local_workspace.LocalWorkspace:
        return self.harness.workspace(self.base, "p", lake=self.client)


@pytest.fixture
def line(server_harness: workspaces.WorkspaceHarness, server_setup: workspaces.ServerLakeSetup) -> Generator[Line]:
    with faults.FaultProxy(server_setup.endpoints.lakefs_url) as proxy:
        made = Line(server_harness, server_setup, proxy)
        yield made
        made.client.close()


PASSING = {
    "cut before it arrives": faults.cut(reset=True),
    "cut in the body": faults.truncate(100),
    "one byte wrong": faults.corrupt(50),
    "late": faults.delay(0.3),
    "too busy": faults.answer(503),
    "slow down": faults.answer(429),
}


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING.keys())
def test_one_fault_on_the_way_down_is_overcome(line: Line, fault: faults.Fault) -> None:
    line.proxy.on(READ, fault)
    workspace = line.workspace()
    workspace.open()
    assert {f"p/{path}": data for path, data in workspaces.read(workspace.argument()).items()} == FILES
    assert workspace.changed().is_empty
    workspace.close()


LASTING = {
    "cut in the body": faults.truncate(100),
    "one byte wrong": faults.corrupt(50),
    "too busy": faults.answer(503),
    "no such object": faults.answer(404),
    "another size": faults.rewrite(lambda reply: reply.head.replace(b"2000", b"1999") + reply.body[:-1]),
}


@pytest.mark.parametrize("fault", LASTING.values(), ids=LASTING.keys())
def test_a_lasting_fault_on_the_way_down_is_one_error_and_leaves_no_wrong_byte(line: Line, fault: faults.Fault) -> None:
    line.proxy.on(READ, fault, times=100)
    workspace = line.workspace()
    with pytest.raises(LakeError, match="p/3"):
        workspace.open()
    assert workspace._directory is not None
    for path, data in workspaces.read(workspace._directory.work).items():
        assert FILES[f"p/{path}"] == data
    workspace.close()
    whole = line.harness.workspace(line.base, "p")
    whole.open()
    assert {f"p/{path}": data for path, data in workspaces.read(whole.argument()).items()} == FILES
    whole.close()


def test_a_page_that_breaks_off_is_asked_for_again(line: Line) -> None:
    line.proxy.on("GET .*/objects/ls", faults.truncate(30))
    workspace = line.workspace()
    workspace.open()
    assert len(workspace.listing().files) == 8
    workspace.close()


UPLOADS = {
    "never arrives": faults.cut(reset=True),
    "arrives in part": faults.cut_request(200),
    "arrives, its reply does not": faults.drop_reply(),
    "too busy": faults.answer(503),
}


@pytest.mark.parametrize("fault", UPLOADS.values(), ids=UPLOADS.keys())
def test_one_fault_on_the_way_up_is_overcome_on_the_private_branch(line: Line, fault: faults.Fault) -> None:
    workspace = line.workspace()
    workspace.open()
    workspaces.write(workspace.argument(), {"3": b"edited", "new": b"new"})
    (workspace.argument() / "5").unlink()
    line.proxy.on(WRITE, fault)
    line.proxy.on("POST .*/objects/delete", fault)
    made = line.harness.publish(workspace, line.base)
    workspace.close()
    expected = {**FILES, "p/3": b"edited", "p/new": b"new"}
    del expected["p/5"]
    assert {path: info.checksum for path, info in line.harness.objects(made, "p/").items()} == {
        path: workspaces.md5(data) for path, data in expected.items()
    }


@pytest.mark.parametrize("fault", UPLOADS.values(), ids=UPLOADS.keys())
def test_a_lasting_fault_on_the_way_up_ends_the_stage_before_any_commit(line: Line, fault: faults.Fault) -> None:
    workspace = line.workspace()
    workspace.open()
    workspaces.write(workspace.argument(), {"3": b"edited", "new": b"new"})
    assert len(workspace.changed().uploads) == 2
    line.setup.lake.create_branch(line.setup.repository, STAGING, line.base)
    line.proxy.on(WRITE, fault, times=100)
    with pytest.raises((LakeUnavailable, LakeUnknown)):
        workspace.fill(STAGING)
    workspace.close()
    assert line.setup.lake.head(line.setup.repository, STAGING).id == line.base


def test_a_wrong_checksum_from_the_server_is_never_accepted(line: Line) -> None:
    workspace = line.workspace()
    workspace.open()
    workspaces.write(workspace.argument(), {"3": b"edited"})
    assert not workspace.changed().is_empty
    line.setup.lake.create_branch(line.setup.repository, STAGING, line.base)
    line.proxy.on(
        WRITE, faults.rewrite(lambda reply: reply.raw.replace(workspaces.md5(b"edited").encode(), b"0" * 32)), times=100
    )
    with pytest.raises(LakeError, match="MD5"):
        workspace.fill(STAGING)
    workspace.close()


def test_what_lakefs_refuses_is_not_tried_again(
    memory_harness: workspaces.WorkspaceHarness, memory_setup: workspaces.MemoryLakeSetup
) -> None:
    commit = memory_setup.commit(FILES)
    with memory_harness.opened(commit, "p") as workspace:
        workspaces.write(workspace.argument(), {"3": b"edited"})
        assert not workspace.changed().is_empty
        memory_setup.lake.create_branch(memory_setup.repository, STAGING, commit)

        def refuse(verb: str, step: RequestStep) -> None:
            if verb == "write" and step is RequestStep.BEFORE:
                raise LakeConflict("no")

        memory_setup.memory.gate = refuse
        with pytest.raises(LakeConflict):
            workspace.fill(STAGING)
        assert memory_setup.calls["write"] == 1


def test_a_disk_that_refuses_is_an_error_that_names_the_file(
    memory_harness: workspaces.WorkspaceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = memory_harness.setup.commit({"p/d/x": b"1"})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    workspace = memory_harness.workspace(commit, "p")
    monkeypatch.setattr("perago.workspace.transfer.download.os.mkdir", full)
    with pytest.raises(WorkspaceError, match="No space left on device"):
        workspace.open()
    monkeypatch.undo()
    workspace.close()


def test_close_names_what_it_could_not_remove(
    memory_harness: workspaces.WorkspaceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = memory_harness.workspace(memory_harness.setup.commit({"p/x": b"1"}), "p")
    workspace.open()
    monkeypatch.setattr("perago.workspace.rmtree.empty_directory", lambda *_, **__: "x: Operation not permitted")
    with pytest.raises(WorkspaceError, match="failed to clean local workspace: x: Operation not permitted"):
        workspace.close()
    monkeypatch.undo()
    memory_harness.workspace(CommitId("any")).close()
    assert len(attempt_directory.remove_abandoned(memory_harness.settings.root)) == 1
