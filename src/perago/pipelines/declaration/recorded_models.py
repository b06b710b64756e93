"""Lets authors write `Summary(page=page.page)`: a Pydantic model that is constructed with references keeps them unvalidated.

Only while a pipeline function runs, and only for models that are given references; every other model is validated as always.
"""

import dataclasses
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from pydantic import BaseModel

from perago.pipelines.declaration.symbols import ConditionSymbol, Symbol

_DECLARING: ContextVar[bool] = ContextVar("perago_declaring", default=False)
_MOST_NESTED = 50
_LOCK = threading.Lock()
_RUNNING: list[bool] = []
"""One entry per declaration that runs: a pipeline module may import another one."""
_ORIGINAL: list[Any] = []
"""The constructor of models, while it is replaced."""


@contextmanager
def recording() -> Generator[None]:
    token = _DECLARING.set(True)
    try:
        with _replaced_constructor():
            yield
    finally:
        _DECLARING.reset(token)


def has_references(value: object, depth: int = 0) -> bool:
    """Whether there is a reference somewhere in a value."""
    if isinstance(value, Symbol | ConditionSymbol):
        return True
    if depth > _MOST_NESTED:
        return False
    inside: list[object] = []
    if isinstance(value, BaseModel):
        inside = list(value.__dict__.values())
    elif isinstance(value, Mapping):
        inside = list(cast("Mapping[object, object]", value).values())
    elif isinstance(value, list | tuple | set | frozenset):
        inside = list(cast("list[object]", value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        inside = [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    return any(has_references(one, depth + 1) for one in inside)


@contextmanager
def _replaced_constructor() -> Generator[None]:
    """Replaces the constructor of all models until the last declaration that runs has ended.

    It does nothing new outside `recording`, which other threads do not see.
    """
    with _LOCK:
        if not _RUNNING:
            _ORIGINAL.append(BaseModel.__init__)
            BaseModel.__init__ = _constructor(BaseModel.__init__)  # pyright: ignore[reportAttributeAccessIssue]
        _RUNNING.append(True)
    try:
        yield
    finally:
        with _LOCK:
            _RUNNING.pop()
            if not _RUNNING:
                BaseModel.__init__ = _ORIGINAL.pop()


def _constructor(original: Callable[..., None]) -> Callable[..., None]:
    def construct(self: BaseModel, /, **data: Any) -> None:
        if _DECLARING.get() and has_references(data):
            _keep(self, data)
        else:
            original(self, **data)

    for name, value in (("__pydantic_base_init__", True), ("__doc__", original.__doc__)):
        setattr(construct, name, value)
    return construct


def _keep(model: BaseModel, data: Mapping[str, Any]) -> None:
    object.__setattr__(model, "__dict__", dict(data))
    object.__setattr__(model, "__pydantic_fields_set__", set(data))
    object.__setattr__(model, "__pydantic_extra__", None)
    object.__setattr__(model, "__pydantic_private__", None)
