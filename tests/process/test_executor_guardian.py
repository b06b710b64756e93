"""The process between supervisor and executor, without either server: the executor's modules do their mischief on import."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.worker_harness import alive, children, eventually

from perago.process import executor_guardian

MISCHIEF = """
import os, pathlib, subprocess, sys, time
away = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, env={})
if os.fork() == 0:
    daemon = subprocess.Popen(["/bin/sleep", "600"], **away)
    pathlib.Path("daemon.new").write_text(str(daemon.pid))
    os.rename("daemon.new", "daemon")
    os._exit(0)
os.wait()
child = subprocess.Popen(["/bin/sleep", "600"], **away)
pathlib.Path("child.new").write_text(str(child.pid))
os.rename("child.new", "child")
time.sleep(600)
"""


@dataclass
class Kept:
    process: "subprocess.Popen[bytes]"
    channel: socket.socket
    line: socket.socket
    folder: Path

    def pid(self, name: str) -> int:
        noted = self.folder / name
        return int(eventually(lambda: noted.exists() and noted.read_text()))

    def executor(self) -> int:
        return eventually(lambda: [pid for pid in children(self.process.pid) if pid != self.pid("daemon")])[0]

    def last_word(self) -> bytes:
        assert self.process.wait(15) == 0
        return self.line.recv(64)

    def close(self) -> None:
        self.channel.close()
        self.line.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    (tmp_path / "mischief.py").write_text(MISCHIEF)
    made = start(tmp_path, "mischief")
    yield made
    made.close()
    for name in ("child", "daemon"):
        if (tmp_path / name).exists() and alive(made.pid(name)):
            os.kill(made.pid(name), signal.SIGKILL)


def start(folder: Path, module: str) -> Kept:
    ours, theirs = socket.socketpair()
    line, orders = socket.socketpair()
    with theirs, orders:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", executor_guardian.__file__, str(theirs.fileno()), module],
            cwd=folder,
            stdin=orders.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
    line.settimeout(10)
    return Kept(process, ours, line, folder)


def test_its_last_word_is_how_the_executor_ended(tmp_path: Path) -> None:
    (tmp_path / "leaves.py").write_text("import os\nos._exit(42)\n")
    left = start(tmp_path, "leaves")
    assert left.last_word() == b"42"
    left.close()


def test_everything_ends_with_the_executor(kept: Kept) -> None:
    pids = [kept.pid("child"), kept.pid("daemon")]
    os.kill(kept.executor(), signal.SIGSEGV)
    assert kept.last_word() == b"-11"
    assert not any(map(alive, pids))


def test_everything_ends_when_it_is_told_so(kept: Kept) -> None:
    pids = [kept.pid("child"), kept.pid("daemon"), kept.executor()]
    kept.line.send(executor_guardian.END)
    assert kept.last_word() == b"-9"
    assert not any(map(alive, pids))


def test_everything_ends_when_nobody_holds_the_line_any_more(kept: Kept) -> None:
    pids = [kept.pid("child"), kept.pid("daemon"), kept.executor()]
    kept.line.close()
    assert kept.process.wait(15) == 0
    assert not any(map(alive, pids))


def test_orphans_end_alone_where_only_they_are_meant(kept: Kept) -> None:
    child, daemon, executor = kept.pid("child"), kept.pid("daemon"), kept.executor()
    kept.line.send(executor_guardian.END_ORPHANS)
    eventually(lambda: not Path(f"/proc/{daemon}").exists(), within=5)
    assert alive(child)
    assert alive(executor)


def test_signals_for_a_whole_session_do_not_end_it(kept: Kept) -> None:
    executor = kept.executor()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        kept.process.send_signal(number)
    kept.line.send(executor_guardian.END_ORPHANS)
    daemon = kept.pid("daemon")
    eventually(lambda: not Path(f"/proc/{daemon}").exists(), within=5)
    assert alive(executor)


def test_the_executor_dies_with_a_warden_that_is_killed(kept: Kept) -> None:
    executor = kept.executor()
    kept.process.kill()
    eventually(lambda: not alive(executor), within=5)
