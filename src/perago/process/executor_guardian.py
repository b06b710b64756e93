"""Keeps one executor and everything that ever came of it: the executor's arguments in, its exit code out, nothing left running.

A script of its own (standard library only), started by the supervisor with `python -I -S`. What a body starts and abandons, even
in a session of its own, is handed by the kernel to this process and not to init. Stdin is the supervisor's line: orders come over
it, its end means that the supervisor is gone, and the last word said over it is the exit code. Where the kernel knows no such
adoption (it is Linux's), only the executor's process group is ended.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Collection, Iterable

INTERRUPT = b"t"
"""Pass SIGTERM on to the executor."""
END_ORPHANS = b"o"
"""Kill what bodies abandoned; what still has its parent stays."""
END = b"k"
"""Kill everything."""
ENDING_SECONDS = 5.0
"""For killed processes to be gone; one that hangs in the kernel is left to it."""
_LINE = 0
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main(arguments: list[str]) -> int:
    """`warden.py FD MODULE…`; FD is the executor's end of its channel."""
    channel, *modules = arguments
    adopt_orphans()
    wake = _wake_on_child_exit()
    executor = _start([sys.executable, "-m", "perago.executor.main", channel, *modules])
    # Only the executor may hold it: whoever hears it close knows that the executor is gone.
    os.close(int(channel))
    ended = _keep(executor, wake)
    ended |= _end_all(executor)
    code = os.waitstatus_to_exitcode(ended[executor]) if executor in ended else -signal.SIGKILL
    with contextlib.suppress(OSError):
        os.write(_LINE, str(code).encode())
    return 0


def adopt_orphans() -> None:
    """From now on a descendant of this process whose parent ends becomes its child."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill(pids: Iterable[int]) -> None:
    for pid in pids:
        # Gone by now, or somebody else's by now (a program that runs as another user).
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def descendants(of: int, *, spared: Collection[int] = ()) -> list[int]:
    """Children first, then theirs. Those of `spared` stay out, with all that is below them."""
    families = _families()
    found = [pid for pid in families.get(of, []) if pid not in spared]
    for pid in found:
        found += families.get(pid, [])
    return found


def _families() -> dict[int, list[int]]:
    """Who is whose child, on all of the machine. No pathlib: there is one of these processes per executor."""
    families: dict[int, list[int]] = {}
    if sys.platform != "linux":
        return families
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
            # The name in parentheses may hold anything.
            parent = int(file.read().rpartition(b")")[2].split()[1])
            families.setdefault(parent, []).append(int(name))
    return families


def _wake_on_child_exit() -> int:
    """Handlers and not SIG_IGN: what is ignored stays ignored in the executor and in all that its bodies start."""
    reader, writer = os.pipe()
    for end in (reader, writer):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: None)
    return reader


def _start(command: list[str]) -> int:
    warden = os.getpid()
    executor = os.fork()
    if executor:
        return executor
    try:
        os.setsid()
        _die_with(warden)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execv(command[0], command)  # noqa: S606  ourselves
    finally:
        os._exit(1)


def _die_with(parent: int) -> None:
    """Ask the kernel to kill this process when its parent ends, also across exec; if it ended before we asked, end now."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _keep(executor: int, wake: int) -> dict[int, int]:
    """Until the executor has ended or has to; who ended, and how."""
    while executor not in (ended := _reaped()):
        readable, _, _ = select.select([_LINE, wake], [], [])
        if wake in readable:
            os.read(wake, 4096)
        if _LINE in readable and _obey(executor):
            return {}
    return ended


def _obey(executor: int) -> bool:
    """True if everything has to end."""
    try:
        orders = os.read(_LINE, 64)
    except OSError:
        orders = b""
    if not orders or END in orders:
        return True
    if INTERRUPT in orders:
        with contextlib.suppress(ProcessLookupError):
            os.kill(executor, signal.SIGTERM)
    if END_ORPHANS in orders:
        kill(descendants(os.getpid(), spared={executor}))
    return False


def _end_all(executor: int) -> dict[int, int]:
    """Again and again, because a process may start another while it is being killed."""
    if sys.platform != "linux":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(executor, signal.SIGKILL)
        return _reaped()
    ended: dict[int, int] = {}
    deadline = time.monotonic() + ENDING_SECONDS
    while (living := descendants(os.getpid())) and time.monotonic() < deadline:
        kill(living)
        time.sleep(0.005)
        ended |= _reaped()
    return ended


def _reaped() -> dict[int, int]:
    """Children that have ended, adopted ones too, so that none stays a zombie."""
    ended: dict[int, int] = {}
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended[found[0]] = found[1]
    return ended


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
