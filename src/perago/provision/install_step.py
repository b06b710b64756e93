"""Runs one command of an installation, again after transient errors of a registry, and explains a failure in one line."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perago.errors import ProvisionError
from perago.process import child_process
from perago.process.backoff import Backoff
from perago.provision.artifact_cache import ArtifactCache, no_space
from perago.provision.progress import InstallProgress

_TRIES = 6
_BACKOFF = Backoff(2.5, 40.0)
_TRANSIENT = re.compile(
    r"(?<![\w.])(429|502|503|504)(?![\w.])|too many requests|connection (reset|refused|aborted)|broke off|broken pipe"
    r"|checksum mismatch|timed? ?out|unexpected eof|incomplete ?read"
    r"|remote end closed|temporary failure|stream error|handshake|server misbehaving",
    re.IGNORECASE,
)
_FULL = re.compile(r"no space left on device", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class InstallStep:
    """A command, with the title and advice for the error message if it fails."""

    title: str
    line: Sequence[str]
    cwd: Path
    log: Path
    advice: str
    env: Mapping[str, str] | None = None
    progress: Callable[[], InstallProgress] | None = None
    """Called a few times a second while the command runs."""


def run(cache: ArtifactCache, step: InstallStep) -> None:
    """Runs the step to its end; after a transient error again, after a pause. Raises ProvisionError if it fails."""
    for failures in range(1, _TRIES + 1):
        seen = step.log.stat().st_size if step.log.exists() else 0
        code = child_process.run(
            child_process.Command(step.line, step.cwd, step.log, env=step.env, grace=2.0),
            cache.stop_request,
            lambda: _report(cache, step),
        )
        if code == 0:
            cache.report(InstallProgress(step.title, finished=True))
            return
        output = child_process.tail(step.log, max(0, step.log.stat().st_size - seen))
        if failures == _TRIES or not is_transient(output):
            raise _failure(step, code, output)
        pause = _BACKOFF.pause(failures)
        cache.report(InstallProgress(step.title, f"transient error of the registry, trying again in {pause:.0f} s", notice=True))
        cache.stop_request.wait([], pause)


def is_transient(output: str) -> bool:
    """Whether the output of a failed command shows an error that may pass by itself."""
    return not _FULL.search(output) and bool(_TRANSIENT.search(output[-8000:]))


def _report(cache: ArtifactCache, step: InstallStep) -> None:
    if step.progress is not None:
        cache.report(step.progress())


def _failure(step: InstallStep, code: int, output: str) -> ProvisionError:
    if _FULL.search(output):
        return no_space(step.cwd)
    last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "no output")
    return ProvisionError(f"{step.title} failed with exit code {code}: {last[:300]}; {step.advice}; log: {step.log}")
