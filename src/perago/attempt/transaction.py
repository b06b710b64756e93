"""One attempt, top to bottom: Conductor's input comes in, the Outcome leaves. The steps are those of the publication protocol."""

import contextlib
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from perago import events
from perago.attempt import instrumentation, outcome, port, publish, staging
from perago.attempt.rival_wait import ONE_LOOK, Patience
from perago.attempt.target_branch import TargetBranch
from perago.conductor import port as conductor_port
from perago.errors import (
    ConductorNotFound,
    LakeError,
    LakeNotFound,
    PeragoError,
    PublishFenceError,
    StaleAttemptError,
    TaskFailed,
    TaskInputError,
    WorkspaceError,
)
from perago.events import Phase
from perago.lake import port as lake_port
from perago.model import Attempt, ExecutionId, Outcome, Snapshot, WorkspaceRef
from perago.protocol import decision, fence
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
    unlabelled: decision.UnlabelledHead = decision.UnlabelledHead.REPLACE
    patience: Patience = ONE_LOOK

    @property
    def effects(self) -> instrumentation.Effects:
        return instrumentation.Effects(self.emit, self.clock)


def run(execution: Execution, task_input: Mapping[str, Any]) -> Outcome:
    """Never raises for anything that a task, a server or a workspace does."""
    removals = _Removals(execution.emit)
    try:
        call = execution.task.accept(task_input)
        if call.workspace is None:
            return outcome.completed(None, _body(execution, None, call.params))
        with contextlib.ExitStack() as cleanup:
            ended = _transaction(replace(execution, emit=removals.emit), call.workspace, call.params, cleanup)
    except Exception as error:  # noqa: BLE001  the one place where an exception becomes a report; nothing of it is lost
        ended = outcome.failed(error, execution.reason_max_length)
    return replace(ended, removals=removals.lines)


def _transaction(execution: Execution, target: WorkspaceRef, params: object, cleanup: contextlib.ExitStack) -> Outcome:
    task, effects = execution.task, execution.effects
    branch = TargetBranch(execution.lake, execution.conductor, effects, execution.attempt, target, execution.patience)
    _check_early(execution, branch)
    workspace = cleanup.enter_context(_opened(execution, target))
    with effects.of(Phase.PRE_CHECK, "pre checks"):
        task.check_before(workspace.listing())
    staged = None
    if workspace.needs_branch_before_body and not task.read_only:
        staged = cleanup.enter_context(_staging(execution, target, require_current(execution)).branch())
        workspace.attach(staged.branch)
    result = _body(execution, workspace.argument(), params, workspace.blame)
    workspace.settle()
    with effects.of(Phase.POST_CHECK, "post checks"):
        task.check_after(workspace.listing())
    if task.read_only:
        return outcome.completed(target, result)
    stage = _staging(execution, target, require_current(execution))
    publication = publish.Publication(
        execution.lake,
        effects,
        stage,
        branch,
        lambda: require_current(execution),
        execution.budget.publish_seconds,
        execution.unlabelled,
    )
    with publication.needing(staged):
        change = workspace.changed()
    if not change.is_empty:
        staged = publication.stage(staged or cleanup.enter_context(stage.branch()), workspace.fill)
    published = publication.confirm(staged, lambda: cleanup.enter_context(stage.branch()))
    return outcome.completed(WorkspaceRef(target.repository, target.branch, published), result)


def require_current(execution: Execution) -> Snapshot:
    """The attempt fence: a fresh read of Conductor, every time."""
    with execution.effects.of(Phase.FENCE, "attempt fence"):
        try:
            snapshot = execution.conductor.snapshot(execution.attempt)
        except ConductorNotFound as error:
            raise StaleAttemptError("Conductor no longer knows this task: its workflow was removed or restarted") from error
        fence.assert_current_attempt_snapshot(execution.attempt, snapshot, execution.conductor.lease_seconds_left())
        return snapshot


def _check_early(execution: Execution, branch: TargetBranch) -> None:
    """What can only be refused is refused before the body runs. A branch that stands at the input needs no second look."""
    target = branch.ref
    with execution.effects.of(Phase.PREPARE, "read the target branch"):
        try:
            at = execution.lake.branch(target.repository, target.branch)
        except LakeNotFound as error:
            raise _no_branch(execution, target) from error
    if at == target.ref:
        return
    _require_commit(execution, target)
    if execution.task.read_only:
        return
    plan = decision.decide(
        execution.attempt,
        target.ref,
        branch.look(require_current(execution)),
        change_is_empty=False,
        read_only=False,
        unlabelled=execution.unlabelled,
    )
    if isinstance(plan, decision.Refuse):
        raise PublishFenceError(plan.reason)


def _no_branch(execution: Execution, target: WorkspaceRef) -> PeragoError:
    """What is wrong with a `workspace.branch` that names no branch. A tag or a commit id never will name one."""
    _require_commit(execution, target)
    try:
        found = execution.lake.commit(target.repository, target.branch)
    except LakeError:
        return WorkspaceError(f"branch {target.branch} does not exist in repository {target.repository}")
    return TaskInputError(
        f"workspace.branch {target.branch} is a tag or a commit ({found.id}), not a branch; name the branch to publish to"
    )


def _staging(execution: Execution, target: WorkspaceRef, own: Snapshot) -> staging.Staging:
    return staging.Staging(execution.lake, execution.effects, execution.attempt, execution.id, target, own.workflow_created)


def _require_commit(execution: Execution, target: WorkspaceRef) -> None:
    """An input that names a branch or a tag would not be the same for the next attempt."""
    with execution.effects.of(Phase.PREPARE, "read the input commit"):
        try:
            found = execution.lake.commit(target.repository, target.ref)
        except LakeNotFound as error:
            raise WorkspaceError(f"workspace.ref {target.ref} does not exist in repository {target.repository}") from error
        if found.id != target.ref:
            raise TaskInputError(f"workspace.ref {target.ref} is not a commit id: it resolves to {found.id}; pass that id itself")


@contextlib.contextmanager
def _opened(execution: Execution, target: WorkspaceRef) -> Generator[port.AttemptWorkspace]:
    workspace = execution.workspaces(target)
    try:
        workspace.open()
        yield workspace
    finally:
        execution.effects.clean_up("close workspace", workspace.close, "failed to clean local workspace")


@dataclass(slots=True)
class _Removals:
    """Passes events on and keeps a line for Conductor's task log of each commit that was taken off the target."""

    passed_on: events.Emit
    lines: tuple[str, ...] = ()

    def emit(self, event: events.Event) -> None:
        if isinstance(event, events.Removed):
            self.lines = (*self.lines, str(event))
        self.passed_on(event)


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
