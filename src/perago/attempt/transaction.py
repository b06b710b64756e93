"""One attempt, top to bottom, from Conductor's input to the outcome that is reported."""

import contextlib
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from perago import events
from perago.attempt import cancellation, kept_attempt, outcome, port
from perago.attempt.check_run import CheckRun
from perago.attempt.execution import Conclude, Execution
from perago.attempt.publish import Publication
from perago.attempt.staging import Staging
from perago.attempt.target_branch import TargetBranch
from perago.errors import (
    AttemptCancelled,
    LakeError,
    LakeNotFound,
    PeragoError,
    PublishFenceError,
    StaleAttemptError,
    TaskFailed,
    TaskInputError,
    WorkspaceError,
)
from perago.events import Effect
from perago.lake import existence
from perago.model import Commit, Outcome, WorkspaceRef
from perago.protocol import decision, kept_labels, kept_names, lane_names

_LOST_LANE = ": the branches of lanes are deleted when their run ends; `perago retry` restores them"


def run(execution: Execution, task_input: Mapping[str, Any]) -> Outcome:
    """Run the attempt. Never raises for anything that a task, a server or a workspace does."""
    removals = _Removals(execution.emit)
    try:
        accepted = execution.task.accept(task_input)
        if accepted.workspace is None:
            ended = execution.conclude(lambda: True, outcome.completed(None, _run_body(execution, None, accepted.params)))
        else:
            execution = replace(execution, emit=removals.emit, conclude=removals.added_to(execution.conclude))
            ended = _run_in_workspace(execution, accepted.workspace, accepted.params)
    except Exception as error:  # noqa: BLE001  the one place where an exception becomes a report; nothing of it is lost
        ended = outcome.failed(error, execution.reason_max_length)
    return replace(ended, removals=removals.lines)


def _run_in_workspace(execution: Execution, target: WorkspaceRef, params: object) -> Outcome:
    """Early check, download, pre checks, body, post checks, attempt fence, diff, publish; then clean up."""
    task, recorder = execution.task, execution.recorder
    branch = TargetBranch(execution.lake, execution.conductor, recorder, execution.attempt, target, execution.patience)
    _check_early(execution, branch)
    checked = CheckRun(execution, target)
    with (
        _opened(execution, target) as workspace,
        Staging(execution.lake, recorder, execution.attempt, execution.id, target) as staging,
    ):
        with _explaining_damage(workspace):
            cancellation.require_wanted()
            with recorder.record(Effect.PRE_CHECKS):
                checked.before(workspace)
            if workspace.needs_branch_before_body and not task.read_only:
                execution.require_current()
                workspace.attach(staging.create().branch)

            result = _run_body(execution, workspace.argument(), params, workspace.blame)

            workspace.settle()
            cancellation.require_wanted()
            with kept_attempt.kept_after_violation(execution, staging, workspace), recorder.record(Effect.POST_CHECKS):
                checked.after(workspace)
        workspace.verify_input()
        if task.read_only:
            return execution.conclude(lambda: True, outcome.completed(target, result))
        own = execution.require_current_before_diff()
        publication = Publication(execution, staging, branch, own and own.workflow_created)
        with publication.explaining_revocation():
            change = workspace.changed()
        publication = replace(publication, counts=change.counts, check_labels=checked.labels)
        published = publication.publish(None) if change.is_empty else publication.publish_change(workspace.fill)
        workspace.published()
        return execution.conclude(publication.is_announced, outcome.completed(replace(target, ref=published), result))


def _run_body(
    execution: Execution, argument: object, params: object, blame: Callable[[Exception], Exception] | None = None
) -> Mapping[str, Any]:
    """The body's result as JSON. `blame` finds the workspace's own error behind one that the body raised."""
    cancellation.require_wanted()
    with execution.recorder.record(Effect.BODY):
        try:
            returned = execution.task.body(argument, params)
        except BaseException as error:
            # The body was interrupted, or its Spark job was cancelled and failed with an error of its own.
            cancellation.require_wanted()
            if not isinstance(error, Exception):
                raise TaskFailed(f"the body ended with {outcome.reason(error)}") from error
            cause = error if blame is None or isinstance(error, PeragoError) else blame(error)
            if cause is error:
                raise
            raise cause from error
        cancellation.require_wanted()
        return execution.task.result(returned)


