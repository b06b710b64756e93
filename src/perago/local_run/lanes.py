"""The built-in tasks at the beginning and the end of a fork."""

from typing import Any

FORK: Any = None
JOIN: Any = None
