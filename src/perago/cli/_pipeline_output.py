"""What `perago run` shows of a pipeline: each step as it runs, then the whole change and the result, or why it failed."""

from typing import Any

from rich.text import Text

from perago.cli import _task_output
from perago.cli._result_folder import WrittenResult
from perago.cli._run_exit_code import RunExitCode
from perago.local_run.messages import DeclaredPipeline, StepBegins
from perago.local_run.pipeline_process import IsolatedPipelineRun, IsolatedStep
from perago.protocol.statuses import WorkflowState
from perago.terminal import console, diff_view, spinner, tracebacks


class StepsOnScreen:
    """Shows the steps while they run. With `quiet` only what went wrong."""

    def __init__(self, listener: spinner.Spinner, *, quiet: bool) -> None:
        self._listener = listener
        self._quiet = quiet

    def begins(self, begun: StepBegins) -> None:
        self._listener.begin(begun.ref)
        if not self._quiet:
            console.stdout().print(Text.assemble((console.printable(begun.ref), "bold cyan"), (f": {begun.task}", "dim")))

    def ended(self, step: IsolatedStep) -> None:
        self._listener.begin("")
        for warning in step.ended.warnings:
            console.warning(f"{step.begun.ref}: {warning}")
        if step.ok and not self._quiet:
            _show_step(step)
        elif not step.ok:
            tracebacks.show(step.ended.traceback)
            if step.ended.optional:
                console.warning(f"{_failure(step)}; the step is optional: the pipeline continues from the workspace before it")


def exit_code(ended: IsolatedPipelineRun) -> RunExitCode:
    return RunExitCode.COMPLETED if ended.failed is None else RunExitCode[_status(ended.failed)]


def document(declared: DeclaredPipeline, ended: IsolatedPipelineRun, written: WrittenResult | None) -> dict[str, Any]:
    done, failed = ended.done, ended.failed
    return {
        "pipeline": declared.name,
        "status": (WorkflowState.COMPLETED if failed is None else WorkflowState.FAILED).value,
        "failed_step": None if failed is None else failed.begun.ref,
        "reason": None if failed is None else failed.ended.outcome.reason,
        "result": None if done is None else done.outputs,
        "steps": [_step_document(step) for step in ended.steps],
        "changes": [] if done is None else _task_output.changes_document(done.changes),
        "tables": [] if done is None else _task_output.tables_document(done.tables),
        "notes": [] if done is None else list(done.notes),
        "written": None if written is None else str(written.folder),
    }


def show_end(
    declared: DeclaredPipeline, ended: IsolatedPipelineRun, written: WrittenResult | None, seconds: float, *, quiet: bool
) -> None:
    done, failed = ended.done, ended.failed
    if failed is not None:
        console.error(f"pipeline {declared.name}: {_failure(failed)}", failed.ended.code)
        _task_output.show_kept(written)
    elif done is not None and not quiet:
        for note in done.notes:
            console.stdout().print(Text(note, style="dim"))
        if declared.publishes:
            console.stdout().print(Text("the whole pipeline", style="bold cyan"))
            _task_output.show_diff(done.changes, done.tables)
        _task_output.show_completed(declared.name, done.outputs, written, seconds)


def _show_step(step: IsolatedStep) -> None:
    if step.begun.is_builtin:
        if step.ended.changes:
            console.stdout().print(diff_view.totals(step.ended.changes))
        return
    if step.ended.changes:
        _task_output.show_diff(step.ended.changes, step.ended.tables)
    output = step.ended.outcome.output
    if output is not None:
        _task_output.show_result(output["result"])


def _failure(step: IsolatedStep) -> str:
    outcome, begun = step.ended.outcome, step.begun
    what = _task_output.follows(outcome.status, begun.limit, step.ended.code, timed_out=step.timed_out)
    where = f"step {begun.ref} ({begun.task})" if begun.ref else "its process"
    return f"{where} ended with {_status(step)} ({what}): {outcome.reason}"


def _status(step: IsolatedStep) -> str:
    return RunExitCode.TIMED_OUT.name if step.timed_out else step.ended.outcome.status.value


def _step_document(step: IsolatedStep) -> dict[str, Any]:
    output = step.ended.outcome.output
    return {
        "ref": step.begun.ref,
        "task": step.begun.task,
        "status": _status(step),
        "optional": step.ended.optional,
        "reason": step.ended.outcome.reason,
        "result": None if output is None else output["result"],
        "changes": _task_output.changes_document(step.ended.changes),
    }
