"""`run_pipeline` runs a pipeline on files and inputs without servers; its `PipelineRun` has the steps, the result and changes."""

import functools
import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar, cast, overload

from pydantic import BaseModel

from perago.errors import SetupError, TaskDefinitionError
from perago.local_run import pipeline_run
from perago.local_run.answers import Answer, Answers
from perago.local_run.changes import ChangeKind, unified
from perago.local_run.table_changes import TableChange
from perago.pipelines import flow, graph, loader
from perago.protocol.statuses import WorkflowState
from perago.testing import runs
from perago.testing.runs import Files, TaskRun

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class PipelineRun(Generic[ResultT]):
    """How a pipeline ended and what it would have published. All paths begin at the root of the repository."""

    pipeline: str
    status: WorkflowState
    """Of the workflow: `COMPLETED` or `FAILED`; can be compared with a string."""
    output: Mapping[str, Any] | None
    """The fields of the result as Conductor's JSON, None unless completed."""
    steps: Mapping[str, TaskRun]
    """The steps that ran, in their order, by Conductor's reference names: `train__2` in the second iteration of a loop,
    `recompute_0` for the first item of an each, `nightly/clean` in the pipeline that the call `nightly` runs."""
    failed_step: str
    """The reference name of the step that ended the pipeline; empty if completed."""
    added: list[str]
    changed: list[str]
    deleted: list[str]
    files: Mapping[str, bytes] = field(repr=False)
    """The whole repository afterwards. After a failure it has what the steps before have published."""
    notes: tuple[str, ...] = field(repr=False)
    """What a local run leaves out: waiting."""
    differences: Mapping[str, list[str]] = field(repr=False)
    """Unified diff lines of each small text file that was added or changed."""
    tables: tuple[TableChange, ...] = field(repr=False)
    """Rows, columns and files, before and after, of each table among the changes."""
    model: type[BaseModel] | None = field(repr=False)
    """The result model that the pipeline declares."""

    @property
    def ok(self) -> bool:
        return self.status is WorkflowState.COMPLETED

    @property
    def reason(self) -> str:
        """Why it failed, with the step; empty if completed."""
        return f"{self.failed_step}: {self.steps[self.failed_step].reason}" if self.failed_step else ""

    @property
    def result(self) -> ResultT:
        """What the pipeline returns; raises `ValueError` unless completed."""
        if self.output is None:
            raise ValueError(f"pipeline {self.pipeline!r} has no result: {self.reason}")
        return cast("ResultT", None if self.model is None else self.model.model_validate_json(json.dumps(self.output)))

    def text(self, path: str) -> str:
        """A file of the repository as text."""
        return runs.text_of(self.files, path)

    def report(self) -> str:
        """The run as text: status, every step, result and changes; for `assert run.ok, run.report()`."""
        return "\n".join(self._lines())

    def _lines(self) -> Generator[str]:
        yield f"{self.pipeline}: {self.status}"
        if self.reason:
            yield f"reason: {self.reason}"
        yield from self.notes
        for ref, step in self.steps.items():
            yield from (f"  {line}" for line in f"{ref}: {step.report()}".splitlines())
        if self.output is not None:
            yield f"result: {self.output}"
        yield from runs.change_lines(self.added, self.changed, self.deleted, self.differences)


@overload
def run_pipeline(
    pipeline: ModuleType | str,
    *,
    files: Files | None = None,
    inputs: Mapping[str, Any] | BaseModel | None = None,
    answers: Mapping[str, Answer] | None = None,
) -> PipelineRun[Any]: ...
@overload
def run_pipeline(
    pipeline: Callable[..., ResultT],
    *,
    files: Files | None = None,
    inputs: Mapping[str, Any] | BaseModel | None = None,
    answers: Mapping[str, Answer] | None = None,
) -> PipelineRun[ResultT]: ...
def run_pipeline(
    pipeline: Callable[..., Any] | ModuleType | str,
    *,
    files: Files | None = None,
    inputs: Mapping[str, Any] | BaseModel | None = None,
    answers: Mapping[str, Answer] | None = None,
) -> PipelineRun[Any]:
    """Run a pipeline without servers and return how it ended; a failure of a step is not raised.

    `pipeline` is the decorated function, its module, or the module's name. `files` is the input repository: contents by path
    from its root, or a folder, which is copied and never changed. A task with the prefix `/sales` works on the files below
    `sales/`. `inputs` is what Conductor would get, or an instance of the inputs model; wrong inputs raise `TaskInputError`.

    `answers` has an answer for each human step, by its name: the result as JSON or as an instance of its model, or a function
    that gets the workspace (if the step has one) and the question, may edit the files, and returns the result.

    Each step is one attempt in this process, as with `run_task`; nothing is retried. Lanes run one after another, in their
    order, each writing one on a branch of its own, and nothing waits.
    """
    declared = _pipeline(pipeline)
    if files is not None and not declared.has_workspace:
        raise SetupError(f"pipeline {declared.name!r} has no workspace; leave files out")
    given = cast("Mapping[str, Any]", runs.as_json(inputs))
    with runs.on_disk(files) as found, pipeline_run.run(declared, found, given, Answers(answers or {})) as ran:
        return _run(declared, ran)


def _pipeline(given: Callable[..., Any] | ModuleType | str) -> graph.Pipeline:
    if isinstance(given, str | ModuleType):
        loaded = loader.load(given) if isinstance(given, str) else loader.only_declared(given)
        if isinstance(loaded, graph.Pipeline):
            return loaded
        raise TaskDefinitionError(f"{loaded.module} declares a task; use run_task")
    found = flow.pipeline_of(given)
    if found is None:
        raise TaskDefinitionError(
            f"{given!r} is not a pipeline; pass a function with @pipeline on it, its module, or the module's name"
        )
    return found


def _run(pipeline: graph.Pipeline, ran: pipeline_run.InProcessRun) -> PipelineRun[Any]:
    done, read = ran.done, functools.cache(Path.read_bytes)
    changes = done.changes
    return PipelineRun(
        pipeline=pipeline.name,
        status=done.status,
        output=done.outputs,
        steps={step.ref: runs.task_run(step.task, ran.of_step(step), read) for step in ran.steps},
        failed_step=done.failed,
        added=runs.paths(changes, ChangeKind.ADDED),
        changed=runs.paths(changes, ChangeKind.CHANGED),
        deleted=runs.paths(changes, ChangeKind.DELETED),
        files={path: read(held.at) for path, held in done.files.items()},
        notes=done.notes,
        differences={change.path: unified(change) or [] for change in changes if change.after is not None},
        tables=done.tables,
        model=pipeline.result,
    )
