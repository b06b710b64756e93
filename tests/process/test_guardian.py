"""The guardian in both of its uses: as the parent of an executor, controlled over its socket, and below a ChildProcess."""

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.waiting import eventually
from tests.support.worker_harness import alive

from perago.errors import ProvisionError
from perago.process import child_process, guardian
from perago.process.child_process import ChildProcess, Command
from perago.process.stop_request import StopRequest, StopRequested

STARTS_PROCESSES = """
import os, pathlib, subprocess, sys, time
detached = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, env={})
def note(name, pid):
    pathlib.Path(name + ".new").write_text(str(pid))
    os.rename(name + ".new", name)
if os.fork() == 0:
    note("daemon", subprocess.Popen(["/bin/sleep", "600"], **detached).pid)
    os._exit(0)
os.wait()
note("child", subprocess.Popen(["/bin/sleep", "600"], **detached).pid)
note("command", os.getpid())
time.sleep(600)
"""


@dataclass
class Guarded:
    """A guardian as the supervisor starts it: a command that inherits one descriptor, no log, no grace period."""

    process: "subprocess.Popen[bytes]"
    channel: socket.socket
    orders: socket.socket
    folder: Path

    def pid(self, name: str) -> int:
        """The pid of the command, of its child, or of the daemon that it abandoned in a separate session."""
        noted = self.folder / name
        return int(eventually(lambda: noted.exists() and noted.read_text()))

    def pids(self) -> list[int]:
        return [self.pid(name) for name in ("command", "child", "daemon")]

    def exit_code(self) -> int | None:
        assert self.process.wait(15) == 0
        return child_process.reported_exit_code(self.orders.recv(4096))

    def close(self) -> None:
        self.channel.close()
        self.orders.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def start(folder: Path, script: str) -> Guarded:
    ours, channel = socket.socketpair()
    orders, theirs = socket.socketpair()
    with channel, theirs:
        process = subprocess.Popen(
            child_process.guardian_line([sys.executable, "-c", script, str(channel.fileno())], pass_fd=channel.fileno()),
            cwd=folder,
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(channel.fileno(),),
            start_new_session=True,
        )
    orders.settimeout(10)
    ours.settimeout(10)
    return Guarded(process, ours, orders, folder)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    started = start(tmp_path, STARTS_PROCESSES)
    yield started
    started.close()
    for name in ("child", "daemon"):
        if (tmp_path / name).exists() and alive(started.pid(name)):
            os.kill(started.pid(name), signal.SIGKILL)


def test_guardian_reports_exit_code_of_command(tmp_path: Path) -> None:
    started = start(tmp_path, "import os; os._exit(42)")
    assert started.exit_code() == 42
    started.close()


def test_everything_ends_with_the_command(guarded: Guarded) -> None:
    pids = guarded.pids()
    os.kill(guarded.pid("command"), signal.SIGSEGV)
    assert guarded.exit_code() == -signal.SIGSEGV
    assert not any(map(alive, pids))


def test_kill_order_ends_everything(guarded: Guarded) -> None:
    pids = guarded.pids()
    guarded.orders.send(guardian.KILL)
    assert guarded.exit_code() == -signal.SIGKILL
    assert not any(map(alive, pids))


def test_everything_ends_when_owner_closes_its_socket(guarded: Guarded) -> None:
    pids = guarded.pids()
    guarded.orders.close()
    assert guarded.process.wait(15) == 0
    assert not any(map(alive, pids))


def test_interrupt_order_sends_sigterm_to_command(guarded: Guarded) -> None:
    guarded.pids()
    guarded.orders.send(guardian.INTERRUPT)
    assert guarded.exit_code() == -signal.SIGTERM


def test_kill_orphans_order_spares_command_and_its_children(guarded: Guarded) -> None:
    command, child, daemon = guarded.pids()
    guarded.orders.send(guardian.KILL_ORPHANS)
    eventually(lambda: not Path(f"/proc/{daemon}").exists(), within=5)
    assert alive(child)
    assert alive(command)


