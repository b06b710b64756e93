"""The verification process of `perago.workspace`, changed for a test: `python -m tests.support.held_verification FIFO CHANGE…`.

It hashes nothing before something has written to the fifo. Changes: `no-leases` is a file system without leases; `weak-leases`
is a kernel that lets a writer through before the file is hashed.
"""

import os
import sys
from pathlib import Path

from perago.workspace import verification_process


class HeldFile(verification_process.InputFile):
    fifo = Path()

    def hash_some(self) -> None:
        with self.fifo.open("rb", buffering=0) as fifo:
            fifo.read(1)
        super().hash_some()


class WeaklyHeldFile(HeldFile):
    def seal(self) -> bool:
        status = os.fstat(self._descriptor)
        self._sealed = (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        return True


def main() -> None:
    HeldFile.fifo = Path(sys.argv[1])
    verification_process.InputFile = WeaklyHeldFile if "weak-leases" in sys.argv else HeldFile
    if "no-leases" in sys.argv:
        verification_process._leases_last = lambda: False
    verification_process.VerificationProcess().serve()


if __name__ == "__main__":
    main()
