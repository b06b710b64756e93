"""A new folder for what a body left, as published or as its checks refused it: written completely or not at all.

`perago run --write` and `--keep` write what a local run left, `perago inspect` what a worker kept.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from perago.errors import SetupError
from perago.local_run.folder_lake import Stored
from perago.model import FilePath

_EXECUTE = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH


@dataclass(frozen=True, slots=True)
class Result:
    """Where `perago run` writes what the body left."""

    folder: Path | None
    """Of --write: for what would be published, and for what is kept."""
    keep: bool
    """Whether to write also what failed its post checks."""

    def write(
        self, published: Mapping[FilePath, Stored] | None, kept: Mapping[FilePath, Stored] | None
    ) -> "WrittenResult | None":
        """Write what would be published, or else what was kept; None if neither is to be written."""
        if published is not None and self.folder is not None:
            write(self.folder, published)
            return WrittenResult(self.folder, len(published))
        if published is None and kept is not None and self.keep:
            folder = self.folder or Path(tempfile.mkdtemp(prefix="perago-kept-"))
            write(folder, kept)
            return WrittenResult(folder, len(kept))
        return None


@dataclass(frozen=True, slots=True)
class WrittenResult:
    folder: Path
    files: int


def refuse_dangerous(target: Path, workspace: Path | None, option: str = "--write") -> None:
    """Raise `SetupError` if `target` cannot be written. Called before the task runs, so that no work is lost."""
    if target.is_symlink():
        raise SetupError(f"{option} {target} is a symlink; name a new or an empty folder")
    real, source = target.resolve(), None if workspace is None else workspace.resolve()
    if source is not None and (real == source or real.is_relative_to(source) or source.is_relative_to(real)):
        raise SetupError(f"{option} {target} overlaps --workspace {workspace}, which is never changed; name a folder elsewhere")
    if real == Path.cwd():
        raise SetupError(f"{option} {target} is the working directory; name a new or an empty folder")
    if real.exists() and not real.is_dir():
        raise SetupError(f"{option} {target} is a file; name a new or an empty folder")
    if real.is_dir() and any(real.iterdir()):
        raise SetupError(f"{option} {target} is not empty; name a new or an empty folder")


def write(target: Path, files: Mapping[FilePath, Stored]) -> None:
    """Write the files to `target`."""
    make(target, lambda made: _fill(made, files))


def make(target: Path, fill: Callable[[Path], None]) -> None:
    """Fill a folder beside `target` and rename it, so that a half-written one is never visible."""
    real = target.resolve()
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{real.name}-", dir=real.parent))
        try:
            fill(made)
            # mkdtemp allows the owner only; the result gets the permissions of an ordinary folder.
            made.chmod(0o777 & ~_umask())
            made.rename(real)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
    except OSError as error:
        raise SetupError(f"cannot write {target}: {error.strerror}") from error


def _fill(made: Path, files: Mapping[FilePath, Stored]) -> None:
    for path, held in files.items():
        file = made / path
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(held.at, file)
        if held.executable:
            file.chmod(file.stat().st_mode | _EXECUTE & ~_umask())


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
