"""All errors of Perago, grouped by how the runtime handles them.

PeragoError
├── SetupError                    before any attempt: print one line, exit 1
│   ├── TaskDefinitionError         the task module is wrong
│   ├── RuntimeConfigError          settings are missing or contradictory
│   ├── ProvisionError              something Perago needs cannot be fetched or built on this machine
│   └── DevStackError               a development server cannot be started or kept alive
├── AttemptError                  ends the attempt with `status`
│   ├── TerminalError               no retry with the same input can succeed
│   │   ├── TaskInputError            Conductor input does not satisfy the contract
│   │   ├── PreGuardrailViolation     the input workspace fails a check (also a GuardrailViolation)
│   │   ├── TaskTerminalError         raised by task authors
│   │   ├── CommandTerminalError      the command of a task ended with an exit code that says that no retry can help
│   │   └── LaneConflictError         lanes of a fork changed the same objects differently
│   └── RetryableError              another attempt may succeed
│       ├── TaskFailed                raised by task authors
│       ├── CommandFailed             the command of a task failed, was killed, or could not be started
│       ├── TaskResultError           the body's return value does not satisfy the contract
│       ├── PostGuardrailViolation    the output workspace fails a check (also a GuardrailViolation)
│       ├── WorkspaceError            the local workspace cannot be filled, read or trusted
│       ├── StaleAttemptError         attempt fence: the attempt is no longer current
│       ├── PublishFenceError         publish fence: the target branch is in a state that must not be changed
│       ├── PublishUnknownError       the publish request had no reply, and the head does not show its result
│       ├── AttemptCancelled          the attempt was cancelled
│       └── ExecutorDied              the process that ran the body ended during the attempt
├── LakeError                     lakeFS refused or did not answer; ends the attempt with FAILED
│   ├── LakeNotFound                404
│   ├── LakeConflict                409, and "no changes" or "dirty branch" answers
│   ├── LakeForbidden               401 and 403
│   ├── LakeRejected                any other 4xx: our request is wrong
│   ├── LakeUnavailable             no connection, 423, 429, 5xx to a read: nothing happened, later may work
│   ├── LakeUnknown                 a write broke off after it was sent, or got a 5xx: it may or may not have happened
│   └── LakeCorrupt                 bytes do not match their size or checksum
└── ConductorError                Conductor refused or did not answer
    ├── ConductorNotFound           404
    ├── ConductorRejected           any other 4xx
    ├── ConductorUnavailable        no connection, 429, 5xx
    └── ConductorUnknown            a write broke off after it was sent
"""

from enum import StrEnum
from typing import ClassVar


class TaskStatus(StrEnum):
    """What Perago reports to Conductor at the end of an attempt."""

    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    FAILED_WITH_TERMINAL_ERROR = "FAILED_WITH_TERMINAL_ERROR"


class PeragoError(Exception):
    """Base of every error that Perago raises on purpose."""

    status: ClassVar[TaskStatus] = TaskStatus.FAILED
    code: ClassVar[str] = ""
    """Stable and never reused: the heading of its section in the manual. Empty for classes that are never raised."""


class SetupError(PeragoError):
    """An error before any attempt: one line for the user, exit code 1."""

    code = "PG-100"


class TaskDefinitionError(SetupError):
    """A task module that cannot be used; names module, task, field and the fix."""

    code = "PG-110"


class RuntimeConfigError(SetupError):
    """Settings that are missing, incomplete or contradictory."""

    code = "PG-120"


class ProvisionError(SetupError):
    """Java, an artifact or a program that cannot be found, fetched, built or run on this machine."""

    code = "PG-130"


class DevStackError(SetupError):
    """A development server that cannot be started or kept alive."""

    code = "PG-140"


class AttemptError(PeragoError):
    """Ends the current attempt."""


class TerminalError(AttemptError):
    """No retry can help."""

    status = TaskStatus.FAILED_WITH_TERMINAL_ERROR


