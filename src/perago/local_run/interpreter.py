"""Runs the nodes of a pipeline one after another, and hands each the workspace that the one before it left."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from perago.builtin import fork, join
from perago.declare import module_loader
from perago.declare.task import TaskDeclaration
from perago.errors import TaskInputError
from perago.local_run import changes, table_changes, table_files
from perago.local_run.answers import Answers
from perago.local_run.local_attempts import AttemptRun, LocalAttempts
from perago.local_run.step_run import StepFailed, StepRun, Watch
from perago.model import BranchName, CommitId, Repository, WorkspaceRef
from perago.pipelines import conditions, graph, inputs, reference_names

_FORK, _JOIN = module_loader.only_task(fork), module_loader.only_task(join)


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where in which pipeline a node runs."""

    known: conditions.Known
    within: str = ""
    """The calls around it, each with a `/` behind it."""
    module: str = ""
    iteration: str = ""
    """What Conductor appends to reference names inside a loop."""

    def ref(self, ref: str) -> str:
        return f"{self.within}{ref}{self.iteration}"


@dataclass(slots=True)
class Interpreter:
    attempts: LocalAttempts
    watch: Watch
    answers: Answers = field(default_factory=Answers)
    notes: list[str] = field(default_factory=list[str])
    """What was left out, one line each."""

    def run(
        self, pipeline: graph.Pipeline, given: Mapping[str, Any], workspace: WorkspaceRef, within: str = ""
    ) -> tuple[dict[str, Any], WorkspaceRef]:
        """The outputs and the final workspace; `StepFailed` where a step ends the pipeline."""
        frame = _Frame(conditions.Known(inputs.with_defaults(pipeline, given)), within, pipeline.module)
        after = self._nodes(pipeline.nodes, frame, workspace)
        return _resolved(pipeline.outputs, frame), after

    def _nodes(self, nodes: Sequence[graph.Node], frame: _Frame, workspace: WorkspaceRef) -> WorkspaceRef:
        for node in nodes:
            workspace = self._node(node, frame, workspace)
        return workspace

    def _node(self, node: graph.Node, frame: _Frame, workspace: WorkspaceRef) -> WorkspaceRef:
        match node:
            case graph.Step():
                after = self._step(node, frame, workspace)
            case graph.Fork():
                after = self._fork(node, frame, workspace)
            case graph.Each():
                after = self._each(node, frame, workspace)
            case graph.When():
                taken = node.then if conditions.holds(node.condition, frame.known) else node.otherwise
                after = self._nodes(taken, frame, workspace)
            case graph.Repeat():
                after = self._repeat(node, frame, workspace)
            case graph.Call():
                after = self._call(node, frame, workspace)
            case graph.Wait():
                self.notes.append(f"{frame.ref(node.ref)}: a local run does not wait")
                after = workspace
            case graph.Human():
                after = self._human(node, frame, workspace)
        return after

    def _step(self, node: graph.Step, frame: _Frame, workspace: WorkspaceRef) -> WorkspaceRef:
        # An earlier iteration's result must not be seen if this attempt fails.
        frame.known.results.pop(node.ref, None)
        done = self._attempt(frame.ref(node.ref), node.task, workspace, _resolved(node.params, frame), optional=node.optional)
        if not done.ok:
            return workspace
        frame.known.results[node.ref] = done.result
        return _left_by(done.attempt, workspace)

    def _human(self, node: graph.Human, frame: _Frame, workspace: WorkspaceRef) -> WorkspaceRef:
        names = [frame.ref(node.ref), f"{frame.within}{node.ref}", f"{node.ref}{frame.iteration}", node.ref]
        task = self.answers.declaration(node, names, frame.module)
        done = self._attempt(frame.ref(node.ref), task, workspace, _resolved(node.params, frame))
        frame.known.results[node.ref] = done.result
        return _left_by(done.attempt, workspace)

    def _fork(self, node: graph.Fork, frame: _Frame, workspace: WorkspaceRef) -> WorkspaceRef:
        writing = [lane.name for lane in node.lanes if lane.writes]
        branches = self._begin(frame.ref(reference_names.begin(node.ref)), workspace, {"lanes": writing}) if writing else {}
        left: dict[str, dict[str, str]] = {}
        for lane in node.lanes:
            left[lane.name] = self._nodes(lane.nodes, frame, branches.get(lane.name, workspace)).as_json()
        if not writing:
            return workspace
        params = {"lanes": {name: left[name] for name in writing}}
        return self._end(frame.ref(reference_names.end(node.ref)), workspace, params)

    def _each(self, node: graph.Each, frame: _Frame, workspace: WorkspaceRef) -> WorkspaceRef:
        items = self._items(node, frame, workspace)
        branches = self._begin(frame.ref(reference_names.begin(node.ref)), workspace, {"count_of": items}) if node.writes else {}
        outputs: list[Any] = []
        for index, item in enumerate(items):
            lane = replace(frame, known=replace(frame.known, item=item))
            ref = frame.ref(reference_names.lane(node.ref, index))
            done = self._attempt(ref, node.task, branches.get(str(index), workspace), _resolved(node.params, lane))
            outputs.append(done.attempt.outcome.output)
        frame.known.results[node.ref] = [output["result"] for output in outputs]
        if not node.writes:
            return workspace
        params = {"lanes": {str(index): output["workspace"] for index, output in enumerate(outputs)}}
        return self._end(frame.ref(reference_names.end(node.ref)), workspace, params)

    def _items(self, node: graph.Each, frame: _Frame, workspace: WorkspaceRef) -> list[Any]:
        items = conditions.resolve(node.items, frame.known)
        if isinstance(items, list):
            return cast("list[Any]", items)
        error = TaskInputError(f"the items of {node.ref} are not a list: {type(items).__name__}")
        self.watch.begins(frame.ref(node.ref), node.task)
        refused = AttemptRun.refused(error)
        raise self._failed(StepRun(frame.ref(node.ref), node.task.name, False, refused, workspace.ref, workspace.ref))

    def _repeat(self, node: graph.Repeat, frame: _Frame, workspace: WorkspaceRef) -> WorkspaceRef:
        for iteration in range(1, node.at_most + 1):
            frame.known.iterations[node.ref] = iteration
            workspace = self._nodes(node.nodes, replace(frame, iteration=f"__{iteration}"), workspace)
            if node.until is not None and conditions.holds(node.until, frame.known):
                break
        return workspace

    def _call(self, node: graph.Call, frame: _Frame, workspace: WorkspaceRef) -> WorkspaceRef:
        given = _resolved(node.inputs, frame)
        outputs, workspace = self.run(node.pipeline, given, workspace, f"{frame.ref(node.ref)}/")
        frame.known.results[node.ref] = outputs
        return workspace

    def _begin(self, ref: str, workspace: WorkspaceRef, params: Mapping[str, Any]) -> dict[str, WorkspaceRef]:
        """The workspaces of the lanes, each on a branch of its own."""
        made = self._attempt(ref, _FORK, workspace, params).result or {}
        return {name: _workspace(given) for name, given in made["lanes"].items()}

    def _end(self, ref: str, workspace: WorkspaceRef, params: Mapping[str, Any]) -> WorkspaceRef:
        """The workspace with what all lanes changed."""
        return _left_by(self._attempt(ref, _JOIN, workspace, params).attempt, workspace)

    def _attempt(
        self, ref: str, task: TaskDeclaration, workspace: WorkspaceRef, params: Mapping[str, Any], *, optional: bool = False
    ) -> StepRun:
        """`StepFailed` if it fails and is not optional."""
        self.watch.begins(ref, task)
        attempt = self.attempts.run(task, workspace, params, ref)
        commits = workspace.ref, _left_by(attempt, workspace).ref
        changed = () if len({*commits}) == 1 else changes.between(*self.attempts.store.differing(*commits), "")
        done = StepRun(ref, task.name, optional, attempt, *commits, changed, self._tables(changed, *commits))
        if not done.ok and not optional:
            raise self._failed(done)
        self.watch.ended(done)
        return done

    def _tables(
        self, changed: Sequence[changes.FileChange], before: CommitId, after: CommitId
    ) -> tuple[table_changes.TableChange, ...]:
        if not any(table_files.key_of(change.path) for change in changed):
            return ()
        return table_changes.between(self.attempts.store.held(before), self.attempts.store.held(after), "")

    def _failed(self, step: StepRun) -> StepFailed:
        self.watch.ended(step)
        return StepFailed(step)


def _resolved(values: Mapping[str, graph.Value], frame: _Frame) -> dict[str, Any]:
    return {name: conditions.resolve(value, frame.known) for name, value in values.items()}


def _left_by(attempt: AttemptRun, before: WorkspaceRef) -> WorkspaceRef:
    output = attempt.outcome.output
    return before if output is None or "workspace" not in output else _workspace(cast("Mapping[str, str]", output["workspace"]))


def _workspace(given: Mapping[str, str]) -> WorkspaceRef:
    return WorkspaceRef(Repository(given["repository"]), BranchName(given["branch"]), CommitId(given["ref"]))