def test_terminal_signals_do_not_end_the_guardian(guarded: Guarded) -> None:
    command, _, daemon = guarded.pids()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        guarded.process.send_signal(number)
    guarded.orders.send(guardian.KILL_ORPHANS)
    eventually(lambda: not Path(f"/proc/{daemon}").exists(), within=5)
    assert alive(command)


def test_command_dies_with_killed_guardian(guarded: Guarded) -> None:
    command = guarded.pid("command")
    guarded.process.kill()
    eventually(lambda: not alive(command), within=5)


def test_only_the_command_holds_the_passed_descriptor(tmp_path: Path) -> None:
    started = start(tmp_path, "import os, sys, time; os.close(int(sys.argv[1])); time.sleep(600)")
    assert started.channel.recv(1) == b""
    assert alive(started.process.pid)
    started.close()


# The second use: ChildProcess.


@pytest.fixture
def stop_request() -> Generator[StopRequest]:
    made = StopRequest()
    yield made
    made.close()


def shell(tmp_path: Path, script: str, grace: float = 5.0) -> Command:
    return Command(["/bin/sh", "-c", script], tmp_path, tmp_path / "log", grace=grace)


def logged(tmp_path: Path) -> str:
    return (tmp_path / "log").read_text()


def test_command_runs_in_its_directory_and_writes_to_its_log(tmp_path: Path, stop_request: StopRequest) -> None:
    assert child_process.run(shell(tmp_path, "pwd; echo oops >&2; exit 3"), stop_request, lambda: None) == 3
    assert logged(tmp_path) == f"{tmp_path}\noops\n"


def test_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProvisionError, match=r"/no/such/program cannot be started: No such file or directory: /no/such/program"):
        ChildProcess(Command(["/no/such/program"], tmp_path, tmp_path / "log"))


def test_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProvisionError, match=r"true cannot be started: No such file or directory: .*/missing"):
        ChildProcess(Command(["true"], tmp_path / "missing", tmp_path / "log"))


def test_pid_is_that_of_the_command(tmp_path: Path) -> None:
    child = ChildProcess(shell(tmp_path, "echo $$; exec sleep 60"))
    try:
        eventually(lambda: logged(tmp_path) == f"{child.pid}\n")
    finally:
        assert child.stop() == -signal.SIGTERM
    assert not alive(child.pid)


def test_command_that_ignores_sigterm_is_killed_after_grace_period(tmp_path: Path) -> None:
    child = ChildProcess(shell(tmp_path, "trap '' TERM; echo ready; while :; do sleep 0.05; done", grace=0.3))
    eventually(lambda: "ready" in logged(tmp_path))
    assert child.stop() == -signal.SIGKILL
    assert not alive(child.pid)


@pytest.mark.parametrize("prefix", ["", "setsid "], ids=["same session", "own session"])
def test_stop_ends_processes_that_the_command_started(tmp_path: Path, prefix: str) -> None:
    helper = f"{prefix}sh -c \"trap '' TERM; echo \\$\\$; while :; do sleep 0.05; done\" &"
    child = ChildProcess(shell(tmp_path, f"trap 'exit 0' TERM; {helper} wait"))
    eventually(lambda: logged(tmp_path).endswith("\n"))
    assert child.stop() == 0
    assert not alive(int(logged(tmp_path)))


def test_command_does_not_inherit_ignored_signals(tmp_path: Path, stop_request: StopRequest) -> None:
    # As in a background job of a shell.
    before = signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    try:
        child_process.run(shell(tmp_path, "grep SigIgn /proc/self/status"), stop_request, lambda: None)
    finally:
        signal.signal(signal.SIGQUIT, before)
    ignored = int(logged(tmp_path).split()[1], 16)
    # The C library ignores its two internal signals (32 and 33) in every process that posix_spawn starts, as `make` does.
    assert ignored & ~(0b11 << 31) == 0


def test_end_of_command_is_noticed_at_once(tmp_path: Path) -> None:
    child = ChildProcess(shell(tmp_path, "exec sleep 60"))
    os.kill(child.pid, signal.SIGKILL)
    assert eventually(child.exit_code, within=2.0) == -signal.SIGKILL


