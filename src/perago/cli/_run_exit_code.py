"""Exit codes of `perago run`."""

from enum import IntEnum


class RunExitCode(IntEnum):
    """In addition to 1 (it could not be run) and 2 (wrong usage), which every command has."""

    COMPLETED = 0
    FAILED = 3
    FAILED_WITH_TERMINAL_ERROR = 4
    TIMED_OUT = 5
