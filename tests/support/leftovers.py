"""What a test run leaves behind: processes that it started, directly or indirectly, and temporary directories of Perago.

Every process of the run inherits `RUN_VARIABLE` and a temporary directory of the run, so other runs on the machine do not matter.
The resource tracker of `multiprocessing` is not counted: it ends a moment after the process that it serves.
"""

import os
import shutil
import tempfile
import time
import uuid
from pathlib import Path

RUN_VARIABLE = "TEST_RUN_OF_PROCESS"
RESOURCE_TRACKER = "from multiprocessing.resource_tracker import main"
SECONDS_TO_END = 10.0


class RunTraces:
    """Sets the environment of the run; `processes` and `directories` tell what is left of it."""

    def __init__(self) -> None:
        self._id = uuid.uuid4().hex
        # Directories of tests stay where pytest puts them, so that those of a failed test can be read afterwards.
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
        self._folder = Path(tempfile.mkdtemp(prefix="tests-"))
        # As /tmp: tests run as root let an unprivileged user work below it.
        self._folder.chmod(0o1777)
        os.environ[RUN_VARIABLE] = self._id
        os.environ["TMPDIR"] = tempfile.tempdir = str(self._folder)

    def processes(self) -> list[str]:
        """Commands of the processes that are still there after they had `SECONDS_TO_END`, this process not counted."""
        deadline = time.monotonic() + SECONDS_TO_END
        while (left := self._running()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return left

    def directories(self) -> list[str]:
        """Without the default root of this user, which stays, as its logs and its cache do."""
        names = [path.name for path in self._folder.iterdir() if path.name.startswith("perago-")]
        return sorted(name for name in names if name != f"perago-{os.getuid()}")

    def all(self) -> list[str]:
        processes = [f"process left behind: {command}" for command in self.processes()]
        return [*processes, *(f"directory left behind: {name}" for name in self.directories())]

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        tempfile.tempdir = None

    def _running(self) -> list[str]:
        wanted = f"{RUN_VARIABLE}={self._id}".encode()
        ids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        found = [pid for pid in ids if pid != os.getpid() and wanted in _environment(pid)]
        return [f"{pid} {command[:200]}".strip() for pid in found if RESOURCE_TRACKER not in (command := _command(pid))]


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
