"""Progress of a download or an installation: values that are passed to a callable."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InstallProgress:
    """Progress of one step; `done` and `total` count bytes."""

    step: str
    detail: str = ""
    done: int | None = None
    total: int | None = None
    finished: bool = False
    notice: bool = False
    """Worth a line of its own even where progress is not drawn."""


Report = Callable[[InstallProgress], None]


def quiet(_progress: InstallProgress) -> None:
    """Ignores progress."""
