"""`WorkspaceSpec`: the part of a repository that a task works on, its checks, and their validation."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from perago.declare import relative_path
from perago.declare.checks import FILE_CHECKS, Check
from perago.declare.problems import DeclaredValue, Problem
from perago.declare.tables.require_table import RequireTable


@dataclass(frozen=True, slots=True)
class WorkspaceSpec(DeclaredValue):
    """A prefix of the repository, mapped to the root of the workspace, with checks before and after the body."""

    prefix: str = "/"
    read_only: bool = False
    pre: Sequence[Check] = ()
    post: Sequence[Check] = ()

    def __post_init__(self) -> None:
        for name in ("pre", "post"):
            given = getattr(self, name)
            if isinstance(given, list):
                object.__setattr__(self, name, tuple(given))  # pyright: ignore[reportUnknownArgumentType]

    @property
    def object_prefix(self) -> str:
        """The prefix of object paths: empty for the root, otherwise with a trailing `/`."""
        inside = self.prefix.removeprefix("/")
        return f"{inside}/" if inside else ""

    def value_problems(self) -> Iterator[Problem]:
        yield from _prefix(self.prefix)
        if type(self.read_only) is not bool:
            yield Problem("read_only", f"must be True or False, not {self.read_only!r}")
        yield from _checks("pre", self.pre)
        yield from _checks("post", self.post)


def _prefix(given: object) -> Iterator[Problem]:
    if not isinstance(given, str):
        yield Problem("prefix", f"must be a str such as '/audio/render', not {given!r}")
    elif given == "":
        yield Problem("prefix", "must not be empty; write '/' for the whole repository")
    elif given != "/" and (wrong := relative_path.problem(given.removeprefix("/")) or _space_problem(given)) is not None:
        yield Problem("prefix", wrong)


def _space_problem(prefix: str) -> str | None:
    """LakeFS allows such names, but a prefix with one is nearly always a typing error and would silently select no object."""
    inside = prefix.removeprefix("/")
    if inside == inside.strip():
        return None
    return f"{prefix!r} begins or ends with a space; write {'/' + prefix.strip().strip('/').strip()!r}"


def _checks(name: str, given: object) -> Iterator[Problem]:
    if not isinstance(given, tuple):
        yield Problem(name, f"must be a list of checks, such as [require_glob('raw/**/*.parquet')], not {given!r}")
        return
    for index, check in enumerate(given):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        yield from (problem.under(f"{name}[{index}]") for problem in _check_problems(name, check))  # pyright: ignore[reportUnknownArgumentType]


def _check_problems(name: str, check: object) -> Iterator[Problem]:
    if isinstance(check, (*FILE_CHECKS, RequireTable)):
        yield from check.problems()
        if isinstance(check, RequireTable) and name == "pre":
            yield from check.pre_problems()
    elif not callable(check) or isinstance(check, type):
        yield Problem(
            "",
            "must be require_table, require_file, require_dir, require_glob, forbid_glob or a function of the workspace, "
            f"not {check!r}",
        )
    elif not _takes_workspace(check):
        yield Problem(
            "", f"{getattr(check, '__name__', check)!r} must take one argument, the workspace: def check(workspace): ..."
        )
    elif inspect.iscoroutinefunction(check):
        yield Problem("", f"{getattr(check, '__name__', check)!r} must be a plain function, not async")


def _takes_workspace(check: Callable[..., object]) -> bool:
    try:
        inspect.signature(check).bind(object())
    except TypeError:
        return False
    except ValueError:  # a function without a signature, written in C
        return True
    return True