class TaskInputError(TerminalError):
    """Conductor input that does not satisfy the task contract."""

    code = "PG-210"


class GuardrailViolation(AttemptError):
    """A workspace check that failed. `log` has lines for the task's log, where the reason is too short for everything."""

    def __init__(self, message: str = "", *, log: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.log = log


class PreGuardrailViolation(GuardrailViolation, TerminalError):
    """The input workspace fails a check; the body did not run."""

    status = TaskStatus.FAILED_WITH_TERMINAL_ERROR
    code = "PG-220"


class TaskTerminalError(TerminalError):
    """Raised by a task body: no retry can help."""

    code = "PG-230"


class CommandTerminalError(TerminalError):
    """The command of a task ended with exit code 65 or 78: no retry can help."""

    code = "PG-235"


class LaneConflictError(TerminalError):
    """Lanes of a fork changed the same objects differently."""

    code = "PG-240"


class RetryableError(AttemptError):
    """Another attempt may succeed."""


class TaskFailed(RetryableError):
    """Raised by a task body: a retry may help."""

    code = "PG-310"


class CommandFailed(RetryableError):
    """The command of a task failed, was killed, or could not be started."""

    code = "PG-315"


class TaskResultError(RetryableError):
    """The body returned something that its contract does not allow."""

    code = "PG-320"


class PostGuardrailViolation(GuardrailViolation, RetryableError):
    """The output workspace fails a check; nothing is published."""

    code = "PG-330"
    kept: str = ""
    """How to look at what the body left, for the end of the reason; empty unless that was kept."""


class WorkspaceError(RetryableError):
    """The local workspace cannot be filled, read or trusted; names the path or object."""

    code = "PG-340"


class StaleAttemptError(RetryableError):
    """Attempt fence: the attempt is no longer current."""

    code = "PG-350"


class PublishFenceError(RetryableError):
    """Publish fence: the target branch is neither at the input commit nor at one abandoned publication after it."""

    code = "PG-360"


class PublishUnknownError(RetryableError):
    """The publish request had no reply, and a read of the head did not show whether it was applied."""

    code = "PG-370"


class AttemptCancelled(RetryableError):
    """The attempt was cancelled before it published anything."""

    code = "PG-380"


class ExecutorDied(RetryableError):
    """The process that ran the body ended during the attempt."""

    code = "PG-390"


class LakeError(PeragoError):
    """lakeFS refused a request, or did not answer."""


class LakeNotFound(LakeError):
    """Repository, branch, commit or object does not exist."""

    code = "PG-410"


class LakeConflict(LakeError):
    """It exists already, has nothing to commit, conflicts, or has uncommitted changes."""

    code = "PG-420"


class LakeForbidden(LakeError):
    """Wrong credentials, no permission, or a protected branch."""

    code = "PG-430"


class LakeRejected(LakeError):
    """lakeFS does not accept the request as it was made."""

    code = "PG-440"


class LakeUnavailable(LakeError):
    """lakeFS could not be reached or is overloaded; the request had no effect."""

    code = "PG-450"


class LakeUnknown(LakeError):
    """A write broke off after it was sent: it may or may not have taken effect."""

    code = "PG-460"


class LakeCorrupt(LakeError):
    """Bytes that do not match their announced size or checksum."""

    code = "PG-470"


class ConductorError(PeragoError):
    """Conductor refused a request, or did not answer."""


class ConductorNotFound(ConductorError):
    """Task, workflow or definition does not exist."""

    code = "PG-510"


class ConductorRejected(ConductorError):
    """Conductor does not accept the request as it was made."""

    code = "PG-520"


class ConductorUnavailable(ConductorError):
    """Conductor could not be reached or is overloaded; the request had no effect."""

    code = "PG-530"


class ConductorUnknown(ConductorError):
    """A write broke off after it was sent: it may or may not have taken effect."""

    code = "PG-540"
