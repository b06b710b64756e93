"""What `perago run` shows of a task: its changes, its result, or why it failed."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from rich.text import Text

from perago.cli._result_folder import WrittenResult
from perago.cli._run_exit_code import RunExitCode
from perago.errors import TaskResultError, TaskStatus
from perago.local_run.changes import FileChange
from perago.local_run.environment import LocalRun
from perago.local_run.messages import Declared, TimeLimit
from perago.local_run.table_changes import TableChange, TableSide
from perago.local_run.task_process import IsolatedRun
from perago.terminal import console, diff_view, tracebacks

_NO_TABLE = TableSide(0, 0)


def status(ended: IsolatedRun) -> str:
    return RunExitCode.TIMED_OUT.name if ended.timed_out else ended.done.outcome.status.value


def document(declared: Declared, ended: IsolatedRun, written: WrittenResult | None) -> dict[str, Any]:
    done = ended.done
    output = done.outcome.output
    return {
        "task": declared.name,
        "status": status(ended),
        "reason": done.outcome.reason,
        "result": None if output is None else output["result"],
        "changes": changes_document(done.changes),
        "tables": tables_document(done.tables),
        "written": None if written is None else str(written.folder),
    }


def changes_document(changes: Iterable[FileChange]) -> list[dict[str, Any]]:
    return [
        {
            "path": change.path,
            "change": change.kind.value,
            "size_before": None if change.before is None else change.before.size,
            "size_after": None if change.after is None else change.after.size,
        }
        for change in changes
    ]


def show_changes(declared: Declared, done: LocalRun) -> None:
    if done.outcome.output is None or not declared.has_workspace:
        return
    if declared.publishes:
        show_diff(done.changes, done.tables)
    else:
        console.stdout().print(Text("read-only: nothing is published", style="dim"))


def tables_document(tables: Iterable[TableChange]) -> list[dict[str, Any]]:
    return [
        {
            "path": table.path,
            "format": table.format,
            "change": table.kind.value,
            "files_before": table.before.files if table.before else None,
            "files_after": table.after.files if table.after else None,
            "rows_before": table.before.rows if table.before else None,
            "rows_after": table.after.rows if table.after else None,
            "columns": dict((table.after or table.before or _NO_TABLE).columns),
            "columns_added": table.added_columns,
            "columns_removed": table.removed_columns,
            "columns_retyped": {name: list(types) for name, types in table.retyped_columns.items()},
        }
        for table in tables
    ]


def show_diff(changes: Sequence[FileChange], tables: Sequence[TableChange] = ()) -> None:
    out = console.stdout()
    if not changes:
        out.print(Text("no changes: nothing to publish", style="dim"))
        return
    for line in diff_view.render(changes, tables):
        out.print(line)


def show_end(declared: Declared, ended: IsolatedRun, written: WrittenResult | None, seconds: float, *, quiet: bool) -> None:
    done = ended.done
    if done.outcome.output is None:
        tracebacks.show(ended.traceback)
        what = follows(done.outcome.status, declared.limit, ended.code, timed_out=ended.timed_out)
        console.error(f"{declared.name} ended with {status(ended)} ({what}): {done.outcome.reason}", ended.code)
        show_kept(written)
    elif not quiet:
        show_completed(declared.name, done.outcome.output["result"], written, seconds)


def show_kept(written: WrittenResult | None) -> None:
    """Where to look at what failed its post checks."""
    if written is not None:
        folder = console.printable(str(written.folder))
        console.stderr().print(Text(f"kept what it left, which failed its checks: {written.files} files in {folder}"))


def show_completed(name: str, result: object, written: WrittenResult | None, seconds: float) -> None:
    out = console.stdout()
    if written is not None:
        out.print(Text(f"wrote {written.files} files to {console.printable(str(written.folder))}"))
    show_result(result)
    out.print(Text.assemble(("COMPLETED", "bold green"), f" {name}", (f" in {seconds:.2f} s", "dim")))


def show_result(result: object) -> None:
    shown = json.dumps(result, ensure_ascii=False)
    console.stdout().print(Text.assemble(("result: ", "bold"), console.printable(shown)))


def follows(status: TaskStatus, limit: TimeLimit, code: str, *, timed_out: bool) -> str:
    """What Conductor would do after a failure, and whether that can help."""
    if timed_out:
        return "Conductor would retry it" if limit.is_retried else "Conductor would time out the workflow"
    if status is TaskStatus.FAILED_WITH_TERMINAL_ERROR:
        return "no retry would help"
    if code == TaskResultError.code:
        return "Conductor would retry it; correct the task, which returns this on every attempt"
    return "Conductor would retry it"
