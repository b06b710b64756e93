"""Validation of relative, `/` separated paths inside a workspace or repository."""

import re
from pathlib import PurePath

_HOST_PATH = re.compile(r"[A-Za-z]:($|[\\/])")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def as_text(given: object) -> object:
    """A `PurePath` of either flavour as `/` separated text; anything else unchanged."""
    return given.as_posix() if isinstance(given, PurePath) else given


def problem(path: str) -> str | None:
    """Why `path`, without a leading `/`, does not name something below a root; None if it does."""
    if _HOST_PATH.match(path):
        return f"{path!r} is a path on the local machine; write it relative to the workspace root"
    if "\\" in path:
        return f"{path!r} has a backslash; separate with '/': {path.replace(chr(92), '/')!r}"
    if _CONTROL.search(path):
        return f"{path!r} has a control character; leave it out"
    return _segment_problem(path)


def _segment_problem(path: str) -> str | None:
    segments = path.split("/")
    if ".." in segments:
        return f"{path!r} leaves the root through '..'; write the path without '..'"
    if "." in segments or "" in segments:
        kept = "/".join(s for s in segments if s not in {"", "."})
        return f"{path!r} has an empty or '.' segment; write {kept!r}" if kept else f"{path!r} names nothing below the root"
    return None
