"""Runs one command. Kills it and all its descendants when it ends, when its owner requests that, or when its owner has ended.

A script, started with `python -I -S guardian.py [OPTION=VALUE…] -- COMMAND…`. Standard library only, and few modules of it: there
is one guardian per executor and per server, and each needs only a few megabytes.

Stdin is a socket held by the owner. The owner sends orders of one byte; the end of the stream means that the owner has ended. The
guardian answers `pid N` or `error TEXT`, and `exit CODE` when everything has ended. On Linux the kernel makes the guardian the
parent of what the command starts and abandons, even in a session of its own, so that it can be killed too; on other systems
only the command's process group is. Guardian and command have sessions of their own, so a Ctrl-C reaches only the owner.
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
"""Send SIGTERM to the command alone."""
KILL_ORPHANS = b"o"
"""Kill the processes whose parent has ended; the command and its living children stay."""
STOP = b"s"
"""Send SIGTERM to the command's process group, and kill everything after the grace period."""
KILL = b"k"
"""Kill everything."""
KILL_SECONDS = 5.0
"""How long killed processes may take to end. A process that hangs in the kernel is left running."""
_LONGEST_ORPHAN_GRACE = 1.0
_PARENT_CHECK_SECONDS = 1.0
_OWNER = 0
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main(arguments: list[str]) -> int:
    """Runs the command to its end; always 0, unless the command cannot be started.

    Options: `cwd`; `input`, a file that the command reads as its standard input (none: it is empty); `log`, to which output is
    appended; `grace` in seconds (none: kill at once); `pass_fd`, a descriptor for the command alone; `lock_fd`, one for the
    guardian alone; `remove`, a directory to remove if the owner has ended.
    """
    # Read before anything slow, so that the death of the owner during the start of the guardian is noticed.
    parent = os.getppid()
    separator = arguments.index("--")
    options = dict(argument.split("=", 1) for argument in arguments[:separator])
    adopt_orphans()
    wake = _wake_on_signals()
    try:
        pid = _start(arguments[separator + 1 :], options)
    except OSError as error:
        _send_line(f"error {error.strerror}: {error.filename}")
        return 127
    _send_line(f"pid {pid}")
    guarded = _Guarded(pid, wake, parent)
    order = guarded.watch()
    grace = float(options.get("grace", 0))
    code = guarded.end({STOP: grace, b"": min(grace, _LONGEST_ORPHAN_GRACE)}.get(order, 0.0))
    _send_line(f"exit {code}")
    if not order:
        _remove_data_directory(options)
    return 0


def adopt_orphans() -> None:
    """Make this process the new parent of every descendant whose parent ends (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill(pids: Iterable[int]) -> None:
    for pid in pids:
        # It may have ended, or run as another user by now.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def descendants(of: int, *, spared: Collection[int] = ()) -> list[int]:
    """Children first, then their descendants, without those in `spared` and below them. Empty on systems without /proc."""
    children = _children_by_parent()
    found = [pid for pid in children.get(of, []) if pid not in spared]
    for pid in found:
        found += children.get(pid, [])
    return found


def _children_by_parent() -> dict[int, list[int]]:
    """The children of every process on this machine. Without pathlib, which would double the guardian's memory."""
    children: dict[int, list[int]] = {}
    if sys.platform != "linux":
        return children
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
            # The program name in parentheses may contain spaces and parentheses.
            parent = int(file.read().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(name))
    return children


def _wake_on_signals() -> int:
    """A descriptor that is readable after a signal. Handlers and not SIG_IGN, which the command would inherit."""
    reader, writer = os.pipe()
    for end in (reader, writer):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: None)
    return reader


