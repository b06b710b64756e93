"""The settings of the development servers in an env file: written when they run, taken back when they have stopped."""

import contextlib
import os
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from perago.dev.stack import Endpoints
from perago.errors import DevStackError

_ONLY_OWNER = 0o600


@dataclass(frozen=True, slots=True)
class Written:
    """What `write` replaced: the whole text of the file (None if there was none), and its own text."""

    before: str | None
    after: str


@contextlib.contextmanager
def written(path: Path, endpoints: Endpoints) -> Generator[None]:
    """The settings are in the file while the context is open."""
    made = write(path, endpoints)
    try:
        yield
    finally:
        take_back(path, endpoints, made)


def require_usable(path: Path) -> None:
    """`DevStackError` if the file could not be written, which is known before the servers start."""
    try:
        if not path.parent.is_dir():
            raise NotADirectoryError(0, "its directory does not exist")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise PermissionError(0, "no permission to write in its directory")
        _read(path)
    except OSError as error:
        raise _cannot_write(path, error) from error
    except UnicodeDecodeError as error:
        raise DevStackError(f"cannot write {path}: it is not UTF-8 text, so its other lines cannot be kept") from error


def write(path: Path, endpoints: Endpoints) -> Written:
    """Set the variables of the servers in an env file that only its owner may read; its other lines are kept."""
    variables = endpoints.environment()
    try:
        before = _read(path)
        kept = [line for line in (before or "").splitlines() if _name(line) not in variables]
        after = _text([*kept, *assignments(endpoints)])
        _replace(path, after, _ONLY_OWNER)
    except OSError as error:
        raise _cannot_write(path, error) from error
    return Written(before, after)


def take_back(path: Path, endpoints: Endpoints, made: Written) -> None:
    """Restore what `write` replaced. Lines that were edited since then are kept."""
    try:
        now = _read(path)
        left = None if now is None else restored(now, made, assignments(endpoints))
        if left is None:
            path.unlink(missing_ok=True)
        elif left != now:
            _replace(path, left, path.stat().st_mode & 0o777)
    except OSError as error:
        raise _cannot_write(path, error) from error


def restored(now: str, made: Written, ours: list[str]) -> str | None:
    """The text without the servers' lines and with the lines that they replaced; None if the file is to be removed."""
    if now == made.after:
        return made.before
    lines = now.splitlines()
    removed = {_name(line) for line in lines if line in ours}
    old = [line for line in (made.before or "").splitlines() if _name(line) in removed]
    return _text([*(line for line in lines if line not in ours), *old])


def assignments(endpoints: Endpoints) -> list[str]:
    return [f"{name}={value}" for name, value in endpoints.environment().items()]


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
