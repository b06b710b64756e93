"""Names of a worker and its executors: unique among the workers that log under the same root."""

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perago.declare import module_names
from perago.process.lock_file import LockFile

DIRECTORY = ".names"
LONGEST_LABEL = 120


@dataclass(frozen=True, slots=True)
class WorkerName:
    """Held until `close`: the first running worker with a prefix is `<prefix>`, the second `<prefix>-2-`.

    Numbers are used again, so that a worker that is restarted writes its logs into the same directories.
    """

    text: str
    lock: LockFile

    def of_process(self, number: int) -> str:
        """0 is the supervisor, 1 the first executor."""
        return f"{self.text}{number:04d}"

    def close(self) -> None:
        self.lock.close()


def claim(prefix: str, log_root: Path) -> WorkerName:
    """The first name with this prefix that no running worker has. Raises OSError if the log root cannot be written."""
    directory = log_root / DIRECTORY
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for number in itertools.count(1):
        try:
            # The files stay: deleting one could release a name that another process has just claimed.
            lock = LockFile(directory / f"{prefix}-{number}.lock")
        except BlockingIOError:
            continue
        return WorkerName(prefix if number == 1 else f"{prefix}-{number}-", lock)
    raise AssertionError("unreachable: the numbers do not end")


def short(modules: Sequence[str], separator: str) -> str:
    """The joined names. If they are too long for a file name, they are cut, and a digest distinguishes the workers."""
    joined = separator.join(map(module_names.label, modules))
    if len(joined) <= LONGEST_LABEL:
        return joined
    return separator.join((joined[: LONGEST_LABEL - 20], hashlib.sha256(" ".join(modules).encode()).hexdigest()[:12]))
