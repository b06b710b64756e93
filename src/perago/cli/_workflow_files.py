"""Workflow definitions among the arguments of `perago check`: read, check and show them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perago.declare.task import TaskDeclaration
from perago.terminal import console
from perago.workflow_check import check, definition
from perago.workflow_check.check import Verdict
from perago.workflow_check.findings import Finding


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """`problem`: why it could not be checked."""

    name: str
    verdicts: Sequence[Verdict] = ()
    problem: str | None = None

    def errors(self) -> list[str]:
        found = [f"{self.name}: {one}" for verdict in self.verdicts for one in verdict.errors]
        return found if self.problem is None else [f"{self.name}: {self.problem}"]

    def document(self) -> list[dict[str, Any]]:
        return [
            {
                "file": self.name,
                "name": verdict.workflow.name,
                "tasks": verdict.task_count,
                "errors": [_finding(one) for one in verdict.errors],
                "warnings": [_finding(one) for one in verdict.warnings],
            }
            for verdict in self.verdicts
        ]

    def show_errors(self) -> None:
        for line in self.errors():
            console.error(line)

    def show(self) -> None:
        """Errors and warnings on stderr, and `ok` for each workflow without an error."""
        self.show_errors()
        for verdict in self.verdicts:
            if not verdict.errors:
                tasks = "1 task" if verdict.task_count == 1 else f"{verdict.task_count} tasks"
                console.line(("ok:", "bold green"), f" {verdict.workflow.name} ({tasks})")
            for one in verdict.warnings:
                console.warning(f"{self.name}: {one}")


def check_files(names: Sequence[str], tasks: Sequence[TaskDeclaration]) -> list[CheckedFile]:
    """Sub-workflows are looked up in all of the files."""
    read = {name: _read(name) for name in dict.fromkeys(names)}
    known = [workflow for found in read.values() if not isinstance(found, str) for workflow in found]
    return [
        CheckedFile(name, problem=found) if isinstance(found, str) else _checked(name, found, known, tasks)
        for name, found in read.items()
    ]


def _checked(
    name: str, workflows: Sequence[definition.Workflow], known: Sequence[definition.Workflow], tasks: Sequence[TaskDeclaration]
) -> CheckedFile:
    try:
        return CheckedFile(name, [check.check(workflow, known, tasks) for workflow in workflows])
    except RecursionError:
        return CheckedFile(name, problem="is nested too deeply; put parts of the workflow into sub-workflows")


def _read(name: str) -> list[definition.Workflow] | str:
    """The definitions of a file, or why there are none."""
    try:
        found = definition.definitions(json.loads(Path(name).read_text(encoding="utf-8")))
    except OSError as wrong:
        return f"cannot be read: {(wrong.strerror or str(wrong)).lower()}"
    except json.JSONDecodeError as wrong:
        return f"is not JSON: line {wrong.lineno}, column {wrong.colno}: {wrong.msg.lower()}"
    except UnicodeDecodeError:
        return "is not JSON: it is not UTF-8 text"
    except RecursionError:
        return "is nested too deeply; put parts of the workflow into sub-workflows"
    return found or "contains no workflow; write a workflow definition, an object with a list of tasks"


def _finding(finding: Finding) -> dict[str, Any]:
    return {"task": finding.ref, "text": finding.text}
