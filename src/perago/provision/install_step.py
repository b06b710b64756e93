"""One step of an installation: a command goes in, its effect or one clear line comes out; registry hiccups are tried again."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perago.errors import ProvisionError
from perago.process import child_process
from perago.process.backoff import Backoff
from perago.provision.cache import Cache, no_space
from perago.provision.progress import Progress

_TRIES = 6
_BACKOFF = Backoff(2.5, 40.0)
_HICCUP = re.compile(
    r"(?<![\w.])(429|502|503|504)(?![\w.])|too many requests|connection (reset|refused|aborted)|broke off|broken pipe"
    r"|checksum mismatch|timed? ?out|unexpected eof|incomplete ?read"
    r"|remote end closed|temporary failure|stream error|handshake|server misbehaving",
    re.IGNORECASE,
)
_FULL = re.compile(r"no space left on device", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Step:
    """A command with what a person needs when it fails: what was tried and what to check."""

    title: str
    line: Sequence[str]
    cwd: Path
    log: Path
    advice: str
    env: Mapping[str, str] | None = None
    news: Callable[[], Progress] | None = field(default=None)


def perform(cache: Cache, step: Step) -> None:
    """Runs the step to its end; again after a pause when the log shows that a registry stumbled."""
    for failures in range(1, _TRIES + 1):
        seen = step.log.stat().st_size if step.log.exists() else 0
        code = child_process.run(
            child_process.Command(step.line, step.cwd, step.log, env=step.env, grace=2.0),
            cache.stop_request,
            lambda: _tell(cache, step),
        )
        if code == 0:
            cache.report(Progress(step.title, finished=True))
            return
        said = child_process.tail(step.log, max(0, step.log.stat().st_size - seen))
        if failures == _TRIES or not hiccup(said):
            raise _failure(step, code, said)
        pause = _BACKOFF.pause(failures)
        cache.report(Progress(step.title, f"the registry stumbled, trying again in {pause:.0f} s", notice=True))
        cache.stop_request.wait([], pause)


def hiccup(said: str) -> bool:
    """Whether a failed command's output looks like something that passes by itself."""
    return not _FULL.search(said) and bool(_HICCUP.search(said[-8000:]))


def _tell(cache: Cache, step: Step) -> None:
    if step.news is not None:
        cache.report(step.news())


def _failure(step: Step, code: int, said: str) -> ProvisionError:
    if _FULL.search(said):
        return no_space(step.cwd)
    last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "it said nothing")
    return ProvisionError(f"{step.title} failed with exit code {code}: {last[:300]}; {step.advice}; log: {step.log}")
