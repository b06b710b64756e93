import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support import workspaces
from tests.support.waiting import eventually

from perago.errors import WorkspaceError
from perago.model import MARKER_NAME, ExecutionId
from perago.workspace import attempt_directory, rmtree

E1, E2 = ExecutionId("e1"), ExecutionId("e2")
NOBODY = 65534


def make(root: Path, execution: ExecutionId = E1, task: str = "t1") -> attempt_directory.AttemptDirectory:
    return attempt_directory.create(root, workspaces.attempt(task), execution)


@contextmanager
def killed_executor(root: Path, execution: str, *, forks: bool = False) -> Generator[None]:
    """A process made a directory and was killed; a child that it forked lives until the block ends."""
    script = f"""
import os, signal
from pathlib import Path
from perago.workspace import attempt_directory
from tests.support import workspaces
made = attempt_directory.create(Path({str(root)!r}), workspaces.attempt("t9"), {execution!r})
(made.work / "data").write_text("x")
if {forks} and os.fork() == 0:
    os.read(0, 1)
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, cwd=Path.cwd()) as executor:
        assert executor.wait() == -9
        yield


def die_without_cleaning(root: Path, execution: str) -> None:
    with killed_executor(root, execution):
        pass


def test_a_directory_is_private_marked_and_named_after_task_and_execution(tmp_path: Path) -> None:
    made = make(tmp_path / "deep/root")
    assert made.path.name == "t1-e1"
    assert made.path.stat().st_mode & 0o777 == 0o700
    assert made.work.stat().st_mode & 0o777 == 0o700
    assert list(made.work.iterdir()) == []
    marker = json.loads((made.path / MARKER_NAME).read_text())
    assert marker["pid"] == os.getpid()
    assert marker["execution_id"] == "e1"
    assert marker["attempt"]["task_id"] == "t1"
    assert abs(marker["started_at"] - time.time()) < 60
    assert made.remove() is None
    assert list((tmp_path / "deep/root").iterdir()) == []
    assert made.remove() is None


def test_an_execution_id_is_never_used_twice(tmp_path: Path) -> None:
    made = make(tmp_path)
    with pytest.raises(WorkspaceError, match="cannot create the attempt directory"):
        make(tmp_path)
    made.verify()
    made.remove()
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("identifier", ["../../etc", "a/b", "", ".", "x" * 300, "\0", "ü"])
def test_ids_that_are_no_file_names_stay_inside_the_root_and_apart(tmp_path: Path, identifier: str) -> None:
    made = make(tmp_path, task=identifier)
    assert made.path.parent == tmp_path
    assert attempt_directory.directory_name(identifier, "e") != attempt_directory.directory_name(identifier + "_", "e")
    assert made.remove() is None


def test_an_untouched_root_is_trusted_even_when_the_body_emptied_it(tmp_path: Path) -> None:
    made = make(tmp_path)
    workspaces.write(made.work, {"a": b"1"})
    made.verify()
    (made.work / "a").unlink()
    made.verify()
    made.remove()


def replaced(made: attempt_directory.AttemptDirectory) -> None:
    shutil.rmtree(made.work)
    made.work.mkdir(mode=0o700)


def swept(made: attempt_directory.AttemptDirectory) -> None:
    """Another process that sweeps the directory deletes the marker first."""
    (made.path / MARKER_NAME).unlink()


def taken_over(made: attempt_directory.AttemptDirectory) -> None:
    """A marker with the same content, but not the file that is locked."""
    marker = made.path / MARKER_NAME
    shutil.copy(marker, made.path / "copy")
    (made.path / "copy").rename(marker)


def gone(made: attempt_directory.AttemptDirectory) -> None:
    shutil.rmtree(made.path)


def symlinked(made: attempt_directory.AttemptDirectory) -> None:
    made.work.rename(made.path / "aside")
    made.work.symlink_to(made.path / "aside")


def unreadable(made: attempt_directory.AttemptDirectory) -> None:
    made.work.chmod(0)


def recreated(made: attempt_directory.AttemptDirectory) -> None:
    shutil.copytree(made.path, made.path.with_name("copy"))
    shutil.rmtree(made.path)
    made.path.with_name("copy").rename(made.path)


def a_file(made: attempt_directory.AttemptDirectory) -> None:
    shutil.rmtree(made.work)
    made.work.write_bytes(b"")


@pytest.mark.parametrize("fate", [replaced, swept, taken_over, gone, symlinked, unreadable, recreated, a_file])
def test_a_root_that_is_not_the_one_we_made_is_never_trusted(tmp_path: Path, fate: object) -> None:
    made = make(tmp_path)
    workspaces.write(made.work, {"a": b"1"})
    assert callable(fate)
    fate(made)
    with pytest.raises(WorkspaceError, match="cannot be trusted any more"):
        made.verify()
    made.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_removes_directories_of_ended_processes_only(tmp_path: Path) -> None:
    living = make(tmp_path)
    die_without_cleaning(tmp_path, "dead")
    (tmp_path / "not-ours").mkdir()
    removed = attempt_directory.remove_abandoned(tmp_path)
    assert [path.name for path in removed] == ["t9-dead"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["not-ours", "t1-e1"]
    living.verify()
    living.remove()


def test_a_sweep_by_age_spares_what_is_young(tmp_path: Path) -> None:
    die_without_cleaning(tmp_path, "dead")
    assert attempt_directory.remove_abandoned(tmp_path, older_than_seconds=3600) == []
    os.utime(tmp_path / "t9-dead" / MARKER_NAME, (0, 0))
    assert len(attempt_directory.remove_abandoned(tmp_path, older_than_seconds=3600)) == 1


def test_only_the_dead_executors_directory_is_collected(tmp_path: Path) -> None:
    die_without_cleaning(tmp_path, "dead1")
    die_without_cleaning(tmp_path, "dead2")
    living = make(tmp_path)
    assert attempt_directory.remove_execution(tmp_path, ExecutionId("dead1"))
    assert not attempt_directory.remove_execution(tmp_path, ExecutionId("dead1"))
    assert not attempt_directory.remove_execution(tmp_path, E1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t1-e1", "t9-dead2"]
    living.remove()
    attempt_directory.remove_abandoned(tmp_path)


def test_a_process_that_the_body_forked_does_not_keep_the_lock_of_a_dead_executor(tmp_path: Path) -> None:
    with killed_executor(tmp_path, "dead", forks=True):
        eventually(lambda: attempt_directory.remove_execution(tmp_path, ExecutionId("dead")), within=10, what="the removal")


def test_a_forked_child_does_not_take_the_lock_with_it(tmp_path: Path) -> None:
    made = make(tmp_path)
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert attempt_directory.remove_abandoned(tmp_path) == []
    made.remove()


def test_what_was_cut_off_while_it_was_made_is_swept_when_it_is_old(tmp_path: Path) -> None:
    unfinished = tmp_path / ".new-t1-e1"
    (unfinished / "work").mkdir(parents=True)
    attempt_directory.remove_abandoned(tmp_path)
    assert unfinished.exists()
    os.utime(unfinished, (0, 0))
    attempt_directory.remove_abandoned(tmp_path)
    assert not unfinished.exists()


def test_what_a_dead_executor_had_only_begun_to_make_is_collected_at_once(tmp_path: Path) -> None:
    ours, others = tmp_path / ".new-t1-e1", tmp_path / ".new-t1-e2"
    for unfinished in (ours, others):
        (unfinished / "work").mkdir(parents=True)
    attempt_directory.remove_execution(tmp_path, ExecutionId("e1"))
    assert (ours.exists(), others.exists()) == (False, True)


def test_sweeping_what_does_not_exist_is_nothing(tmp_path: Path) -> None:
    assert attempt_directory.remove_abandoned(tmp_path / "never") == []


def test_removal_survives_modes_links_and_depth() -> None:
    """As an ordinary user, because modes do not bind root."""
    script = f"""
