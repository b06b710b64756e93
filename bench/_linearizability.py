"""Checks the history of one branch with Porcupine, an independent linearizability checker.

The checker is the Go program in `linearizability/`; its comment states the rules. It is built into the user cache, once per
version of its source.
"""

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from perago.process.stop_request import StopRequest
from perago.provision import artifact_cache, go, install_step
from perago.provision.artifact_cache import Artifact, ArtifactCache
from perago.provision.progress import Report, quiet

_SOURCE = Path(__file__).with_name("linearizability")
_FILES = ("main.go", "go.mod", "go.sum")
_DISK = 1 << 29
_ADVICE = "check the network and the Go proxy settings (go env GOPROXY)"
_TIMEOUT_SECONDS = 60


class UnusableHistory(Exception):
    """The checker cannot read the history."""


@dataclass(frozen=True, slots=True)
class Publish:
    """One publication. `returned` is None if Conductor did not accept it: then it may have happened at any time, or never."""

    name: str
    input: str
    output: str
    called: int
    returned: int | None

    def as_json(self) -> dict[str, object]:
        return {"kind": "publish", "input": self.input, "output": self.output, "noop": self.input == self.output}


@dataclass(frozen=True, slots=True)
class Read:
    """The commits of the branch from the base to the head, oldest first."""

    name: str
    commits: Sequence[str]
    called: int
    returned: int

    def as_json(self) -> dict[str, object]:
        return {"kind": "read", "commits": list(self.commits)}


@dataclass(frozen=True, slots=True)
class Verdict:
    verdict: Literal["linearizable", "illegal", "unknown"]
    operations: int
    placed: int
    """Operations in the largest partial linearization."""
    missing: Sequence[str]
    """Commits of accepted publications that the last read does not show."""
    unaccepted: Sequence[str]
    """Commits that the last read shows and that were not accepted."""
    explanation: Sequence[str]
    seconds: float

    def as_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass
class History:
    """The operations on one branch. Times are integers of one clock, in any unit."""

    base: str
    operations: list[Publish | Read] = field(default_factory=list[Publish | Read])

    @property
    def last_read(self) -> Read:
        return max((one for one in self.operations if isinstance(one, Read)), key=lambda one: one.called)

    def as_json(self) -> dict[str, object]:
        clients = _clients(self.operations)
        return {
            "base": self.base,
            "operations": [
                {"name": one.name, "client": client, "call": one.called, "return": one.returned, **one.as_json()}
                for one, client in zip(self.operations, clients, strict=True)
            ],
        }


def check(history: History, *, html: Path | None = None, report: Report = quiet) -> Verdict:
    """Raises `UnusableHistory`, and `ProvisionError` where the checker cannot be built. `html` receives a visualisation."""
    line = [str(program(report)), "-timeout", f"{_TIMEOUT_SECONDS}s"]
    if html is not None:
        line += ["-html", str(html)]
    done = subprocess.run(line, input=json.dumps(history.as_json()), capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnusableHistory(done.stderr.strip())
    return Verdict(**json.loads(done.stdout))


def program(report: Report = quiet) -> Path:
    """The path of the checker; builds it if this version of its source has not been built yet."""
    stop_request = StopRequest()
    try:
        cache = ArtifactCache(artifact_cache.default_root(), stop_request, report)
        name = f"linearizability-{_digest()}"
        return cache.ensure(Artifact(name, "linearizability checker", _DISK, lambda into: _build(cache, name, into))) / "check"
    finally:
        stop_request.close()


def _clients(operations: Sequence[Publish | Read]) -> list[int]:
    """A client number for each operation, for the visualisation: as few as possible, with one operation at a time per client."""
    busy_until: list[float] = []
    found = [0] * len(operations)
    for at in sorted(range(len(operations)), key=lambda at: operations[at].called):
        one = operations[at]
        free = (client for client, until in enumerate(busy_until) if until < one.called)
        client = next(free, len(busy_until))
        busy_until[client : client + 1] = [float("inf") if one.returned is None else one.returned]
        found[at] = client
    return found


def _digest() -> str:
    content = b"".join((_SOURCE / name).read_bytes() for name in _FILES)
    return hashlib.sha256(content).hexdigest()[:12]


def _build(cache: ArtifactCache, name: str, into: Path) -> None:
    scratch = cache.scratch(name)
    (scratch / "tmp").mkdir(exist_ok=True)
    for file in _FILES:
        (scratch / file).write_bytes((_SOURCE / file).read_bytes())
    line = [str(go.find(cache)), "build", "-v", "-trimpath", "-buildvcs=false", "-o", str(into / "check"), "."]
    title = "build the linearizability checker"
    install_step.run(cache, install_step.InstallStep(title, line, scratch, cache.log(name), _ADVICE, _environment(scratch)))


def _environment(scratch: Path) -> Mapping[str, str]:
    """An environment in which Go writes all files below one directory; the proxy settings of the user stay in effect."""
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return os.environ | {
        "CGO_ENABLED": "0",
        "GOCACHE": str(scratch / "build"),
        "GOENV": os.environ.get("GOENV") or str(config / "go" / "env"),
        "GOFLAGS": "-modcacherw",
        "GOMODCACHE": str(scratch / "modules"),
        "GOPATH": str(scratch / "path"),
        "GOTMPDIR": str(scratch / "tmp"),
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        # Go keeps its telemetry counters below the configuration directory.
        "XDG_CONFIG_HOME": str(scratch / "config"),
    }
