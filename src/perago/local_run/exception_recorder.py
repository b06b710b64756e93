"""Objects in, stand-ins that do the same out. What their methods raise is remembered: an outcome has only one line of it."""

from dataclasses import dataclass
from functools import wraps
from typing import TypeVar, cast

T = TypeVar("T")


@dataclass(slots=True)
class Watch:
    """`error` is the last exception that came out of anything watched."""

    error: BaseException | None = None

    def over(self, watched: T) -> T:
        return cast("T", _Watched(watched, self))


class _Watched:
    def __init__(self, watched: object, watch: Watch) -> None:
        self._watched, self._watch = watched, watch

    def __getattr__(self, name: str) -> object:
        value = getattr(self._watched, name)
        if not callable(value):
            return value

        @wraps(value)
        def noticing(*args: object, **named: object) -> object:
            try:
                return value(*args, **named)
            except BaseException as error:
                self._watch.error = error
                raise

        return noticing
