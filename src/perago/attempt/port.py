"""The ports of the transaction: a declared task, and a workspace (local directory or Spark)."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from perago import events
from perago.data_checks.port import Tables
from perago.declare.checks import CustomCheck, When
from perago.declare.tables.require_table import RequireTable
from perago.model import BranchName, ChangeCounts, Commit, Listing, TaskInput, UncheckedFill


@dataclass(frozen=True, slots=True)
class DataChecks:
    """The checks that need more than a listing."""

    tables: Sequence[RequireTable] = ()
    custom: Sequence[CustomCheck] = ()
    prefix: str = ""
    """Of the workspace's objects, empty or with a trailing `/`."""

    @property
    def is_empty(self) -> bool:
        return not self.tables and not self.custom


class Inspection(Protocol):
    """A workspace as checks see it: before the body the input, after `settle` what would be published."""

    def argument(self) -> object:
        """What the author's own checks get: the same as the body."""
        ...

    def tables(self) -> Tables:
        """The tables, as they are when this is called for the first time."""
        ...


class Task(Protocol):
    """A declared task, as far as one attempt needs it."""

    @property
    def read_only(self) -> bool: ...

    @property
    def prepares_publication(self) -> bool:
        """Whether a later task publishes on this input: it is refused early, as that one would be."""
        ...

    def accept(self, task_input: Mapping[str, Any]) -> TaskInput:
        """`TaskInputError` where the input does not satisfy the contract."""
        ...

    def check_before(self, listing: Listing) -> None:
        """`PreGuardrailViolation` where a check of the files of the input workspace does not hold."""
        ...

    def data_checks(self, when: When) -> DataChecks:
        """The checks of that moment that need more than a listing."""
        ...

    def refuse(self, violations: Sequence[str], when: When, log: Sequence[str]) -> None:
        """`PreGuardrailViolation` or `PostGuardrailViolation` if there are violations; `log` is for the task's log."""
        ...

    def body(self, workspace: object, params: object) -> object:
        """The author's function; `workspace` is None for a workspace-free task."""
        ...

    def result(self, returned: object) -> Mapping[str, Any]:
        """What the body returned as Conductor's JSON; `TaskResultError` where the contract does not allow it."""
        ...

    def check_after(self, listing: Listing) -> None:
        """`PostGuardrailViolation` where a check of the files of the output workspace does not hold."""
        ...


class Change(Protocol):
    @property
    def is_empty(self) -> bool: ...

    @property
    def counts(self) -> ChangeCounts | None:
        """How much it is; None where the workspace does not know."""
        ...


class AttemptWorkspace(Protocol):
    """Where the body works. The methods are called in their order here; `close` always, also after a failure.

    Emits its own events for what it downloads, compares and uploads.
    """

    @property
    def needs_branch_before_body(self) -> bool:
        """True where the body itself writes to the staging branch."""
        ...

    def open(self) -> None:
        """Make it ready for the pre checks: a local one downloads the prefix at the input commit."""
        ...

    def listing(self) -> Listing:
        """The business files: before the body those of the input, after `settle` what the body left."""
        ...

    def inspection(self) -> AbstractContextManager[Inspection]:
        """For checks, before the body and after `settle`; what it opens is closed with it."""
        ...

    def attach(self, branch: BranchName) -> None:
        """The staging branch, standing at the input commit. Only where `needs_branch_before_body`, never for a read-only task."""
        ...

    def argument(self) -> object:
        """What the body gets."""
        ...

    def blame(self, error: Exception) -> Exception:
        """The body raised it: itself, or what the workspace knows to be behind it."""
        ...

    def settle(self) -> None:
        """The body has returned: stop what still writes, remove what writers leave behind."""
        ...

    def verify_input(self) -> None:
        """Wait until each byte that the body got is verified; nothing is published or completed before.

        An error says which object is damaged, or why that is unknown.
        """
        ...

    def changed(self) -> Change:
        """What differs from the input. Refuses what cannot be published, and a workspace that cannot be trusted any more."""
        ...

    def fill(self, branch: BranchName) -> Commit | None:
        """Bring that change onto the staging branch, uncommitted, unless the body has written it there.

        A commit where the change exists in one already; the staging branch then takes over its content.
        """
        ...

    def fill_unchecked(self, branch: BranchName, emit: events.Emit) -> UncheckedFill:
        """Bring what the body left onto a branch from which nothing is published, uncommitted, although a check has failed.

        Called in place of `changed` and `fill`. What no branch can hold is left out. An exception of `emit` ends it.
        """
        ...

    def published(self) -> None:
        """The publication is verified. Raises nothing: the attempt has succeeded."""
        ...

    def close(self) -> None:
        """Remove what is left. An error is recorded and does not change the attempt's result."""
        ...
