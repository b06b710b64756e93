"""Validation of task names and owners' e-mail addresses."""

import re
from collections.abc import Iterator

from perago.declare.lanes import BUILT_IN_PREFIX
from perago.declare.problems import Problem

_LONGEST_SEGMENT = 255
_SYSTEM_TASKS = frozenset(
    {
        "DECISION",
        "DO_WHILE",
        "DYNAMIC",
        "EVENT",
        "EXCLUSIVE_JOIN",
        "FORK",
        "FORK_JOIN",
        "FORK_JOIN_DYNAMIC",
        "HTTP",
        "HUMAN",
        "INLINE",
        "JOIN",
        "JSON_JQ_TRANSFORM",
        "KAFKA_PUBLISH",
        "LAMBDA",
        "NOOP",
        "SET_VARIABLE",
        "SIMPLE",
        "START_WORKFLOW",
        "SUB_WORKFLOW",
        "SWITCH",
        "TERMINATE",
        "USER_DEFINED",
        "WAIT",
    }
)
"""Conductor runs tasks of these types itself and never gives them to a worker."""


def name_problems(name: object, *, is_built_in: bool = False) -> Iterator[Problem]:
    if not isinstance(name, str) or not name:
        yield Problem("name", f"must be text such as 'features.build', not {name!r}")
    elif name in {".", ".."}:
        yield Problem("name", f"{name!r} is not a path segment; write a name such as 'features.build'")
    elif (bad := re.search(r"[/\\\s]", name)) or not name.isprintable():
        found = f"{bad.group()!r}" if bad else "a control character"
        yield Problem("name", f"{name!r} has {found}; use letters, digits, '.', '_' and '-'")
    elif len(name.encode()) > _LONGEST_SEGMENT:
        yield Problem("name", f"is longer than {_LONGEST_SEGMENT} bytes; write a shorter one")
    elif name.startswith(BUILT_IN_PREFIX) and not is_built_in:
        shorter = name.removeprefix(BUILT_IN_PREFIX)
        yield Problem("name", f"{name!r} begins with {BUILT_IN_PREFIX!r}, as Perago's own tasks do; write {shorter!r}")
    elif name in _SYSTEM_TASKS:
        yield Problem("name", f"{name!r} is one of Conductor's own task types; write another, such as 'features.build'")


def email_problems(email: object) -> Iterator[Problem]:
    if not isinstance(email, str) or not re.fullmatch(r"[^@\s]+@[^@\s]+", email) or not email.isprintable():
        yield Problem("owner_email", f"must be an e-mail address such as 'team@example.com', not {email!r}")