import os, sys
from pathlib import Path
from perago.workspace import rmtree
if os.geteuid() == 0:
    os.setegid({NOBODY}); os.seteuid({NOBODY})
top = Path(sys.argv[1]) / "tree"
(top / "locked/inner").mkdir(parents=True)
(top / "locked/inner/file").write_text("x")
(top / "link").symlink_to(sys.argv[1] + "/outside")
os.chdir(top)
for _ in range(1500):
    os.mkdir("d" * 20); os.chdir("d" * 20)
open("deep", "w").close()
os.chdir("/")
(top / "locked/inner").chmod(0)
(top / "locked").chmod(0o500)
left = rmtree.remove_tree(top)
assert left is None, left
assert not top.exists()
"""
    with tempfile.TemporaryDirectory() as open_to_all:
        Path(open_to_all).chmod(0o777)
        workspaces.write(Path(open_to_all) / "outside", {"kept": b"x"})
        done = subprocess.run([sys.executable, "-c", script, open_to_all], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert (Path(open_to_all) / "outside/kept").exists()


def test_what_cannot_be_removed_is_reported_and_the_marker_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make(tmp_path)
    workspaces.write(made.work, {"stuck": b"1", "loose": b"2"})
    real = os.unlink

    def refuse(path: object, **options: object) -> None:
        if str(path).endswith("stuck"):
            raise PermissionError(1, "Operation not permitted")
        real(str(path))

    monkeypatch.setattr(rmtree.os, "unlink", refuse)
    left = made.remove()
    assert left is not None
    assert "stuck: Operation not permitted" in left
    assert (made.path / MARKER_NAME).exists()
    monkeypatch.undo()
    assert attempt_directory.remove_abandoned(tmp_path) == [made.path]
