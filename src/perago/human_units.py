"""Durations and sizes as people write them (`24h`, `1h30m`, `100MB`), converted to seconds and bytes; and how times are shown."""

import re
from datetime import UTC, datetime

_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd]?)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


def seconds(text: str) -> float:
    """`90`, `90s`, `15m`, `1h30m`, `30d`; a bare number counts seconds."""
    compact = text.strip().lower().replace(" ", "")
    parts = list(_DURATION_PART.finditer(compact))
    if not parts or "".join(part.group(0) for part in parts) != compact:
        raise ValueError("write a duration such as 30s, 15m, 24h or 30d")
    return sum(float(part.group(1)) * (0.001 if part.group(2) == "ms" else _SECONDS[part.group(2)]) for part in parts)


def size(text: str) -> int:
    """`0`, `4096`, `100MB` (decimal), `512MiB` (binary)."""
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None or match.group(2) not in _BYTES:
        raise ValueError("write a size such as 0, 500KB, 100MB or 2GiB")
    return int(float(match.group(1)) * _BYTES[match.group(2)])


def show_seconds(value: float) -> str:
    """The shortest exact spelling: 86400 is `1d`, 5400 is `90m`."""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if value and value % length == 0:
            return f"{int(value // length)}{unit}"
    return f"{value:g}s"


def show_moment(unix_seconds: float) -> str:
    """In UTC, as in 2026-11-18T12:30:00Z."""
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def show_size(value: int) -> str:
    for unit, length in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if value and value % length == 0:
            return f"{value // length}{unit}"
    return f"{value}B"
