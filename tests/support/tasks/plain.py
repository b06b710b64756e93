"""A workspace-free task that does whatever its parameters say; run by executors, never imported by tests."""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel

import perago
from perago import RetryPolicy, TaskControls, TaskFailed, TaskTerminalError, TimeoutPolicy, task


class Params(BaseModel):
    do: str = "ok"
    gate: str | None = None
    seconds: float = 0.0
    text: str = ""


class Output(BaseModel):
    said: str


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


CONTROLS = TaskControls(
    retry=RetryPolicy(count=int(os.environ.get("E2E_RETRIES", "1")), delay_seconds=0),
    timeout=TimeoutPolicy(
        response_seconds=int(os.environ.get("E2E_RESPONSE", "30")),
        seconds=int(os.environ.get("E2E_TIMEOUT", "0")),
        policy="RETRY",
    ),
)


def wait_at(gate: str | None) -> None:
    """Tell the test that the body has reached the gate, and wait until the test opens it."""
    if gate is None:
        return
    Path(f"{gate}.entered").touch()
    while not Path(f"{gate}.go").exists():
        time.sleep(0.01)


def once(mark: str) -> bool:
    """True the first time."""
    try:
        Path(mark).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def hold_the_interpreter(seconds: float) -> None:
    """Sleep in C without releasing the interpreter lock, as a faulty extension does."""
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))


def fail(params: Params) -> None:
    raise TaskFailed("the shop is closed")


def terminal(params: Params) -> None:
    raise TaskTerminalError("it never will open")


def raise_key_error(params: Params) -> None:
    raise KeyError("rows")


def raise_empty(params: Params) -> None:
    raise ValueError


def raise_unspeakable(params: Params) -> None:
    raise Unspeakable


def raise_group(params: Params) -> None:
    raise ExceptionGroup("both failed", [ValueError("left"), OSError("right")])


def interrupt(params: Params) -> None:
    raise KeyboardInterrupt


def run_out_of_memory(params: Params) -> None:
    raise MemoryError


def kill_once(params: Params) -> None:
    if once(params.text):
        os.kill(os.getpid(), signal.SIGKILL)


def wait_until_cancelled(params: Params) -> None:
    deadline = time.monotonic() + params.seconds
    while not perago.cancelled() and time.monotonic() < deadline:
        time.sleep(0.02)
    Path(params.text).write_text("cancelled" if perago.cancelled() else "not cancelled")


def be_stubborn(params: Params) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if params.text:
        Path(params.text).touch()
    deadline = time.monotonic() + params.seconds
    while time.monotonic() < deadline:
        time.sleep(0.05)


def swallow_everything(params: Params) -> None:
    deadline = time.monotonic() + params.seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(Exception):
            time.sleep(0.05)


def make_a_mess(params: Params) -> None:
    os.chdir("/")
    os.environ["LEFT_BY_THE_BODY"] = "yes"
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=time.sleep, args=(1.0,), name="left-behind").start()


def look_around(params: Params) -> None:
    found = [os.environ.get("LEFT_BY_THE_BODY"), str(Path.cwd()), signal.getsignal(signal.SIGTERM) is signal.SIG_IGN]
    Path(params.text).write_text(json.dumps(found))


def fork(params: Params) -> None:
    """The child returns from the body, as with a faulty library."""
    if os.fork() != 0:
        time.sleep(0.2)


def start_a_child(params: Params) -> None:
    child = subprocess.Popen(["/bin/sleep", "600"])
    Path(params.text).write_text(str(child.pid))
    time.sleep(params.seconds)


def flood(params: Params) -> None:
    """Print without a pause, as a loop with debug output does."""
    deadline = time.monotonic() + params.seconds
    while time.monotonic() < deadline:
        os.write(1, b"y\n" * 10_000)


def print_and_die(params: Params) -> None:
    """Print more than the supervisor reads at once, then a last line without an end, and crash."""
    os.write(1, b"".join(b"%d\n" % number for number in range(5000)))
    os.write(2, b"the last words")
    os.kill(os.getpid(), signal.SIGKILL)


DAEMON = """
import subprocess
away = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
print(subprocess.Popen(["/bin/sleep", "600"], start_new_session=True, env={}, **away).pid)
"""


def start_a_daemon(params: Params) -> None:
    """Start a process with its own session and environment, whose parent has ended and which holds none of our descriptors."""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", DAEMON], capture_output=True, text=True, check=True)
    noted = Path(f"{params.text}.new")
    noted.write_text(done.stdout.strip())
    noted.rename(params.text)


def speak(params: Params) -> None:
    print("a line on stdout ü")  # noqa: T201
    print("a line on stderr", file=sys.stderr)  # noqa: T201
    os.write(1, b"bytes \xff straight to the descriptor\n")
    if params.text:
        wait_at(params.text)


ACTIONS: dict[str, Callable[[Params], object]] = {
    "ok": lambda params: None,
    "fail": fail,
    "terminal": terminal,
    "raise": raise_key_error,
    "empty": raise_empty,
    "unspeakable": raise_unspeakable,
    "group": raise_group,
    "exit": lambda params: sys.exit(4),
    "interrupt": interrupt,
    "memory": run_out_of_memory,
    "os-exit": lambda params: os._exit(7),
    "segfault": lambda params: os.kill(os.getpid(), signal.SIGSEGV),
    "kill": lambda params: os.kill(os.getpid(), signal.SIGKILL),
    "kill-once": kill_once,
    "hold": lambda params: hold_the_interpreter(params.seconds),
    "until-cancelled": wait_until_cancelled,
    "sleep": lambda params: time.sleep(params.seconds),
    "stubborn": be_stubborn,
    "swallow": swallow_everything,
    "mess": make_a_mess,
    "look-around": look_around,
    "fork": fork,
    "child": start_a_child,
    "daemon": start_a_daemon,
    "print": speak,
    "flood": flood,
    "print-and-die": print_and_die,
}


@task(name=f"{os.environ['E2E_PREFIX']}.plain", owner_email="tests@example.com", controls=CONTROLS)
def plain(params: Params) -> Output:
    wait_at(params.gate)
    if params.do == "wrong-result":
        return {"said": 1, "more": 2}  # pyright: ignore[reportReturnType]
    ACTIONS[params.do](params)
    if params.do == "daemon" and params.seconds:
        time.sleep(params.seconds)
    return Output(said=params.text or "done")
