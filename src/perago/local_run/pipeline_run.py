"""Runs a whole pipeline without servers: one attempt per step on one store of plain files, lanes one after another.

The folder is the root of the repository: a task with the prefix `/sales` works on the files below `sales/`. `run` is for
`perago.testing`; `perago run` calls `interpret` in a process of its own.
"""

import contextlib
import tempfile
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perago.declare.task import TaskDeclaration
from perago.local_run import changes, environment, folder_lake, local_attempts, table_changes
from perago.local_run.answers import Answers
from perago.local_run.interpreter import Interpreter
from perago.local_run.step_run import StepFailed, StepRun, Watch
from perago.model import FilePath, ObjectPath
from perago.pipelines import graph, inputs
from perago.protocol.statuses import WorkflowState


@dataclass(frozen=True, slots=True)
class LocalPipelineRun:
    """How the pipeline ended. Paths in it are gone when the context that made it ends."""

    outputs: Mapping[str, Any] | None
    """The fields of the result as JSON, None unless completed."""
    failed: str
    """The reference name of the step that ended the pipeline; empty if it completed."""
    given: Mapping[ObjectPath, folder_lake.Stored]
    published: Mapping[ObjectPath, folder_lake.Stored]
    notes: tuple[str, ...] = ()
    """What a local run leaves out, one line each."""
    kept: Mapping[ObjectPath, folder_lake.Stored] | None = None
    """The repository as the step left it that failed its post checks, if that was to be kept."""

    @property
    def status(self) -> WorkflowState:
        return WorkflowState.FAILED if self.failed else WorkflowState.COMPLETED

    @property
    def changes(self) -> tuple[changes.FileChange, ...]:
        """Of the whole pipeline: after a failure, what the steps before it have published."""
        return changes.between(self.given, self.published, "")

    @property
    def tables(self) -> tuple[table_changes.TableChange, ...]:
        """The tables among the changes; reads what tells their rows and columns."""
        return table_changes.between(self.given, self.published, "")

    @property
    def files(self) -> dict[FilePath, folder_lake.Stored]:
        """What the repository holds afterwards."""
        return {FilePath(path): held for path, held in self.published.items()}

    @property
    def kept_files(self) -> dict[FilePath, folder_lake.Stored] | None:
        return None if self.kept is None else {FilePath(path): held for path, held in self.kept.items()}


@dataclass(slots=True)
class _Collect:
    """Keeps every step. Ctrl-C in a step, which a worker reports as its failure, ends the whole run."""

    steps: list[StepRun] = field(default_factory=list[StepRun])

    def begins(self, ref: str, task: TaskDeclaration) -> None: ...

    def ended(self, step: StepRun) -> None:
        if isinstance(step.attempt.error, KeyboardInterrupt):
            raise step.attempt.error
        self.steps.append(step)


@dataclass(frozen=True, slots=True)
class InProcessRun:
    done: LocalPipelineRun
    steps: Sequence[StepRun]
    store: folder_lake.FolderLake

    def of_step(self, step: StepRun) -> environment.LocalRun:
        """The step as a run of its task on the whole repository."""
        given, published = self.store.held(step.before), self.store.held(step.after)
        return environment.LocalRun(step.attempt.outcome, given, published, "", step.attempt.error, step.attempt.warnings)


@contextlib.contextmanager
def run(
    pipeline: graph.Pipeline, files: Mapping[FilePath, Path], given: Mapping[str, Any], answers: Answers
) -> Generator[InProcessRun]:
    """Run it in this process on a copy of `files`; `TaskInputError` for inputs that its model refuses."""
    inputs.require_valid(pipeline, given)
    answers.require_for(pipeline)
    with tempfile.TemporaryDirectory(prefix="perago-run-", ignore_cleanup_errors=True) as directory:
        collected, surroundings = _Collect(), local_attempts.Surroundings(environment.shared_spark)
        store = local_attempts.make_store(files, "", Path(directory))
        attempts = local_attempts.LocalAttempts(store, Path(directory), surroundings)
        yield InProcessRun(interpret(pipeline, attempts, given, collected, answers), collected.steps, store)


def interpret(
    pipeline: graph.Pipeline,
    attempts: local_attempts.LocalAttempts,
    given: Mapping[str, Any],
    watch: Watch,
    answers: Answers,
) -> LocalPipelineRun:
    """Run it on the store of the attempts, whose directory has the files of the result."""
    store, interpreter = attempts.store, Interpreter(attempts, watch, answers)
    outputs, failed, kept = None, "", None
    try:
        outputs, _ = interpreter.run(pipeline, given, local_attempts.input_workspace(store))
    except StepFailed as error:
        failed, kept = error.step.ref, error.step.attempt.kept
    held = None if kept is None else store.held(kept)
    return LocalPipelineRun(outputs, failed, store.given(), store.published(), tuple(interpreter.notes), held)
