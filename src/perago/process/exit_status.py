"""How a process ended, in words."""

import contextlib
import signal
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Death:
    """An exit code, or a signal as its negative."""

    code: int

    def __str__(self) -> str:
        if self.code >= 0:
            return f"exited with code {self.code}"
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-self.code).name} ({-self.code})"
        return f"was killed by signal {-self.code}"