def _check_early(execution: Execution, branch: TargetBranch) -> None:
    """Refuse before the body runs what would be refused after it. A branch at the input needs no second read."""
    target = branch.ref
    if kept_names.parse(target.branch) is not None:
        raise _is_kept(f"workspace.branch {target.branch}")
    with execution.recorder.record(Effect.READ_TARGET_BRANCH):
        try:
            at = execution.lake.branch(target.repository, target.branch)
        except LakeNotFound as error:
            _require_repository(execution, target)
            raise _no_branch(execution, target) from error
    if at == target.ref:
        return
    found = _require_commit(execution, target)
    if execution.task.read_only and not execution.task.prepares_publication:
        return
    if kept_labels.is_kept(found.metadata):
        raise _is_kept(f"workspace.ref {target.ref}")
    shown = branch.look(execution.require_current())
    refusal = decision.refusal(execution.attempt, target.ref, shown, execution.unlabelled)
    if refusal is not None:
        raise PublishFenceError(refusal.reason)


def _no_branch(execution: Execution, target: WorkspaceRef) -> PeragoError:
    """The error for a `workspace.branch` that names no branch; a tag or a commit id is a mistake in the input."""
    _require_commit(execution, target)
    try:
        found = execution.lake.commit(target.repository, target.branch)
    except LakeError:
        lost = "" if lane_names.parse(target.branch) is None else _LOST_LANE
        return WorkspaceError(f"branch {target.branch} does not exist in repository {target.repository}{lost}")
    return TaskInputError(
        f"workspace.branch {target.branch} is a tag or a commit ({found.id}), not a branch; name the branch to publish to"
    )


def _require_repository(execution: Execution, target: WorkspaceRef) -> None:
    if not existence.repository_exists(execution.lake, target.repository):
        raise WorkspaceError(
            f"repository {target.repository} does not exist in lakeFS; correct workspace.repository, or create the repository"
        )


def _is_kept(what: str) -> TaskInputError:
    return TaskInputError(f"{what} holds an attempt that failed its checks, from which nothing is published")


def _require_commit(execution: Execution, target: WorkspaceRef) -> Commit:
    """Refuse an input that names a branch or a tag, which could be another commit for the next attempt."""
    with execution.recorder.record(Effect.READ_INPUT_COMMIT):
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
        execution.recorder.clean_up(Effect.CLOSE_WORKSPACE, workspace.close, "failed to clean local workspace")


@contextlib.contextmanager
def _explaining_damage(workspace: port.AttemptWorkspace) -> Generator[None]:
    """Where a check or the body fails on an input that turns out to be damaged, fail with that, because it may be the cause."""
    try:
        yield
    except (AttemptCancelled, StaleAttemptError):
        raise
    except Exception as error:
        try:
            workspace.verify_input()
        except (LakeError, WorkspaceError) as damage:
            raise type(damage)(f"{damage}; the task had failed before this was known: {outcome.reason(error)}") from error
        raise


@dataclass(slots=True)
class _Removals:
    """Forwards events, and keeps a line for Conductor's task log about each commit that was removed from the target."""

    forward: events.Emit
    lines: tuple[str, ...] = ()

    def emit(self, event: events.Event) -> None:
        if isinstance(event, events.Removed):
            self.lines = (*self.lines, str(event))
        self.forward(event)

    def added_to(self, conclude: Conclude) -> Conclude:
        """`conclude`, called with these lines in the outcome."""
        return lambda is_announced, ended: conclude(is_announced, replace(ended, removals=self.lines))
