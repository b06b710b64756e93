"""How long to wait before an operation that failed is tried again."""

import random
from dataclasses import dataclass

_LARGEST_EXPONENT = 64
"""Keeps the power finite for an operation that fails for days."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses in seconds that grow from `first` by `factor` up to `longest`.

    Each is multiplied by a random number within `jitter`, so that many clients of one server do not retry at the same time.
    """

    first: float
    longest: float
    factor: float = 2.0
    jitter: tuple[float, float] = (1.0, 1.0)

    def pause(self, failures: int) -> float:
        """The pause after that many failures in a row; 0 if there was none."""
        if failures < 1:
            return 0.0
        pause = min(self.longest, self.first * self.factor ** min(failures - 1, _LARGEST_EXPONENT))
        return pause * random.uniform(*self.jitter)  # noqa: S311  not a secret
