"""The checks of one attempt: before the body on the input, after it on what would be published."""

import contextlib
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field

from perago import events
from perago.attempt import author_traceback, cancellation, outcome, port
from perago.attempt.execution import Execution
from perago.data_checks import evaluate, labels
from perago.data_checks.port import Measured, Previous, Tables
from perago.declare.checks import CustomCheck, When
from perago.declare.tables.require_table import RequireTable
from perago.errors import GuardrailViolation, PeragoError
from perago.model import WorkspaceRef

_POLL_SECONDS = 0.25


@dataclass(slots=True)
class CheckRun:
    execution: Execution
    target: WorkspaceRef
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the commit says about the checks that held for it."""
    _before: dict[str, Previous | None] = field(default_factory=dict[str, Previous | None])
    _recorded: Mapping[str, Measured] | None = None

    def before(self, workspace: port.AttemptWorkspace) -> None:
        """`PreGuardrailViolation` if a check of the input does not hold.

        Tables that are compared after the body are measured now: a local body may overwrite them.
        """
        task = self.execution.task
        declared = task.data_checks("pre")
        later = task.data_checks("post")
        compared = [check for check in later.tables if check.compares]
        if declared.is_empty and not compared:
            task.check_before(workspace.listing())
            return
        with workspace.inspection() as inspected:
            self._enforce(declared, inspected, "pre", lambda: task.check_before(workspace.listing()))
            for check in sorted(compared, key=lambda check: check.compatible):
                self._before[check.name] = self._previous(check, inspected, later.prefix)

    def after(self, workspace: port.AttemptWorkspace) -> None:
        """`PostGuardrailViolation` if a check of the output does not hold."""
        task = self.execution.task
        declared = task.data_checks("post")
        if declared.is_empty:
            task.check_after(workspace.listing())
            return
        with workspace.inspection() as inspected:
            found = self._enforce(declared, inspected, "post", lambda: task.check_after(workspace.listing()))
        self.labels = labels.write(found, declared.prefix)

    def _enforce(
        self, declared: port.DataChecks, inspected: port.Inspection, when: When, check_files: Callable[[], None]
    ) -> list[Measured]:
        """The author's own checks first, because they might change files; tables last, because they cost most."""
        broken, log = _custom_violations(declared.custom, inspected, when)
        try:
            check_files()
        except GuardrailViolation as violation:
            broken.append(str(violation))
        found = [] if broken else list(self._tables(declared, inspected, when))
        broken += [f"{when} guardrail {what}" for measured in found for what in measured.violations]
        self.execution.task.refuse(broken, when, (*(broken if found else ()), *log))
        return found

    def _tables(self, declared: port.DataChecks, inspected: port.Inspection, when: When) -> Generator[Measured]:
        for group in evaluate.grouped(declared.tables):
            cancellation.require_wanted()
            tables, name = inspected.tables(), group[0].name
            self.execution.emit(events.Progress(_PHASES[when], note=f"checking {name}"))
            with _interrupted_when_cancelled(tables):
                measured = evaluate.evaluate(group, tables, self._before.get(name), self._of_input(declared.prefix).get(name))
            cancellation.require_wanted()
            self.execution.emit(
                events.TableChecked(
                    measured.table,
                    measured.rows,
                    measured.rules,
                    dict(measured.bad),
                    measured.seconds,
                    measured.unchanged,
                    len(measured.violations),
                    _PHASES[when],
                )
            )
            yield measured

    def _previous(self, check: RequireTable, inspected: port.Inspection, prefix: str) -> Previous | None:
        """The input's table: its number of rows may be in the commit, its columns are not."""
        recorded = self._of_input(prefix).get(check.name)
        if not check.compatible and recorded is not None and recorded.rows is not None:
            return Previous(recorded.rows)
        return evaluate.previous(check, inspected.tables())

    def _of_input(self, prefix: str) -> Mapping[str, Measured]:
        """What the input commit says about its own checks."""
        if self._recorded is None:
            commit = self.execution.lake.commit(self.target.repository, self.target.ref)
            self._recorded = labels.read(commit.metadata, prefix)
        return self._recorded


_PHASES: Mapping[When, events.Phase] = {"pre": events.Phase.PRE_CHECK, "post": events.Phase.POST_CHECK}


def _custom_violations(
    declared: Sequence[CustomCheck], inspected: port.Inspection, when: When
) -> tuple[list[str], tuple[str, ...]]:
    """What the author's checks yield, and the tracebacks of those that raise."""
    broken: list[str] = []
    log: tuple[str, ...] = ()
    for check in declared:
        name = f"{when} guardrail {getattr(check, '__name__', type(check).__name__)}"
        try:
            broken += [f"{name} {_line(violation)}" for violation in _texts(check(inspected.argument()))]
        except PeragoError:
            raise
        except Exception as error:  # noqa: BLE001  the author's code may raise anything
            cancellation.require_wanted()
            broken.append(f"{name} cannot be evaluated: {outcome.reason(error)}")
            log += tuple(author_traceback.lines(error))
    return broken, log


def _texts(found: object) -> Sequence[object]:
    """A check may yield, return a list, or return nothing; one text is one violation, not its characters."""
    if found is None:
        return ()
    return (found,) if isinstance(found, str) else tuple(found)  # pyright: ignore[reportArgumentType, reportUnknownVariableType]


def _line(violation: object) -> str:
    return " ".join(str(violation).split())


@contextlib.contextmanager
def _interrupted_when_cancelled(tables: Tables) -> Generator[None]:
    """Ends a query of an attempt that is no longer wanted."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_POLL_SECONDS):
            if cancellation.cancelled():
                tables.interrupt()

    watcher = threading.Thread(target=watch, name="perago-check-watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
