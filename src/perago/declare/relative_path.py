"""Validation of relative, `/` separated paths inside a workspace or repository."""

import re
from pathlib import PurePath

_HOST_PATH = re.compile(r"[A-Za-z]:($|[\\/])")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def as_text(given: object) -> object:
    """A `PurePath` of either flavour as `/` separated text; anything else unchanged."""
    return given.as_posix() if isinstance(given, PurePath) else given


def problem(place: str) -> str | None:
    """Why `place`, without a leading `/`, is not a path below a root; None if it is one."""
    if _HOST_PATH.match(place):
        return f"{place!r} is a path on the local machine; write it relative to the workspace root"
    if "\\" in place:
        return f"{place!r} has a backslash; separate with '/': {place.replace(chr(92), '/')!r}"
    if _CONTROL.search(place):
        return f"{place!r} has a control character; leave it out"
    return _segment_problem(place)


def _segment_problem(place: str) -> str | None:
    segments = place.split("/")
    if ".." in segments:
        return f"{place!r} leaves the root through '..'; write the path without '..'"
    if "." in segments or "" in segments:
        kept = "/".join(s for s in segments if s not in {"", "."})
        return f"{place!r} has an empty or '.' segment; write {kept!r}" if kept else f"{place!r} names nothing below the root"
    return None
