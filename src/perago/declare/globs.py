"""Glob matching of `/` separated file names, fast enough for listings of any size.

`*` and `?` match within a segment, `[...]` is a character class, `**` as a whole segment matches zero or more directories (at the
end: everything below). Matching is case-sensitive. A leading dot has no special meaning, so that no file escapes `forbid_glob`.
"""

import re
from collections.abc import Iterable
from functools import lru_cache


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """A regular expression for whole paths; atomic groups keep it linear within a segment."""
    segments = _squeezed(pattern.split("/"))
    *above, last = segments
    body = "".join("(?:[^/]+/)*" if s == "**" else _segment(s) + "/" for s in above)
    tail = ".+" if last == "**" else _segment(last)
    return re.compile(rf"{body}{tail}\Z", re.DOTALL)


def matching(pattern: str, files: Iterable[str]) -> list[str]:
    """The files that match. Literal head and tail of the pattern exclude most files without the regular expression."""
    head, tail = _literal_head(pattern), _literal_tail(pattern)
    match = compiled(pattern).match
    if _is_basename_suffix(pattern, tail):
        return [f for f in files if f.endswith(tail)]
    return [f for f in files if f.startswith(head) and f.endswith(tail) and match(f)]


def _is_basename_suffix(pattern: str, tail: str) -> bool:
    """`**/*.tmp` is a plain suffix test, if the suffix cannot extend into the name of a directory."""
    return pattern == f"**/*{tail}" and "/" not in tail


def _squeezed(segments: list[str]) -> list[str]:
    """`**/**` means `**`; the repetition would only slow the search."""
    return [s for i, s in enumerate(segments) if s != "**" or i == 0 or segments[i - 1] != "**"]


def _literal_head(pattern: str) -> str:
    return re.split(r"[*?\[]", pattern, maxsplit=1)[0]


def _literal_tail(pattern: str) -> str:
    return re.split(r"[*?\]]", pattern)[-1].rpartition("/")[2] if "[" not in pattern else ""


def _segment(glob: str) -> str:
    """One segment: literal runs joined by `*`, each matched at its first occurrence, the last one at the end."""
    first, *rest = (_literal(run) for run in _runs(glob))
    if not rest:
        return first
    *middle, last = rest
    return first + "".join(f"(?>[^/]*?{run})" for run in middle if run) + f"[^/]*{last}"


def _runs(glob: str) -> list[str]:
    """The text between `*` wildcards; a `*` inside brackets is literal."""
    runs = [""]
    for piece in re.findall(r"\[!?\]?[^\]]*\]|\*+|.", glob, re.DOTALL):
        if piece.startswith("*"):
            runs.append("")
        else:
            runs[-1] += piece
    return runs


def _literal(run: str) -> str:
    return "".join(_piece(piece) for piece in re.findall(r"\[!?\]?[^\]]*\]|.", run, re.DOTALL))


def _piece(piece: str) -> str:
    if piece == "?":
        return "[^/]"
    if len(piece) == 1:
        return re.escape(piece)
    negated = piece[1] == "!"
    members = piece[2 if negated else 1 : -1]
    return f"(?!/)[{'^' if negated else ''}{_members(members)}]"


def _members(members: str) -> str:
    """Ranges keep their dash; everything else that is special in a regular expression is escaped."""
    return re.sub(r"([\\\]\[&~|^])", r"\\\1", members)
