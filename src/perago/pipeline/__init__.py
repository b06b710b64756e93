"""Pipelines: declared in Python, checked at declaration, compiled to a plain Conductor workflow. No I/O.

The package has the name of the decorator, and `perago.pipeline(...)` is the decorator whichever of the two was imported first.
"""

import sys
from types import ModuleType
from typing import Any


class _Decorator(ModuleType):
    def __call__(self, *args: Any, **given: Any) -> Any:
        from perago.pipeline.flow import pipeline  # noqa: PLC0415  most uses of the package do not need it

        return pipeline(*args, **given)


sys.modules[__name__].__class__ = _Decorator