def test_kill_and_stop_may_be_repeated(tmp_path: Path) -> None:
    child = ChildProcess(shell(tmp_path, "exec sleep 60"))
    assert child.kill() == -signal.SIGKILL
    assert child.kill() == -signal.SIGKILL
    assert child.stop() == -signal.SIGKILL


def test_command_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    started: list[ChildProcess] = []
    thread = threading.Thread(target=lambda: started.append(ChildProcess(shell(tmp_path, "echo up; exec sleep 60"))))
    thread.start()
    thread.join()
    eventually(lambda: "up" in logged(tmp_path))
    assert started[0].exit_code() is None
    assert alive(started[0].pid)
    started[0].stop()


def test_stop_request_ends_running_command(tmp_path: Path, stop_request: StopRequest) -> None:
    pids: list[int] = []

    def tick() -> None:
        if logged(tmp_path).endswith("\n"):
            pids.append(int(logged(tmp_path)))
            stop_request.request(signal.SIGTERM)

    with pytest.raises(StopRequested):
        child_process.run(shell(tmp_path, "echo $$; exec sleep 60"), stop_request, tick)
    assert not alive(pids[0])


def test_child_process_reports_sigkill_for_killed_guardian(tmp_path: Path) -> None:
    child = ChildProcess(shell(tmp_path, "exec sleep 600"))
    os.kill(child._guardian.pid, signal.SIGKILL)
    eventually(lambda: not alive(child.pid), within=5.0)
    assert child.exit_code() == -signal.SIGKILL


def test_stop_reports_sigkill_for_guardian_killed_before_it_reads_the_order(tmp_path: Path) -> None:
    child = ChildProcess(shell(tmp_path, "exec sleep 600"))
    os.kill(child._guardian.pid, signal.SIGSTOP)
    child._socket.send(guardian.INTERRUPT)
    os.kill(child._guardian.pid, signal.SIGKILL)
    assert child.stop() == -signal.SIGKILL


def test_command_has_its_own_session_and_process_group(tmp_path: Path) -> None:
    child = ChildProcess(shell(tmp_path, "exec sleep 600"))
    assert os.getsid(child.pid) != os.getsid(0)
    assert os.getpgid(child.pid) != os.getpgid(0)
    child.stop()


OWNER = """
    import fcntl, json, os, sys, time
    from pathlib import Path
    from perago.process.child_process import ChildProcess, Command
    here, keeps_copy = Path(sys.argv[1]), sys.argv[2] == "fork"
    data = here / "data"
    data.mkdir()
    lock = os.open(data / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    commands = [Command(["/bin/sh", "-c", script], here, here / "log", lock_fd=lock, remove=data) for script in sys.argv[3:]]
    running = [ChildProcess(command) for command in commands]
    copy = os.fork() if keeps_copy else 0
    if keeps_copy and not copy:
        os.close(lock)
        time.sleep(600)
    print(json.dumps([copy, *(child.pid for child in running)]), flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("copy", ["alone", "fork"])
@pytest.mark.parametrize("script", ["exec sleep 600", "trap '' TERM INT HUP; while :; do sleep 0.05; done"])
def test_commands_and_data_directory_of_killed_owner_are_removed(tmp_path: Path, script: str, copy: str) -> None:
    """Also if a fork of the owner still holds the sockets."""
    line = [sys.executable, "-c", textwrap.dedent(OWNER), str(tmp_path), copy, script, script]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        fork, *pids = json.loads(owner.stdout.readline())
        assert all(map(alive, pids))
        owner.kill()
        eventually(lambda: not any(map(alive, pids)), within=5.0)
        eventually(lambda: not (tmp_path / "data").exists(), within=5.0)
        if fork:
            os.kill(fork, signal.SIGKILL)


def test_guardian_needs_few_megabytes(tmp_path: Path) -> None:
    child = ChildProcess(shell(tmp_path, "exec sleep 600"))
    lines = Path(f"/proc/{child._guardian.pid}/smaps_rollup").read_text().splitlines()
    private = sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
    child.stop()
    assert private < 8 * 1024, f"{private} KiB"
