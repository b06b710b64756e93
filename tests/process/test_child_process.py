import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from perago.errors import ProvisionError
from perago.process import child_process
from perago.process.child_process import Child, Command
from perago.process.stop_request import Cancel, Cancelled


@pytest.fixture
def cancel() -> Generator[Cancel]:
    token = Cancel()
    yield token
    token.close()


def command(tmp_path: Path, *line: str, grace: float = 5.0) -> Command:
    return Command(line, tmp_path, tmp_path / "log", grace=grace)


def shell(tmp_path: Path, script: str, grace: float = 5.0) -> Command:
    return command(tmp_path, "/bin/sh", "-c", script, grace=grace)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A dead child of init that was not reaped yet is dead all the same.
    state = Path(f"/proc/{pid}/stat")
    return not (state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z")


def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def test_a_command_runs_in_its_directory_and_its_output_goes_to_the_log(tmp_path: Path, cancel: Cancel) -> None:
    assert child_process.run(shell(tmp_path, "pwd; echo oops >&2; exit 3"), cancel, lambda: None) == 3
    assert (tmp_path / "log").read_text() == f"{tmp_path}\noops\n"


def test_a_program_that_does_not_exist_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ProvisionError, match=r"/no/such/program cannot be started: No such file or directory"):
        Child(command(tmp_path, "/no/such/program"))


def test_the_pid_is_the_commands_own(tmp_path: Path) -> None:
    child = Child(shell(tmp_path, "echo $$; exec sleep 60"))
    try:
        until(lambda: (tmp_path / "log").read_text() == f"{child.pid}\n")
    finally:
        assert child.stop() == -signal.SIGTERM
    assert not alive(child.pid)


def test_a_command_that_ignores_the_request_is_killed_after_the_grace_period(tmp_path: Path) -> None:
    child = Child(shell(tmp_path, "trap '' TERM; echo ready; while :; do sleep 0.05; done", grace=0.3))
    until(lambda: "ready" in (tmp_path / "log").read_text())
    assert child.stop() == -signal.SIGKILL
    assert not alive(child.pid)


def test_stop_takes_the_commands_helpers_along(tmp_path: Path) -> None:
    child = Child(shell(tmp_path, "trap 'exit 0' TERM; (trap '' TERM; while :; do sleep 0.05; done) & echo $!; wait"))
    until(lambda: (tmp_path / "log").read_text().endswith("\n"))
    helper = int((tmp_path / "log").read_text())
    child.stop()
    until(lambda: not alive(helper))


def test_a_killed_command_is_noticed_at_once(tmp_path: Path) -> None:
    child = Child(shell(tmp_path, "exec sleep 60"))
    os.kill(child.pid, signal.SIGKILL)
    began = time.monotonic()
    until(lambda: child.exit_code() is not None, 2.0)
    assert child.exit_code() == -signal.SIGKILL
    assert time.monotonic() - began < 2.0


def test_kill_and_stop_may_come_twice(tmp_path: Path) -> None:
    child = Child(shell(tmp_path, "exec sleep 60"))
    assert child.kill() == -signal.SIGKILL
    assert child.kill() == -signal.SIGKILL
    assert child.stop() == -signal.SIGKILL


def test_a_command_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    started: list[Child] = []
    thread = threading.Thread(target=lambda: started.append(Child(shell(tmp_path, "echo up; exec sleep 60"))))
    thread.start()
    thread.join()
    child = started[0]
    until(lambda: "up" in (tmp_path / "log").read_text())
    assert child.exit_code() is None
    assert alive(child.pid)
    child.stop()


def test_a_stop_request_ends_a_running_command(tmp_path: Path, cancel: Cancel) -> None:
    pids: list[int] = []

    def tick() -> None:
        text = (tmp_path / "log").read_text()
        if text.endswith("\n"):
            pids.append(int(text))
            cancel.request(signal.SIGTERM)

    with pytest.raises(Cancelled):
        child_process.run(shell(tmp_path, "echo $$; exec sleep 60"), cancel, tick)
    assert not alive(pids[0])


OWNER = """
    import sys, time, json
    from pathlib import Path
    from perago.process.child_process import Child, Command
    here = Path(sys.argv[1])
    children = [Child(Command(["/bin/sh", "-c", script], here, here / "log")) for script in sys.argv[2:]]
    print(json.dumps([child.pid for child in children]), flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("script", ["exec sleep 600", "trap '' TERM INT HUP; while :; do sleep 0.05; done"])
def test_nothing_survives_a_killed_owner(tmp_path: Path, script: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(OWNER), str(tmp_path), script, script], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        pids = json.loads(owner.stdout.readline())
        assert all(map(alive, pids))
        owner.kill()
    until(lambda: not any(map(alive, pids)), 5.0)


def test_a_killed_keeper_takes_its_command_along(tmp_path: Path) -> None:
    child = Child(shell(tmp_path, "exec sleep 600"))
    os.kill(child._keeper.pid, signal.SIGKILL)
    until(lambda: not alive(child.pid), 5.0)
    assert child.exit_code() == -signal.SIGKILL


def test_the_terminals_interrupt_does_not_reach_the_command(tmp_path: Path) -> None:
    child = Child(shell(tmp_path, "exec sleep 600"))
    assert os.getsid(child.pid) != os.getsid(0)
    assert os.getpgid(child.pid) != os.getpgid(0)
    child.stop()
