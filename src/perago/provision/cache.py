"""The user cache: a name and a way to build it go in, a complete and checked directory comes out, built once per machine.

artifacts/<name>/   complete, with a manifest; never changed after it got its name
work/<name>.*/      being built, or left by a build that was cut off
locks/<name>        held while one process builds <name>
logs/<name>.log     what the build said
"""

import errno
import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from perago import settings
from perago.errors import ProvisionError
from perago.process.lock_file import LockFile
from perago.process.stop_request import StopRequest
from perago.provision import manifest
from perago.provision.progress import Progress, Report

_LOCK_POLL = 0.1
_GIB = 1 << 30


def default_root() -> Path:
    """PERAGO_CACHE_DIR, by default `perago` in the user's cache directory."""
    return settings.load_downloads().perago_cache_dir


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to build one artifact. The name carries every version that matters; `build` fills an empty directory."""

    name: str
    title: str
    disk: int
    build: Callable[[Path], None]


@dataclass(frozen=True, slots=True)
class Cache:
    """Where artifacts live, who watches, and who may stop it."""

    root: Path
    stop_request: StopRequest
    report: Report

    def log(self, name: str) -> Path:
        return self.root / "logs" / f"{name}.log"

    def path(self, name: str) -> Path:
        return self.root / "artifacts" / name

    def scratch(self, name: str) -> Path:
        """A directory that survives a build cut off, so that the next one can go on; only the lock holder uses it."""
        return self._make(self.root / "scratch" / name)

    def ensure(self, recipe: Recipe) -> Path:
        """The artifact, whole. Builds it if it is missing or damaged; waits if somebody else is building it."""
        path = self.path(recipe.name)
        if manifest.intact(path):
            return path
        with self._lock(recipe), told_plainly(recipe.title, self.root):
            if not manifest.intact(path):
                self._build(recipe, path)
        self.report(Progress(recipe.title, finished=True))
        return path

    def _build(self, recipe: Recipe, path: Path) -> None:
        work = self._make(self.root / "work")
        for leftover in work.glob(f"{recipe.name}.*"):
            shutil.rmtree(leftover)
        self._check_space(recipe)
        self._make(self.root / "logs")
        self.log(recipe.name).unlink(missing_ok=True)
        self.report(Progress(recipe.title))
        fresh = Path(tempfile.mkdtemp(prefix=f"{recipe.name}.", dir=work))
        try:
            recipe.build(fresh)
            manifest.write(fresh)
            self._make(path.parent)
            if path.exists():
                shutil.rmtree(path)
            fresh.rename(path)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(self.root / "scratch" / recipe.name, ignore_errors=True)

    def _check_space(self, recipe: Recipe) -> None:
        free = shutil.disk_usage(self.root).free
        if free < recipe.disk:
            raise ProvisionError(
                f"{recipe.title} needs {recipe.disk / _GIB:.1f} GiB of free disk, "
                f"and {self.root} has {free / _GIB:.1f} GiB; "
                "free some space or set PERAGO_CACHE_DIR to another disk"
            )

    @contextmanager
    def _lock(self, recipe: Recipe) -> Generator[None]:
        path = self._make(self.root / "locks") / recipe.name
        while (lock := self._try_lock(path)) is None:
            self.report(Progress(recipe.title, "another process is at it, waiting"))
            self.stop_request.wait([], _LOCK_POLL)
        with lock:
            yield

    def _try_lock(self, path: Path) -> LockFile | None:
        try:
            return LockFile(path, mode=0o644)
        except BlockingIOError:
            return None
        except OSError as error:
            raise self._unwritable(error) from error

    def _make(self, directory: Path) -> Path:
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unwritable(error) from error
        return directory

    def _unwritable(self, error: OSError) -> ProvisionError:
        if error.errno == errno.ENOSPC:
            return no_space(self.root)
        return ProvisionError(
            f"cannot write to the cache directory {self.root} ({error.strerror}); "
            "make it writable or set PERAGO_CACHE_DIR to a directory that is"
        )


def no_space(path: Path) -> ProvisionError:
    return ProvisionError(f"no space left on the disk that holds {path}; free some space or choose another place")


@contextmanager
def told_plainly(what: str, path: Path) -> Generator[None]:
    """Turns the operating system's refusals into one line for a person."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise no_space(path) from error
        raise ProvisionError(f"{what} failed: {error.strerror or error}: {error.filename or path}") from error
