"""The user's cache of downloaded and built artifacts: each is a complete, checked directory, built once per machine.

artifacts/<name>/   complete, with a manifest; never changed after it got its name
work/<name>.*/      being built, or left by a build that was interrupted
locks/<name>        held while one process builds <name>
scratch/<name>/     files with which an interrupted build continues
logs/<name>.log     output of the build
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
from perago.provision.progress import InstallProgress, Report

_LOCK_POLL = 0.1
_GIB = 1 << 30


def default_root() -> Path:
    """PERAGO_CACHE_DIR, by default `perago` in the user's cache directory."""
    return settings.load_downloads().perago_cache_dir


@dataclass(frozen=True, slots=True)
class Artifact:
    """One artifact and how to build it. The name contains every version that matters; `build` fills an empty directory."""

    name: str
    title: str
    disk: int
    build: Callable[[Path], None]


@dataclass(frozen=True, slots=True)
class ArtifactCache:
    """The artifacts below `root`. Progress goes to `report`; a stop request ends every download, build and wait."""

    root: Path
    stop_request: StopRequest
    report: Report

    def log(self, name: str) -> Path:
        return self.root / "logs" / f"{name}.log"

    def path(self, name: str) -> Path:
        return self.root / "artifacts" / name

    def scratch(self, name: str) -> Path:
        """A directory that an interrupted build leaves, so that the next one can continue; only the lock holder uses it."""
        return self._make(self.root / "scratch" / name)

    def ensure(self, artifact: Artifact) -> Path:
        """The artifact's complete directory. Builds it if it is missing or damaged; waits while another process builds it."""
        path = self.path(artifact.name)
        if manifest.is_intact(path):
            return path
        with self._lock(artifact), explained_os_errors(artifact.title, self.root):
            if not manifest.is_intact(path):
                self._build(artifact, path)
        self.report(InstallProgress(artifact.title, finished=True))
        return path

    def _build(self, artifact: Artifact, path: Path) -> None:
        work = self._make(self.root / "work")
        for leftover in work.glob(f"{artifact.name}.*"):
            shutil.rmtree(leftover)
        self._check_space(artifact)
        self._make(self.root / "logs")
        self.log(artifact.name).unlink(missing_ok=True)
        self.report(InstallProgress(artifact.title))
        fresh = Path(tempfile.mkdtemp(prefix=f"{artifact.name}.", dir=work))
        try:
            artifact.build(fresh)
            manifest.write(fresh)
            self._make(path.parent)
            if path.exists():
                shutil.rmtree(path)
            fresh.rename(path)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(self.root / "scratch" / artifact.name, ignore_errors=True)

    def _check_space(self, artifact: Artifact) -> None:
        free = shutil.disk_usage(self.root).free
        if free < artifact.disk:
            raise ProvisionError(
                f"{artifact.title} needs {artifact.disk / _GIB:.1f} GiB of free disk, "
                f"and {self.root} has {free / _GIB:.1f} GiB; "
                "free some space or set PERAGO_CACHE_DIR to another disk"
            )

    @contextmanager
    def _lock(self, artifact: Artifact) -> Generator[None]:
        path = self._make(self.root / "locks") / artifact.name
        while (lock := self._try_lock(path)) is None:
            self.report(InstallProgress(artifact.title, "another process is building it, waiting"))
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
def explained_os_errors(what: str, path: Path) -> Generator[None]:
    """Raises ProvisionError, a message of one line, for an error of the operating system."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise no_space(path) from error
        raise ProvisionError(f"{what} failed: {error.strerror or error}: {error.filename or path}") from error
