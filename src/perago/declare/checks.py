"""Checks of a workspace, called guardrails in the public API, and the evaluation of those that need only a listing."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import Any, Literal

from perago.declare import globs, relative_path
from perago.declare.problems import DeclaredValue, Problem, bounded
from perago.declare.tables.require_table import RequireTable
from perago.errors import PostGuardrailViolation, PreGuardrailViolation
from perago.model import Listing, is_marker

When = Literal["pre", "post"]

_SHOWN = 3


class FileIndex:
    """The files of a listing, without markers, indexed for lookup by name and by directory."""

    def __init__(self, listing: Listing) -> None:
        self.names: list[str] = [f for f in listing.files if not f.endswith("/") and not is_marker(f)]
        self._empty_directories = listing.empty_directories

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.names)

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted([*self.names, *(f"{d.rstrip('/')}/" for d in self._empty_directories)])

    def has_file(self, name: str) -> bool:
        return name in self._known

    def has_directory(self, name: str) -> bool:
        inside = f"{name}/"
        at = bisect_left(self._sorted, inside)
        return at < len(self._sorted) and self._sorted[at].startswith(inside)


@dataclass(frozen=True, slots=True)
class RequireFile(DeclaredValue):
    """The workspace has this file."""

    path: str | PurePath

    def __str__(self) -> str:
        return f"require_file({relative_path.as_text(self.path)!r})"

    def value_problems(self) -> Iterator[Problem]:
        yield from _path_problems("path", self.path)

    def violation(self, files: FileIndex) -> str | None:
        name = str(relative_path.as_text(self.path))
        if files.has_file(name):
            return None
        return "found a directory, not a file" if files.has_directory(name) else "found no such file"


@dataclass(frozen=True, slots=True)
class RequireDir(DeclaredValue):
    """The workspace has this directory. In lakeFS it must contain a file at some depth; a local one may be empty."""

    path: str | PurePath

    def __str__(self) -> str:
        return f"require_dir({relative_path.as_text(self.path)!r})"

    def value_problems(self) -> Iterator[Problem]:
        yield from _path_problems("path", _without_slash(self.path))

    def violation(self, files: FileIndex) -> str | None:
        name = str(_without_slash(self.path))
        if files.has_directory(name):
            return None
        return "found a file, not a directory" if files.has_file(name) else "found no such directory"


@dataclass(frozen=True, slots=True)
class RequireGlob(DeclaredValue):
    """At least `min_count` and at most `max_count` files match."""

    pattern: str | PurePath
    min_count: int = 1
    max_count: int | None = None

    def __str__(self) -> str:
        return f"require_glob({relative_path.as_text(self.pattern)!r})"

    def value_problems(self) -> Iterator[Problem]:
        yield from _pattern_problems("pattern", self.pattern)
        single = list(bounded("min_count", self.min_count, least=0))
        if self.max_count is not None:
            single += bounded("max_count", self.max_count, least=0)
            if not single and self.max_count < self.min_count:
                single.append(Problem("max_count", f"{self.max_count} is below min_count={self.min_count}; {self._instead()}"))
        yield from single

    def _instead(self) -> str:
        return "write forbid_glob(...) for none" if self.max_count == 0 else f"write at least {self.min_count}"

    def violation(self, files: FileIndex) -> str | None:
        found = len(globs.matching(str(relative_path.as_text(self.pattern)), files.names))
        if found < self.min_count:
            return f"matched {_files(found)}; min_count={self.min_count}"
        if self.max_count is not None and found > self.max_count:
            return f"matched {_files(found)}; max_count={self.max_count}"
        return None


@dataclass(frozen=True, slots=True)
class ForbidGlob(DeclaredValue):
    """No file matches."""

    pattern: str | PurePath

    def __str__(self) -> str:
        return f"forbid_glob({relative_path.as_text(self.pattern)!r})"

    def value_problems(self) -> Iterator[Problem]:
        yield from _pattern_problems("pattern", self.pattern)

    def violation(self, files: FileIndex) -> str | None:
        found = globs.matching(str(relative_path.as_text(self.pattern)), files.names)
        if not found:
            return None
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        return f"matched {_files(len(found))}: {', '.join(sorted(found)[:_SHOWN])}{more}"


FileCheck = RequireFile | RequireDir | RequireGlob | ForbidGlob
FILE_CHECKS = (RequireFile, RequireDir, RequireGlob, ForbidGlob)
FILE_CHECKS_BY_NAME: Mapping[str, type[FileCheck]] = {
    "require_file": RequireFile,
    "require_dir": RequireDir,
    "require_glob": RequireGlob,
    "forbid_glob": ForbidGlob,
}
"""For JSON and TOML: the value of this key is the first argument of the check, the other arguments have their own keys."""
CustomCheck = Callable[[Any], Iterable[str]]
"""A function of the author: it gets what the body gets, and yields violations."""
Check = FileCheck | RequireTable | CustomCheck

require_file = RequireFile
require_dir = RequireDir
require_glob = RequireGlob
forbid_glob = ForbidGlob


def violations(checks: Iterable[Check], listing: Listing, when: When) -> list[str]:
    """One line for each check of files that fails."""
    files = FileIndex(listing)
    found = ((check, check.violation(files)) for check in checks if isinstance(check, FILE_CHECKS))
    return [f"{when} guardrail {check} {what}" for check, what in found if what is not None]


def refuse(broken: Iterable[str], when: When, log: tuple[str, ...] = ()) -> None:
    """Raise `PreGuardrailViolation` or `PostGuardrailViolation` with everything that does not hold, if there is anything."""
    if found := list(broken):
        raise (PreGuardrailViolation if when == "pre" else PostGuardrailViolation)(" | ".join(found), log=log)


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def _without_slash(given: object) -> object:
    """`raw/` and `raw` are the same directory."""
    name = relative_path.as_text(given)
    return name[:-1] if isinstance(name, str) and name.endswith("/") and name != "/" else name


def _path_problems(field: str, given: object) -> Iterator[Problem]:
    name = relative_path.as_text(given)
    if not isinstance(name, str):
        yield Problem(field, f"must be a str or a PurePath, not {given!r}")
    elif name.startswith("/"):
        yield Problem(field, f"{name!r} is absolute; write it relative to the workspace root: {name.lstrip('/')!r}")
    elif (wrong := relative_path.problem(name)) is not None:
        yield Problem(field, wrong)


def _pattern_problems(field: str, given: object) -> Iterator[Problem]:
    wrong = list(_path_problems(field, given))
    yield from wrong
    pattern = relative_path.as_text(given)
    if not wrong and any("**" in s and s != "**" for s in re.split("/", str(pattern))):
        yield Problem(field, f"{pattern!r} has '**' beside other characters; '**' is a whole segment, as in 'raw/**/*.parquet'")
