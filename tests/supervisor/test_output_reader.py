"""Lines of a process's output, and that a process that prints without end does not block the event loop."""

import asyncio
import contextlib
import fcntl
import os
import socket
import subprocess
import sys
import termios
import time
from collections import Counter
from unittest import mock

import pytest
from tests.support.waiting import eventually

from perago.process.orphan_reaper import OrphanReaper
from perago.supervisor import executor_process, output_reader


async def read(data: bytes, *, parts: int = 1) -> list[str]:
    """All lines of it, through a real pipe."""
    found: list[str] = []
    reader, writer = os.pipe()
    loop = asyncio.get_running_loop()
    _, protocol = await loop.connect_read_pipe(
        lambda: output_reader.OutputReader(lambda line, _: found.append(line), lambda: None), os.fdopen(reader, "rb")
    )
    size = -(-len(data) // parts)
    for start in range(0, len(data), size):
        await loop.run_in_executor(None, _write, writer, data[start : start + size])
    os.close(writer)
    await asyncio.wait_for(protocol.closed, 20)
    return found


def _write(writer: int, data: bytes) -> None:
    while data:
        data = data[os.write(writer, data) :]


def test_lines_are_complete_however_they_arrive() -> None:
    for parts in (1, 3, 10):
        assert asyncio.run(read("ä\r\nzwei\n\ndrei".encode(), parts=parts)) == ["ä", "zwei", "", "drei"]


def test_invalid_utf8_is_escaped() -> None:
    assert asyncio.run(read(b"\xff\n")) == ["\\xff"]


def test_long_line_is_cut() -> None:
    found = asyncio.run(read(b"x" * (3 * output_reader.LONGEST_LINE + 5)))
    assert [len(line) for line in found] == [output_reader.LONGEST_LINE] * 3 + [5]


def test_many_lines_are_all_read() -> None:
    count = 5 * output_reader.AT_ONCE + 3
    assert asyncio.run(read(b"".join(b"%d\n" % number for number in range(count)))) == [str(number) for number in range(count)]


def test_lines_belong_to_what_ran_when_they_were_read() -> None:
    """Many lines are passed on much later than they are read, and the rest of a pipe is read when its process has ended."""
    count = 3 * output_reader.AT_ONCE

    async def main() -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        running = "first"
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        lines = output_reader.OutputReader(lambda line, owner: found.append((line, owner)), lambda: running)
        lines.data_received(b"y\n" * count)
        os.write(writer, b"y\nlast")
        os.close(writer)
        lines.read_rest(reader)
        os.close(reader)
        running = "second"
        assert len(found) < count
        lines.connection_lost(None)
        await asyncio.wait_for(lines.closed, 20)
        return found

    assert asyncio.run(main()) == [("y", "first")] * (count + 1) + [("last", "first")]


def test_what_a_dead_process_left_in_its_pipe_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a process that filled its pipe twice: the second half is in the pipe when it ends, and the first is being passed on."""
    full = 64 << 10
    monkeypatch.setattr(executor_process, "DRAIN_SECONDS", 0.1)
    monkeypatch.setattr(output_reader, "PAUSE_SECONDS", 0.5)
    program = [sys.executable, "-c", f"import os; os.write(1, b'\\n' * {2 * full})"]

    async def main(popen: "subprocess.Popen[bytes]") -> tuple[int, Counter[str]]:
        found: Counter[str] = Counter()
        all_read = asyncio.Event()
        running = "first"

        def on_line(_stream: str, _line: str, owner: str) -> None:
            found[owner] += 1
            if found.total() == 2 * full:
                all_read.set()

        with contextlib.ExitStack() as cleanup:
            ours, theirs, guardian, other = (cleanup.enter_context(end) for _ in range(2) for end in socket.socketpair())
            theirs.close()
            other.close()
            reaper = mock.create_autospec(OrphanReaper, instance=True)
            process = executor_process.ExecutorProcess(popen, ours, guardian, mock.Mock(), on_line, lambda: running, reaper)
            await asyncio.wait_for(process.ended, 20)
            before = found.total()
            running = "second"
            monkeypatch.setattr(output_reader, "PAUSE_SECONDS", 0)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(all_read.wait(), 10)
        return before, found

    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as popen:
        assert popen.stdout is not None
        pipe = popen.stdout.fileno()
        eventually(lambda: unread(pipe) == full)
        before, found = asyncio.run(main(popen))
    assert before < full, "it ended while its first lines were passed on"
    assert found == {"first": 2 * full}


def unread(pipe: int) -> int:
    count = bytearray(4)
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return int.from_bytes(count, sys.byteorder)


def test_event_loop_runs_while_a_process_floods_it() -> None:
    async def main() -> float:
        reader, writer = os.pipe()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: output_reader.OutputReader(lambda *_: time.sleep(0.0001), lambda: None), os.fdopen(reader, "rb")
        )
        os.set_blocking(writer, False)
        longest, end = 0.0, time.monotonic() + 2
        while time.monotonic() < end:
            with contextlib.suppress(BlockingIOError):
                os.write(writer, b"y\n" * 30_000)
            began = time.monotonic()
            await asyncio.sleep(0)
            longest = max(longest, time.monotonic() - began)
        transport.close()
        os.close(writer)
        return longest

    # A thousand lines at a tenth of a millisecond each; all that a pipe holds would take seconds.
    assert asyncio.run(main()) < 0.6
