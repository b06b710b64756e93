"""The environment of a command: a few variables of the worker, those that its declaration names, and those of the protocol.

Credentials of lakeFS, Conductor or a cloud are not among them, unless the declaration names a variable of its own that holds one.
"""

import os
from collections.abc import Mapping, Sequence

from perago.command_body.exchange import Exchange
from perago.declare.command_line import Command

PASSED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")
"""Programs need them to find other programs, their configuration, and how to write text and times."""


def of(command: Command, exchange: Exchange, worker: Mapping[str, str]) -> dict[str, str]:
    """`worker` is the environment of the worker; a variable that it does not have is left out."""
    return {
        "PATH": os.defpath,
        **_present((*PASSED, *command.environment), worker),
        "TMPDIR": str(exchange.temporary),
        "PERAGO_PARAMS": str(exchange.params),
        "PERAGO_RESULT": str(exchange.result),
        "PERAGO_TASK_DIR": str(command.directory),
    }


def _present(names: Sequence[str], worker: Mapping[str, str]) -> dict[str, str]:
    return {name: worker[name] for name in names if name in worker}
