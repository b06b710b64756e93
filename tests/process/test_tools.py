"""Exit status, stop request, lock file, interruptible wait and backoff."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from perago.process import lock_file
from perago.process.backoff import Backoff
from perago.process.exit_status import ExitStatus
from perago.process.lock_file import LockFile
from perago.process.stop_request import StopRequest, StopRequested
from perago.process.waiting import is_set_within


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "exited with code 0"), (-11, "was killed by SIGSEGV (11)"), (-250, "was killed by signal 250")],
)
def test_exit_status_in_words(code: int, words: str) -> None:
    assert str(ExitStatus(code)) == words


@pytest.fixture
def stop_request() -> Generator[StopRequest]:
    made = StopRequest()
    yield made
    made.close()


def test_wait_returns_when_descriptor_is_readable(stop_request: StopRequest) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"x")
    began = time.monotonic()
    stop_request.wait([reader], 60.0)
    assert time.monotonic() - began < 30
    os.close(reader)
    os.close(writer)


def test_wait_returns_after_its_time(stop_request: StopRequest) -> None:
    stop_request.wait([], 0.01)


def test_stop_request_ends_a_wait_of_another_thread(stop_request: StopRequest) -> None:
    ended: list[bool] = []

    def wait() -> None:
        with pytest.raises(StopRequested):
            stop_request.wait([], 60.0)
        ended.append(True)

    thread = threading.Thread(target=wait)
    thread.start()
    stop_request.request(signal.SIGINT)
    thread.join(30)
    assert ended


def test_first_stop_request_counts(stop_request: StopRequest) -> None:
    stop_request.request(signal.SIGINT)
    stop_request.request(signal.SIGTERM)
    assert stop_request.number == signal.SIGINT
    with pytest.raises(StopRequested):
        stop_request.check()


def test_lock_file_is_held_once(tmp_path: Path) -> None:
    with LockFile(tmp_path / "lock"):
        assert lock_file.is_locked(tmp_path / "lock")
        with pytest.raises(BlockingIOError):
            LockFile(tmp_path / "lock")
    assert not lock_file.is_locked(tmp_path / "lock")


def test_waiting_lock_file_is_taken_when_it_is_released(tmp_path: Path) -> None:
    first = LockFile(tmp_path / "lock")
    taken: list[LockFile] = []
    thread = threading.Thread(target=lambda: taken.append(LockFile(tmp_path / "lock", wait=True)))
    thread.start()
    assert not taken
    first.close()
    thread.join(30)
    taken[0].close()


def test_lock_file_carries_a_text(tmp_path: Path) -> None:
    with LockFile(tmp_path / "lock") as lock:
        lock.write(b"a long text")
        lock.write(b"short")
        assert lock.read() == b"short"
    assert (tmp_path / "lock").read_bytes() == b"short"


def test_lock_of_killed_process_is_free(tmp_path: Path) -> None:
    script = "import sys, time; from perago.process.lock_file import LockFile; lock = LockFile(sys.argv[1]); print(flush=True); "
    script += "time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "lock")], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert lock_file.is_locked(tmp_path / "lock")
        holder.kill()
    assert not lock_file.is_locked(tmp_path / "lock")


def test_missing_lock_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        lock_file.is_locked(tmp_path / "lock")


def test_event_ends_wait_early() -> None:
    async def scenario() -> None:
        event = asyncio.Event()
        assert not await is_set_within(event, 0.0)
        assert not await is_set_within(event, 0.01)
        asyncio.get_running_loop().call_soon(event.set)
        assert await is_set_within(event, 60.0)

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_backoff_grows_to_its_longest_pause() -> None:
    backoff = Backoff(0.5, 3.0)
    assert [backoff.pause(failures) for failures in range(6)] == [0.0, 0.5, 1.0, 2.0, 3.0, 3.0]
    assert backoff.pause(1_000_000) == 3.0


def test_backoff_jitter_stays_within_its_bounds() -> None:
    pauses = [Backoff(1.0, 10.0, factor=3.0, jitter=(0.5, 1.0)).pause(2) for _ in range(1000)]
    assert 1.5 <= min(pauses) < 2.0
    assert 2.5 < max(pauses) <= 3.0
