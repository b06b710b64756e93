"""Which steps have run before each task: on every path, or on some.

Workflow variables that a SET_VARIABLE sets are names in the same sets, as `workflow.variables.NAME`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from perago.workflow_check.definition import FORKS, JOINS, LOOPS, SWITCHES, Task, Workflow, walk

_NAMES = frozenset[str]


@dataclass(frozen=True, slots=True)
class Before:
    """What has completed at one place of a workflow."""

    always: _NAMES = frozenset()
    maybe: _NAMES = frozenset()
    """On some path, or at some moment; contains `always`."""
    ended: bool = False
    """A TERMINATE has run: what follows does not."""

    def then(self, names: _NAMES) -> "Before":
        return replace(self, always=self.always | names, maybe=self.maybe | names)

    def possibly(self, names: _NAMES) -> "Before":
        return replace(self, maybe=self.maybe | names)


@dataclass(frozen=True, slots=True)
class Container:
    """The construct around a task, and in which part of it the task is."""

    construct: Task
    block: str


@dataclass(frozen=True, slots=True)
class _LaneStep:
    task: Task
    refs: _NAMES
    before: Before
    after: Before


def variable(name: str) -> str:
    return f"workflow.variables.{name}"


class Order:
    """The analysis of one workflow."""

    def __init__(self, workflow: Workflow) -> None:
        self.before: dict[str, Before] = {}
        self.containers: dict[str, tuple[Container, ...]] = {}
        self.waited_for: dict[str, _NAMES] = {}
        """By JOIN: the steps that have completed when it has."""
        self._open: list[list[_LaneStep]] = []
        self._locate(workflow.tasks, ())
        initial = frozenset(variable(name) for name in workflow.variables)
        end = self._sequence(workflow.tasks, Before(initial, initial))
        self.end = end.possibly(names_set(workflow.tasks))

    def why_not_before(self, name: str, user: str) -> str:
        """Why `name` does not run before `user` on every path."""
        theirs, ours = self.containers.get(name, ()), self.containers.get(user, ())
        shared = next((i for i, pair in enumerate(zip(theirs, ours, strict=False)) if pair[0] != pair[1]), None)
        if shared is not None and theirs[shared].construct.ref == ours[shared].construct.ref:
            return _apart(theirs[shared], ours[shared])
        for container in theirs[min(len(ours), len(theirs)) if shared is None else shared :]:
            if container.construct.type in SWITCHES:
                return f"it only runs in {container.block} of {container.construct.ref}"
            if container.construct.type in FORKS and name in self.before[user].maybe:
                return f"no JOIN has waited for its lane of {container.construct.ref}"
        if name in self.before[user].maybe:
            return "it has not run in the first iteration"
        return "it refers to itself" if name == user else "it runs later"

    def _locate(self, tasks: Sequence[Task], around: tuple[Container, ...]) -> None:
        for task in tasks:
            self.containers[task.ref] = around
            for block, inside in task.blocks():
                self._locate(inside, (*around, Container(task, block)))

    def _sequence(self, tasks: Sequence[Task], state: Before) -> Before:
        for task in tasks:
            state = self._task(task, state)
        return state

    def _task(self, task: Task, state: Before) -> Before:
        self.before[task.ref] = state
        own = names_of(task)
        if task.type in SWITCHES:
            return self._switch(task, state.then(own))
        if task.type in FORKS:
            return self._fork(task, state.then(own))
        if task.type in LOOPS:
            return self._loop(task, state, own)
        if task.type in JOINS:
            return self._join(task, state).then(own)
        return replace(state.then(own), ended=state.ended or task.type == "TERMINATE")

    def _switch(self, task: Task, state: Before) -> Before:
        ends = [self._sequence(case, state) for case in (*task.cases.values(), task.default)]
        going_on = [end for end in ends if not end.ended] or ends
        always = frozenset[str].intersection(*(end.always for end in going_on))
        maybe = frozenset[str].union(*(end.maybe for end in ends))
        return Before(always, maybe, state.ended or all(end.ended for end in ends))

    def _fork(self, task: Task, state: Before) -> Before:
        for lane in task.lanes:
            steps: list[_LaneStep] = []
            now = state
            for one in lane:
                after = self._task(one, now)
                steps.append(_LaneStep(one, frozenset(inside.ref for inside in walk([one])), now, after))
                now = after
            self._open.append(steps)
        return state

    def _loop(self, task: Task, state: Before, own: _NAMES) -> Before:
        inside = state.then(own).possibly(names_set(task.body))
        after = self._sequence(task.body, inside)
        # Conductor evaluates the loop's own input again after each iteration.
        self.before[task.ref] = after
        return after

    def _join(self, task: Task, state: Before) -> Before:
        still_open: list[list[_LaneStep]] = []
        for lane in self._open:
            last = max((i for i, step in enumerate(lane) if step.refs & set(task.join_on)), default=None)
            lane_names = names_set([step.task for step in lane])
            state = state.possibly(lane_names)
            if last is None:
                still_open.append(lane)
                continue
            if task.type == "JOIN":
                state = state.then(_waited_for(lane[last], task.join_on))
                self._record_waited_for(task, lane[: last + 1])
            if last < len(lane) - 1:
                still_open.append(lane[last + 1 :])
        self._open = still_open
        self.before[task.ref] = state
        return state

    def _record_waited_for(self, task: Task, lane: Sequence[_LaneStep]) -> None:
        earlier, last = lane[:-1], lane[-1]
        refs = frozenset(ref for step in earlier for ref in step.refs)
        refs |= {last.task.ref} if _is_bare_switch(last, task.join_on) else last.refs
        self.waited_for[task.ref] = self.waited_for.get(task.ref, frozenset()) | refs


def _is_bare_switch(step: _LaneStep, join_on: Sequence[str]) -> bool:
    """A SWITCH completes at once: a JOIN on it does not wait for the tasks of its cases."""
    return step.task.type in SWITCHES and not (step.refs - {step.task.ref}) & set(join_on) and len(step.refs) > 1


def _waited_for(step: _LaneStep, join_on: Sequence[str]) -> _NAMES:
    if _is_bare_switch(step, join_on):
        return step.before.always | {step.task.ref}
    return step.after.always


def _apart(one: Container, other: Container) -> str:
    if one.construct.type in SWITCHES:
        return f"it runs in {one.block} of {one.construct.ref}, and this task in {other.block}"
    return f"it runs in another lane of {one.construct.ref} at the same time"


def names_of(task: Task) -> _NAMES:
    """The names that a task adds when it completes."""
    return frozenset({task.ref, *_variables(task)})


def names_set(tasks: Sequence[Task]) -> _NAMES:
    return frozenset(name for task in walk(tasks) for name in names_of(task))


def _variables(task: Task) -> Iterator[str]:
    if task.type == "SET_VARIABLE":
        yield from map(variable, task.inputs)
