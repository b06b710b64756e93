"""Regular expressions that Python, Java (Spark) and RE2 (DuckDB) read alike, and why another one is refused."""

import re
from collections.abc import Iterator

_MOST_REPEATS = 1000
"""RE2 allows no more."""
_ESCAPES = frozenset("dDwWsStnrf")
"""Letters with a common meaning after a backslash; every character that is neither letter nor digit may follow one too."""


def problem(pattern: str) -> str | None:
    """What is wrong with the pattern; None if all three read it alike."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError) as error:
        return f"{pattern!r} is not a regular expression: {error}"
    return next(_differences(pattern), None)


def _differences(pattern: str) -> Iterator[str]:
    for found in re.finditer(r"\\(.)", pattern, re.DOTALL):
        letter = found[1]
        if letter.isalnum() and letter not in _ESCAPES:
            yield f"{pattern!r} has \\{letter}, which not every engine knows; write it without"
    plain = re.sub(r"\\.", "x", pattern, flags=re.DOTALL)
    outside = re.sub(r"\[\^?\]?[^\]]*\]", "x", plain)
    for group in re.finditer(r"\(\?(.?)", outside):
        if group[1] != ":":
            yield f"{pattern!r} has (?{group[1]}, which not every engine knows; write groups as (...) or (?:...)"
    if re.search(r"[*+?}]\+", outside):
        yield f"{pattern!r} has a possessive quantifier, which not every engine knows; leave out its '+'"
    if any("[" in inner or "&&" in inner for inner in re.findall(r"\[\^?\]?([^\]]*)\]", plain)):
        yield rf"{pattern!r} has '[' or '&&' in a set of characters; write \[ and \&"
    if any(int(count) > _MOST_REPEATS for count in re.findall(r"\{(?:\d*,)?(\d+)", outside)):
        yield f"{pattern!r} repeats more than {_MOST_REPEATS} times, which not every engine allows"
    if re.search(r"[\^$]", outside.strip("^$")):
        yield f"{pattern!r} has '^' or '$' inside; the whole value has to match anyway"


def core(pattern: str) -> str:
    """The pattern without the anchors around it: the whole value has to match anyway."""
    inner = pattern.removeprefix("^")
    return inner[:-1] if inner.endswith("$") and not inner.endswith(r"\$") else inner
