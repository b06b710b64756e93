"""Follows the workspace through a workflow: each writer takes what the writer before it left, and no two write at the same time.

Every path is followed, loops until nothing new appears. The rules of publication themselves are in `perago.protocol`.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from perago.workflow_check import dynamic_forks, last_uses, roles, scripts
from perago.workflow_check.advice import Advice
from perago.workflow_check.definition import (
    CALLS,
    DYNAMIC_FORKS,
    FORKS,
    JOINS,
    LOOPS,
    SCRIPTS,
    SWITCHES,
    Task,
    Workflow,
)
from perago.workflow_check.findings import Finding, Level
from perago.workflow_check.order import Order
from perago.workflow_check.roles import Role, Tasks
from perago.workflow_check.values import NOTHING, Fields, Literal, Nothing, Unknown, Value, Workspace, as_workspace
from perago.workflow_check.worlds import MOST_WORLDS, World, distinct, joined

_MOST_ITERATIONS = 6
_MOST_NESTED = 10
_TOO_MANY = f"has too many paths: {MOST_WORLDS} of them were followed; put parts of it into sub-workflows"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the analyses of a workflow and of the workflows that it calls share."""

    tasks: Tasks
    called: Callable[[Task], Workflow | None]
    versions: Iterator[int]
    callers: tuple[str, ...] = ()


