"""Remembers the exceptions that objects raise, because an outcome keeps only one line of them."""

from dataclasses import dataclass
from functools import wraps
from typing import TypeVar, cast

T = TypeVar("T")


@dataclass(slots=True)
class ExceptionRecorder:
    """`error` is the last exception that a method of a wrapped object raised."""

    error: BaseException | None = None

    def wrap(self, wrapped: T) -> T:
        """An object that behaves as `wrapped` does."""
        return cast("T", _Wrapper(wrapped, self))


class _Wrapper:
    def __init__(self, wrapped: object, recorder: ExceptionRecorder) -> None:
        self._wrapped, self._recorder = wrapped, recorder

    def __getattr__(self, name: str) -> object:
        value = getattr(self._wrapped, name)
        if not callable(value):
            return value

        @wraps(value)
        def recording(*args: object, **named: object) -> object:
            try:
                return value(*args, **named)
            except BaseException as error:
                self._recorder.error = error
                raise

        return recording
