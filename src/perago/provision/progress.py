"""What a long step tells whoever watches: one value per news item, given to a plain callable."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """One news item of one step; `done` and `total` count bytes."""

    step: str
    detail: str = ""
    done: int | None = None
    total: int | None = None
    finished: bool = False
    notice: bool = False
    """Worth a line of its own even where progress is not drawn."""


Report = Callable[[Progress], None]


def quiet(_news: Progress) -> None:
    """Nobody watches."""