def _start(command: list[str], options: dict[str, str]) -> int:
    """The command's pid. An error in the new process before the command runs is raised here."""
    if "lock_fd" in options:
        os.set_inheritable(int(options["lock_fd"]), False)
    log = os.open(options["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if "log" in options else None
    given = os.open(options.get("input", os.devnull), os.O_RDONLY)
    if "cwd" in options:
        os.chdir(options["cwd"])
    errors, writer = os.pipe()
    guardian = os.getpid()
    pid = os.fork()
    if not pid:
        _exec(command, guardian, (given, log), writer)
    os.close(writer)
    os.close(given)
    if log is not None:
        os.close(log)
    if "pass_fd" in options:
        # The owner notices the command's end by the end of this stream.
        os.close(int(options["pass_fd"]))
    with open(errors, "rb") as stream:  # noqa: PTH123
        if number := stream.read():
            os.waitpid(pid, 0)
            raise OSError(int(number), os.strerror(int(number)), command[0])
    return pid


def _exec(command: list[str], guardian: int, streams: tuple[int, int | None], errors: int) -> None:
    """Replaces the new process by the command; if that fails, writes the error number. `streams` are its input and its log."""
    given, log = streams
    try:
        os.setsid()
        _die_with(guardian)
        # Python ignores two signals, a shell ignores two in its background jobs; the command must not inherit that.
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(given, 0)
        if log is not None:
            os.dup2(log, 1)
            os.dup2(log, 2)
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        os.write(errors, str(error.errno).encode())
    finally:
        os._exit(1)


def _die_with(parent: int) -> None:
    """Asks the kernel to kill this process when its parent ends, also after exec; ends it now if the parent has ended already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


class _Guarded:
    """The command and everything that it started."""

    def __init__(self, pid: int, wake: int, parent: int) -> None:
        self._pid = pid
        self._wake = wake
        self._parent = parent
        self._code: int | None = None

    def watch(self) -> bytes:
        """Returns when everything has to end: KILL (also when the command has ended), STOP, or nothing if the owner has ended."""
        while not self._has_ended():
            readable, _, _ = select.select([_OWNER, self._wake], [], [], _PARENT_CHECK_SECONDS)
            self._clear(readable)
            if _OWNER in readable and (last := self._read_orders()) is not None:
                return last
            # A fork of the owner may hold a copy of the socket; a new parent also shows that the owner has ended.
            if os.getppid() != self._parent:
                return b""
        return KILL

    def end(self, grace: float) -> int:
        """Ends everything, and returns the command's exit code, negative if a signal ended it."""
        deadline = time.monotonic() + grace
        if grace:
            self._signal_group(signal.SIGTERM)
        while not self._has_ended() and (left := deadline - time.monotonic()) > 0:
            self._clear(select.select([self._wake], [], [], left)[0])
        self._kill_all()
        return -signal.SIGKILL if self._code is None else self._code

    def _read_orders(self) -> bytes | None:
        """Reads orders; an order that ends everything is returned, or nothing (b"") if there will be no more."""
        try:
            orders = os.read(_OWNER, 64)
        except OSError:
            orders = b""
        for last in (KILL, STOP):
            if last in orders:
                return last
        if not orders:
            return orders
        if INTERRUPT in orders:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGTERM)
        if KILL_ORPHANS in orders:
            kill(descendants(os.getpid(), spared={self._pid}))
        return None

    def _kill_all(self) -> None:
        """Kill repeatedly, because a process may start another while it is being killed."""
        deadline = time.monotonic() + KILL_SECONDS
        # After the command was reaped its process group may belong to another program; Linux finds its descendants without it.
        if self._code is None or sys.platform != "linux":
            self._signal_group(signal.SIGKILL)
        while time.monotonic() < deadline:
            has_ended, living = self._has_ended(), descendants(os.getpid())
            if has_ended and not living:
                return
            kill(living)
            time.sleep(0.005)

    def _has_ended(self) -> bool:
        """Reaps every child that has ended, adopted ones too, and remembers the command's exit code."""
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == self._pid:
                    self._code = os.waitstatus_to_exitcode(found[1])
        return self._code is not None

    def _signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, number)

    def _clear(self, readable: list[int]) -> None:
        if self._wake in readable:
            os.read(self._wake, 4096)


def _remove_data_directory(options: dict[str, str]) -> None:
    """Remove the directory of an owner that has ended. If several guardians share it, the last one gets its lock."""
    if "lock_fd" not in options or "remove" not in options:
        return
    import fcntl  # noqa: PLC0415  few guardians need these
    import shutil  # noqa: PLC0415

    os.close(int(options["lock_fd"]))
    with contextlib.suppress(OSError), open(os.path.join(options["remove"], "lock"), "rb") as lock:  # noqa: PTH118, PTH123
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(options["remove"], ignore_errors=True)


def _send_line(line: str) -> None:
    with contextlib.suppress(OSError):
        os.write(_OWNER, f"{line}\n".encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
