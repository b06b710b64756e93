"""The settings of the development servers in an env file: written when they run, taken back when they have stopped."""

import contextlib
import itertools
import os
import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from perago.dev import data_directory
from perago.dev.stack import VARIABLES, Endpoints
from perago.errors import DevStackError

_ONLY_OWNER = 0o600
_FIRST_LINE = re.compile(r"# perago dev \(process (?P<pid>\d+), data in (?P<data>.+)\) wrote the next lines")
"""Above the settings, so that another `perago dev` can tell whether the one that wrote them still runs."""


@dataclass(frozen=True, slots=True)
class Writer:
    """The `perago dev` that writes the settings, and the directory that it holds locked while it runs."""

    pid: int
    data_dir: Path

    @property
    def line(self) -> str:
        return f"# perago dev (process {self.pid}, data in {self.data_dir}) wrote the next lines"

    @property
    def is_running(self) -> bool:
        return data_directory.holder(self.data_dir) == str(self.pid)


@dataclass(frozen=True, slots=True)
class Written:
    """What `write` replaced: the whole text of the file (None if there was none), its own text, and its own lines."""

    before: str | None
    after: str
    ours: Sequence[str]


@contextlib.contextmanager
def written(path: Path, endpoints: Endpoints, data_dir: Path) -> Generator[None]:
    """The settings are in the file while the context is open."""
    made = write(path, endpoints, data_dir)
    try:
        yield
    finally:
        take_back(path, made)


def require_usable(path: Path) -> None:
    """`DevStackError` if the file could not be written or another `perago dev` uses it, known before the servers start."""
    try:
        if not path.parent.is_dir():
            raise NotADirectoryError(0, "its directory does not exist")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise PermissionError(0, "no permission to write in its directory")
        _require_unused(path, _read(path))
    except OSError as error:
        raise _cannot_write(path, error) from error
    except UnicodeDecodeError as error:
        raise DevStackError(f"cannot write {path}: it is not UTF-8 text, so its other lines cannot be kept") from error


def write(path: Path, endpoints: Endpoints, data_dir: Path) -> Written:
    """Set the variables of the servers in an env file that only its owner may read; its other lines are kept."""
    ours = [Writer(os.getpid(), data_dir).line, *assignments(endpoints)]
    try:
        found = _read(path)
        # Another one may have written the file while these servers started.
        _require_unused(path, found)
        before = _without_settings_of_a_dead_one(found)
        kept = [line for line in (before or "").splitlines() if _name(line) not in VARIABLES]
        after = _text([*kept, *ours])
        _replace(path, after, _ONLY_OWNER)
    except OSError as error:
        raise _cannot_write(path, error) from error
    return Written(before, after, ours)


def take_back(path: Path, made: Written) -> None:
    """Restore what `write` replaced. Lines that were edited since then are kept."""
    try:
        now = _read(path)
        left = None if now is None else restored(now, made)
        if left is None:
            path.unlink(missing_ok=True)
        elif left != now:
            _replace(path, left, path.stat().st_mode & 0o777)
    except OSError as error:
        raise _cannot_write(path, error) from error


def restored(now: str, made: Written) -> str | None:
    """The text without the servers' lines and with the lines that they replaced; None if the file is to be removed."""
    if now == made.after:
        return made.before
    lines = now.splitlines()
    removed = {_name(line) for line in lines if line in made.ours}
    old = [line for line in (made.before or "").splitlines() if _name(line) in removed]
    return _text([*(line for line in lines if line not in made.ours), *old])


def hint(path: Path) -> str:
    """What to do about a server that does not answer, if the file has its address from a `perago dev` that was killed."""
    try:
        writer = _writer(_read(path) or "")
    except (OSError, UnicodeDecodeError):
        return ""
    # The environment has priority over the file.
    if writer is None or writer.is_running or any(os.environ.get(name) for name in VARIABLES):
        return ""
    return f" ({path} has the address of a perago dev that no longer runs; start it again with perago dev --env-file {path})"


def assignments(endpoints: Endpoints) -> list[str]:
    return [f"{name}={value}" for name, value in endpoints.environment().items()]


def _require_unused(path: Path, text: str | None) -> None:
    writer = _writer(text or "")
    if writer is not None and writer.is_running:
        raise DevStackError(
            f"{path} has the settings of a perago dev that runs (process {writer.pid}); "
            "use that one, stop it, or name another file"
        )


def _writer(text: str) -> Writer | None:
    found = [match for line in text.splitlines() if (match := _FIRST_LINE.fullmatch(line))]
    return Writer(int(found[-1]["pid"]), Path(found[-1]["data"])) if found else None


def _without_settings_of_a_dead_one(text: str | None) -> str | None:
    """The text without the lines that a killed `perago dev` left; None if it has no other line."""
    lines = (text or "").splitlines()
    first = next((index for index, line in enumerate(lines) if _FIRST_LINE.fullmatch(line)), None)
    if first is None:
        return text
    rest = itertools.dropwhile(lambda line: _name(line) in VARIABLES, lines[first + 1 :])
    return _text([*lines[:first], *rest]) or None


def _name(line: str) -> str:
    return line.partition("=")[0].removeprefix("export ").strip()


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def _replace(path: Path, text: str, mode: int) -> None:
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
        handle.write(text)
    fresh.replace(path)


def _cannot_write(path: Path, error: OSError) -> DevStackError:
    return DevStackError(f"cannot write {path}: {error.strerror}")
