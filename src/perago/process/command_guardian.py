"""Runs one command and never outlives whoever started it: a pipe on stdin in, the command's pid and exit code out.

A script of its own (standard library only), started with `python -I -S`. Stdin is held open by the owner: a byte on it means
"stop", its end means that the owner is gone. Stdout gets `pid N` or `error TEXT`, later `exit CODE`. The keeper leads a session
of its own, so a Ctrl-C in the terminal reaches the owner and not the command.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TypedDict

_PR_SET_PDEATHSIG = 1
_ORPHAN_GRACE = 1.0
_PARENT_CHECK = 1.0


class Order(TypedDict):
    """What the owner asks for, as one JSON argument before the command."""

    cwd: str
    log: str
    grace: float
    lock_fd: int | None
    remove: str | None


def main() -> int:
    order: Order = json.loads(sys.argv[1])
    # Read before anything slow, so that an owner who dies during our own start is noticed too.
    owner = os.getppid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    wake = _wake_on_child_exit()
    try:
        child = _spawn(order, sys.argv[2:])
    except OSError as error:
        _say(f"error {error.strerror}: {error.filename}")
        return 127
    _say(f"pid {child.pid}")
    asked = _wait(child, wake, owner)
    code = _finish(child, order["grace"] if asked else _ORPHAN_GRACE)
    _say(f"exit {code}")
    if not asked:
        _clean_up(order)
    return 0


def _wake_on_child_exit() -> int:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    return reader


def _spawn(order: Order, command: list[str]) -> subprocess.Popen[bytes]:
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        # preexec_fn is safe here: this process has one thread, and it lives as long as the command does.
        return subprocess.Popen(
            command,
            cwd=order["cwd"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            process_group=0,
            preexec_fn=_die_with_keeper,  # noqa: PLW1509
        )
    finally:
        os.close(log)


def _die_with_keeper() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _wait(child: subprocess.Popen[bytes], wake: int, owner: int) -> bool:
    """Until the command has ended or must end. True when the owner is still there."""
    while True:
        if child.poll() is not None:
            return True
        readable, _, _ = select.select([0, wake], [], [], _PARENT_CHECK)
        if wake in readable:
            os.read(wake, 1024)
        if 0 in readable:
            return os.read(0, 1) != b""
        # Somebody else may hold a copy of the pipe (a fork of the owner); a new parent still tells.
        if os.getppid() != owner:
            return False


def _finish(child: subprocess.Popen[bytes], grace: float) -> int:
    _signal_group(child.pid, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    # The command may have left helpers behind in its group (compilers, for one).
    _signal_group(child.pid, signal.SIGKILL)
    return child.wait()


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _clean_up(order: Order) -> None:
    """Removes a temporary data directory that nobody is left to remove; the last keeper on its lock does it."""
    if order["lock_fd"] is None or order["remove"] is None:
        return
    os.close(order["lock_fd"])
    with contextlib.suppress(OSError), (Path(order["remove"]) / "lock").open("rb") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(order["remove"], ignore_errors=True)


def _say(line: str) -> None:
    with contextlib.suppress(OSError):
        os.write(1, f"{line}\n".encode())


if __name__ == "__main__":
    sys.exit(main())
