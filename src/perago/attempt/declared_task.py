"""A task declaration as the transaction runs it."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel

from perago.attempt import cancellation
from perago.attempt.port import DataChecks
from perago.declare import checks
from perago.declare.command_line import Command
from perago.declare.controls import PublishBudget
from perago.declare.signature import WorkspaceKind
from perago.declare.tables.require_table import RequireTable
from perago.declare.task import TaskDeclaration
from perago.model import Listing, TaskInput
from perago.protocol.budget import Budget, default_for


@dataclass(frozen=True, slots=True)
class DeclaredTask:
    """Implements `perago.attempt.port.Task`."""

    declaration: TaskDeclaration
    around_body: Callable[[object], contextlib.AbstractContextManager[object]] = contextlib.nullcontext
    """The context in which the author's function runs, made from the workspace that it gets (None for none)."""

    @property
    def read_only(self) -> bool:
        return self.declaration.workspace is not None and self.declaration.workspace.read_only

    @property
    def prepares_publication(self) -> bool:
        return self.read_only and self.declaration.kind is WorkspaceKind.LANES

    def accept(self, task_input: Mapping[str, Any]) -> TaskInput:
        return self.declaration.contract.parse_input(task_input)

    def check_before(self, listing: Listing) -> None:
        if self.declaration.workspace is not None:
            checks.refuse(checks.violations(self.declaration.workspace.pre, listing, "pre"), "pre")

    def data_checks(self, when: checks.When) -> DataChecks:
        spec = self.declaration.workspace
        declared = () if spec is None else spec.pre if when == "pre" else spec.post
        others = [check for check in declared if not isinstance(check, checks.FILE_CHECKS)]
        return DataChecks(
            [check for check in others if isinstance(check, RequireTable)],
            [check for check in others if not isinstance(check, RequireTable)],
            "" if spec is None else spec.object_prefix,
        )

    def refuse(self, violations: Sequence[str], when: checks.When, log: Sequence[str]) -> None:
        checks.refuse(violations, when, tuple(log))

    def body(self, workspace: object, params: object) -> object:
        body = self.declaration.body
        arguments = (params,) if self.declaration.workspace is None else (workspace, params)
        with self.around_body(workspace):
            return self._run_command(body, workspace, params) if isinstance(body, Command) else body(*arguments)

    def _run_command(self, command: Command, workspace: object, params: object) -> object:
        """In the workspace, or in the scratch directory that the body of a task without a workspace runs in."""
        # Imported here because most workers run no command.
        from perago.command_body import running  # noqa: PLC0415

        work = workspace if isinstance(workspace, Path) else Path.cwd()
        return running.run(command, self.declaration.contract, work, cast("BaseModel", params), cancellation.cancelled)

    def result(self, returned: object) -> Mapping[str, Any]:
        return self.declaration.contract.result_json(returned)

    def check_after(self, listing: Listing) -> None:
        if self.declaration.workspace is not None:
            checks.refuse(checks.violations(self.declaration.workspace.post, listing, "post"), "post")


def budget(declaration: TaskDeclaration) -> Budget:
    """What the author observed and allows, or the default within the task's response timeout."""
    declared: PublishBudget | None = declaration.controls.publish_budget
    if declared is None or not declaration.publishes:
        return default_for(declaration.controls.timeout.response_seconds)
    return declared.budget
