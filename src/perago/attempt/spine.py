"""One attempt, top to bottom: Conductor's input comes in, the Outcome leaves. The steps are those of the publication protocol."""

import contextlib
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

from perago import events
from perago.attempt import effect, outcome, port, publish, staging
from perago.conductor import port as conductor_port
from perago.errors import (
    ConductorNotFound,
    LakeNotFound,
    PeragoError,
    StaleAttemptError,
    TaskFailed,
    TaskInputError,
    WorkspaceError,
)
from perago.events import Phase
from perago.lake import port as lake_port
from perago.model import Attempt, Commit, ExecutionId, Outcome, WorkspaceRef
from perago.protocol import fence
from perago.protocol.budget import DEFAULT as DEFAULT_BUDGET
from perago.protocol.budget import Budget


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution of one attempt and everything it reaches the world through."""

    attempt: Attempt
    id: ExecutionId
    task: port.Task
    lake: lake_port.Lake
    conductor: conductor_port.AttemptFence
    workspaces: Callable[[WorkspaceRef], port.AttemptWorkspace]
    budget: Budget = DEFAULT_BUDGET
    emit: events.Emit = events.ignore
    clock: Callable[[], float] = time.monotonic
    reason_max_length: int = outcome.REASON_MAX_LENGTH

    @property
    def effects(self) -> effect.Effects:
        return effect.Effects(self.emit, self.clock)


def run(execution: Execution, task_input: Mapping[str, Any]) -> Outcome:
    """Never raises for anything that a task, a server or a workspace does."""
    try:
        call = execution.task.accept(task_input)
        if call.workspace is None:
            return outcome.completed(None, _body(execution, None, call.params))
        with contextlib.ExitStack() as cleanup:
            return _transaction(execution, call.workspace, call.params, cleanup)
    except Exception as error:  # noqa: BLE001  the one place where an exception becomes a report; nothing of it is lost
        return outcome.failed(error, execution.reason_max_length)


def _transaction(execution: Execution, target: WorkspaceRef, params: object, cleanup: contextlib.ExitStack) -> Outcome:
    task, effects = execution.task, execution.effects
    source = _input_commit(execution, target)
    workspace = cleanup.enter_context(_opened(execution, target))
    with effects.of(Phase.PRE_CHECK, "pre checks"):
        task.check_before(workspace.listing())
    stage = staging.Staging(execution.lake, effects, execution.attempt, execution.id, target, source)
    staged = None
    if workspace.needs_branch_before_body and not task.read_only:
        require_current(execution)
        staged = cleanup.enter_context(stage.branch())
        workspace.attach(staged.branch)
    result = _body(execution, workspace.argument(), params, workspace.blame)
    workspace.settle()
    with effects.of(Phase.POST_CHECK, "post checks"):
        task.check_after(workspace.listing())
    if task.read_only:
        return outcome.completed(target, result)
    require_current(execution)
    if not workspace.changed().is_empty:
        staged = staged or cleanup.enter_context(stage.branch())
        workspace.fill(staged.branch)
        staged = stage.commit(staged)
    publication = publish.Publication(
        execution.lake, effects, stage, lambda: require_current(execution), execution.budget.publish_seconds
    )
    published = publication.confirm(staged, lambda: cleanup.enter_context(stage.branch()))
    return outcome.completed(WorkspaceRef(target.repository, target.branch, published), result)


def require_current(execution: Execution) -> None:
    """The attempt fence: a fresh read of Conductor, every time."""
    with execution.effects.of(Phase.FENCE, "attempt fence"):
        try:
            snapshot = execution.conductor.snapshot(execution.attempt)
        except ConductorNotFound as error:
            raise StaleAttemptError("Conductor no longer knows this task: its workflow was removed or restarted") from error
        fence.assert_current_attempt_snapshot(execution.attempt, snapshot, execution.conductor.lease_seconds_left())


def _input_commit(execution: Execution, target: WorkspaceRef) -> Commit:
    """The first read of all: an input that names a branch or a tag would not be the same for the next attempt."""
    with execution.effects.of(Phase.PREPARE, "read the input commit"):
        try:
            found = execution.lake.commit(target.repository, target.ref)
        except LakeNotFound as error:
            raise WorkspaceError(f"workspace.ref {target.ref} does not exist in repository {target.repository}") from error
        if found.id != target.ref:
            raise TaskInputError(f"workspace.ref {target.ref} is not a commit id: it resolves to {found.id}; pass that id itself")
        return found


@contextlib.contextmanager
def _opened(execution: Execution, target: WorkspaceRef) -> Generator[port.AttemptWorkspace]:
    workspace = execution.workspaces(target)
    try:
        workspace.open()
        yield workspace
    finally:
        execution.effects.clean_up("close workspace", workspace.close, "failed to clean local workspace")


def _body(
    execution: Execution, argument: object, params: object, blame: Callable[[Exception], Exception] | None = None
) -> Mapping[str, Any]:
    with execution.effects.of(Phase.BODY, "body"):
        try:
            returned = execution.task.body(argument, params)
        except PeragoError:
            raise
        except Exception as error:
            behind = error if blame is None else blame(error)
            if behind is error:
                raise
            raise behind from error
        except BaseException as error:
            raise TaskFailed(f"the body ended with {outcome.reason(error)}") from error
        return execution.task.result(returned)
