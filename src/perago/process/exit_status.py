"""How a process ended."""

import contextlib
import signal
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """An exit code, or the negative number of the signal that killed the process; `str` gives a phrase for messages."""

    code: int

    def __str__(self) -> str:
        if self.code >= 0:
            return f"exited with code {self.code}"
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-self.code).name} ({-self.code})"
        return f"was killed by signal {-self.code}"