class WorkspaceFlow:
    """The analysis of one workflow. `findings` has at most one per step."""

    def __init__(self, workflow: Workflow, order: Order, around: Surroundings) -> None:
        self._workflow = workflow
        self._order = order
        self._around = around
        self._followed = roles.followed(workflow)
        self._last_uses = last_uses.LastUses(workflow, order)
        self._old_or_absent = last_uses.old_or_absent(workflow, order, around.tasks) & self._followed
        self._advice = Advice(order)
        self._cut = False
        self._ended: list[tuple[World, Value]] = []
        self.findings: dict[str, Finding] = {}

    def run(self, start: World | None = None) -> list[tuple[World, Value]]:
        """Every world in which the workflow completes, with the value of its output."""
        first = (start or World()).with_variables({name: Literal(one) for name, one in self._workflow.variables.items()})
        ends = self._sequence(self._workflow.tasks, [first])
        return [*((world, self._output(world)) for world in ends), *self._ended]

    def _output(self, world: World) -> Value:
        if self._workflow.outputs:
            return world.value(self._workflow.outputs)
        last = self._workflow.tasks[-1].ref if self._workflow.tasks else ""
        return world.outputs.get(last, Unknown(f"{last}.output"))

    def _sequence(self, tasks: Sequence[Task], worlds: list[World]) -> list[World]:
        for task in tasks:
            if not worlds:
                break
            worlds = self._few(self._task(task, worlds), task)
        return worlds

    def _few(self, worlds: list[World], task: Task) -> list[World]:
        shorter = (one.with_only(self._last_uses.needed(one.outputs, task)) for one in worlds)
        found = distinct(shorter, self._old_or_absent)
        if len(found) > MOST_WORLDS and not self._cut:
            self._cut = True
            self._report(task, _TOO_MANY, Level.WARNING)
        return found[:MOST_WORLDS]

    def _task(self, task: Task, worlds: list[World]) -> list[World]:
        if task.type in SWITCHES:
            started = [self._keep(one, task, self._unknown(task)) for one in worlds]
            return [end for case in (*task.cases.values(), task.default) for end in self._sequence(case, started)]
        if task.type in FORKS:
            return [end for one in worlds for end in self._fork(task, one)]
        if task.type in LOOPS:
            return self._loop(task, worlds)
        if task.type in CALLS and (called := self._callable(task)) is not None:
            return self._optional(task, worlds, self._call(task, called, worlds))
        if task.type == "TERMINATE":
            self._ended += [(one, one.value(task.inputs.get("workflowOutput"))) for one in worlds if _completes(task)]
            return []
        return self._optional(task, worlds, self._step(task, worlds))

    def _step(self, task: Task, worlds: list[World]) -> list[World]:
        if task.type in SCRIPTS:
            return [self._keep(one, task, scripts.output(task, one)) for one in worlds]
        if task.type == "SET_VARIABLE":
            return [one.with_variables({name: one.value(value) for name, value in task.inputs.items()}) for one in worlds]
        if task.type in JOINS:
            return [self._join(task, one) for one in worlds]
        if task.type in DYNAMIC_FORKS:
            finding = dynamic_forks.finding(task, worlds, self._workflow, self._around.tasks)
            if finding is not None:
                self.findings.setdefault(task.ref, finding)
        role = roles.role(task, self._around.tasks)
        if role is Role.NONE:
            return [self._keep(one, task, self._unknown(task)) for one in worlds]
        return self._use(task, role, worlds)

    def _optional(self, task: Task, before: list[World], after: list[World]) -> list[World]:
        """An optional step that failed has no output, and the branch is where it was."""
        return [*after, *(self._keep(one, task, NOTHING) for one in before)] if task.optional else after

    # steps with a workspace

    def _use(self, task: Task, role: Role, worlds: list[World]) -> list[World]:
        if "workspace" not in task.inputs:
            if "inputExpression" not in task.raw:
                self._report(task, self._advice.missing(task, worlds))
            return [self._after(task, role, one, None) for one in worlds]
        given = [(one, one.value(task.inputs["workspace"])) for one in worlds]
        self._check(task, role, given)
        if role is Role.JOIN:
            self._check_lanes(task, worlds)
        return [self._after(task, role, one, as_workspace(value)) for one, value in given]

    def _check(self, task: Task, role: Role, given: Sequence[tuple[World, Value]]) -> None:
        worlds = [world for world, _ in given]
        for world, value in given:
            workspace = as_workspace(value)
            if isinstance(value, Nothing):
                self._report(task, self._absent(task, worlds))
            elif workspace is None:
                self._report(task, self._advice.no_workspace(task, worlds))
            elif role is Role.READER:
                continue
            elif other := world.running.get(workspace.branch):
                self._report(task, self._advice.parallel(other))
            elif not world.is_current(workspace):
                self._report(task, self._advice.stale(task, worlds, workspace.branch))

    def _absent(self, task: Task, worlds: Sequence[World]) -> str:
        text = str(task.inputs["workspace"])
        root = text.removeprefix("${").partition(".")[0]
        why = ""
        if root in self._order.before and root not in self._order.before[task.ref].always:
            why = f" on some paths, because {root} does not always run before it: {self._order.why_not_before(root, task.ref)}"
        elif root in self._order.before:
            why = f" on some paths, because {root} is optional or has no such output"
        return self._advice.absent(task, worlds, text, why)

    def _check_lanes(self, task: Task, worlds: Sequence[World]) -> None:
        params: object = task.inputs.get("params")
        for world in worlds:
            lanes = world.value(cast("Mapping[str, Any]", params).get("lanes")) if isinstance(params, dict) else NOTHING
            for name, value in lanes.values.items() if isinstance(lanes, Fields) else ():
                lane = as_workspace(value)
                if isinstance(value, Nothing):
                    self._report(task, f"params.lanes.{name} is null; write the workspace that the lane's last writer left")
                elif lane is not None and not world.is_current(lane):
                    writer = world.heads[lane.branch].writer
                    advice = f'write "{name}": "${{{writer}.output.workspace}}"'
                    self._report(task, f"params.lanes.{name} is older than what {writer} wrote in that lane; {advice}")

    def _after(self, task: Task, role: Role, world: World, taken: Workspace | None) -> World:
        unknown = self._unknown(task)
        workspace = taken or Workspace(f"{task.ref}.output.workspace", 0)
        if role in {Role.WRITER, Role.JOIN}:
            workspace = Workspace(workspace.branch, next(self._around.versions))
            world = world.with_head(workspace.branch, workspace.version, task.ref)
        fields: dict[str, Value] = {"workspace": workspace}
        if role is Role.FORK:
            fields["result"] = Fields({"lanes": Unknown(f"{task.ref}#lanes", next(self._around.versions))})
        return self._keep(world, task, Fields(fields, unknown))

    # constructs

    def _fork(self, task: Task, start: World) -> list[World]:
        started = self._keep(start, task, self._unknown(task))
        lanes = [self._sequence(lane, [started]) for lane in task.lanes]
        for one, other in itertools.combinations(lanes, 2):
            self._check_parallel(started, one, other)
        ends = [started]
        for lane in lanes:
            ends = self._few([joined(started, (end, one)) for end in ends for one in lane], task)
        return [replace(end, running={**end.running, **_writers(started, end)}) for end in ends]

    def _check_parallel(self, start: World, lane: Sequence[World], other: Sequence[World]) -> None:
        first, second = ({b: w for world in worlds for b, w in _writers(start, world).items()} for worlds in (lane, other))
        for branch in first.keys() & second.keys():
            by_ref = {task.ref: task for task in self._workflow.walk()}
            self._report(by_ref[second[branch]], self._advice.parallel(first[branch]))

    def _join(self, task: Task, world: World) -> World:
        done = self._order.waited_for.get(task.ref, frozenset())
        running = {branch: ref for branch, ref in world.running.items() if ref not in done}
        lanes = {ref: world.outputs.get(ref, Unknown(f"{ref}.output")) for ref in task.join_on}
        return self._keep(replace(world, running=running), task, Fields(lanes, self._unknown(task)))

    def _loop(self, task: Task, worlds: list[World]) -> list[World]:
        started = [self._keep(one, task, self._unknown(task)) for one in worlds]
        ends: list[World] = []
        for _ in range(_MOST_ITERATIONS):
            known = {end.key(self._old_or_absent) for end in ends}
            started = [end for end in self._sequence(task.body, started) if end.key(self._old_or_absent) not in known]
            if not started:
                break
            ends += started
        return ends

    # sub-workflows

    def _callable(self, task: Task) -> Workflow | None:
        called = self._around.called(task)
        if called is None or called.name in self._around.callers or len(self._around.callers) > _MOST_NESTED:
            return None
        return called

    def _call(self, task: Task, called: Workflow, worlds: list[World]) -> list[World]:
        around = replace(self._around, callers=(*self._around.callers, self._workflow.name, called.name))
        order = Order(called)
        alone = _refs_found_alone(called, around)
        ends: list[World] = []
        for world in worlds:
            flow = WorkspaceFlow(called, order, around)
            template = called.raw.get("inputTemplate")
            given = world.value({**(template if isinstance(template, dict) else {}), **task.inputs})
            inside = World(
                Fields({}) if isinstance(given, Literal) and not task.inputs else given, world.heads, running=world.running
            )
            for end, output in flow.run(inside):
                moved = {name: head for name, head in end.heads.items() if world.heads.get(name) != head}
                heads = {**world.heads, **{name: replace(head, writer=task.ref) for name, head in moved.items()}}
                ends.append(self._keep(replace(world, heads=heads), task, output))
            for ref in flow.findings.keys() - alone:
                advice = self._advice.next(task, worlds)
                self._report(
                    task, f"its workflow {called.name} cannot continue from that workspace: {flow.findings[ref]}; {advice}"
                )
        return ends

    def _unknown(self, task: Task) -> Unknown:
        return Unknown(f"{task.ref}.output", next(self._around.versions))

    def _keep(self, world: World, task: Task, output: Value) -> World:
        return world.with_output(task.ref, output) if task.ref in self._followed else world

    def _report(self, task: Task, text: str, level: Level = Level.ERROR) -> None:
        self.findings.setdefault(task.ref, Finding(task.ref, text, level))


def _completes(task: Task) -> bool:
    return str(task.inputs.get("terminationStatus", "COMPLETED")) != "FAILED"


def _writers(start: World, end: World) -> dict[str, str]:
    """By branch: who wrote between the two."""
    return {name: head.writer for name, head in end.heads.items() if start.heads.get(name) != head}


def _refs_found_alone(called: Workflow, around: Surroundings) -> frozenset[str]:
    """The steps of a workflow that are wrong whatever it is given: they are reported for the workflow itself."""
    flow = WorkspaceFlow(called, Order(called), around)
    flow.run()
    return frozenset(flow.findings)
