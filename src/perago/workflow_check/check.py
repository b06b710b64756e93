"""Check workflow definitions: the entry point of the package."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from perago.declare.task import TaskDeclaration
from perago.workflow_check import roles
from perago.workflow_check.contracts import Contracts
from perago.workflow_check.definition import DYNAMIC_FORKS, FORKS, JOINS, Task, Workflow, inline_definitions
from perago.workflow_check.findings import Finding, Level
from perago.workflow_check.order import Order
from perago.workflow_check.references import References
from perago.workflow_check.sources import Sources
from perago.workflow_check.workspaces import Surroundings, WorkspaceFlow


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found in one workflow."""

    workflow: Workflow
    findings: Sequence[Finding]

    @property
    def errors(self) -> list[Finding]:
        return [one for one in self.findings if one.level is Level.ERROR]

    @property
    def warnings(self) -> list[Finding]:
        return [one for one in self.findings if one.level is Level.WARNING]

    @property
    def task_count(self) -> int:
        return sum(1 for _ in self.workflow.walk())


def check(workflow: Workflow, known: Sequence[Workflow], declared: Sequence[TaskDeclaration]) -> Verdict:
    """One workflow. Sub-workflows are looked up among `known`; `declared` are the tasks whose contracts are known."""
    tasks = {one.name: one for one in declared}
    found = [*workflow.problems, *_without_join(workflow.tasks), *_findings(workflow, tasks, known)]
    for inside in inline_definitions(workflow):
        verdict = [*inside.problems, *_without_join(inside.tasks), *_findings(inside, tasks, known)]
        found += [Finding(one.ref, f"{one.text} (in the definition of {inside.name})", one.level) for one in verdict]
    return Verdict(workflow, list(dict.fromkeys(found)))


def _findings(workflow: Workflow, tasks: Mapping[str, TaskDeclaration], known: Sequence[Workflow]) -> Iterator[Finding]:
    def called(task: Task) -> Workflow | None:
        return _with_name(task, task.calls, known) if isinstance(task.calls, str) else task.calls

    order = Order(workflow)
    yield from References(workflow, order, frozenset(tasks)).findings()
    yield from Contracts(workflow, tasks, Sources(workflow, order, tasks, called)).findings()
    if roles.uses_workspaces(workflow, tasks):
        flow = WorkspaceFlow(workflow, order, Surroundings(tasks, called, itertools.count(1), (workflow.name,)))
        flow.run()
        yield from flow.findings.values()


def _with_name(task: Task, name: str, known: Sequence[Workflow]) -> Workflow | None:
    """The definition with the version that the task asks for, otherwise the newest."""
    found = [one for one in known if one.name == name]
    wanted: object = task.raw.get("subWorkflowParam")
    version = cast("Mapping[str, object]", wanted).get("version") if isinstance(wanted, Mapping) else None
    exact = [one for one in found if version is not None and one.raw.get("version") == version]
    return max(exact or found, key=_version, default=None)


def _version(workflow: Workflow) -> int:
    version: object = workflow.raw.get("version")
    return version if isinstance(version, int) else 1


def _without_join(tasks: Sequence[Task]) -> Iterator[Finding]:
    """Conductor terminates a workflow whose fork is not followed by a JOIN."""
    for task, follower in itertools.zip_longest(tasks, tasks[1:]):
        if task.type in FORKS | DYNAMIC_FORKS and (follower is None or follower.type not in JOINS):
            yield Finding(task.ref, "is not followed by a JOIN; write one directly after it")
        for _, block in task.blocks():
            yield from _without_join(block)
