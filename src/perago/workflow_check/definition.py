"""Conductor's workflow JSON as values. Reads what it can and records the rest as findings, because the text is a person's."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from perago.workflow_check.findings import Finding

Json = dict[str, Any]

FORKS = frozenset({"FORK_JOIN", "FORK"})
DYNAMIC_FORKS = frozenset({"FORK_JOIN_DYNAMIC"})
JOINS = frozenset({"JOIN", "EXCLUSIVE_JOIN"})
SWITCHES = frozenset({"SWITCH", "DECISION"})
LOOPS = frozenset({"DO_WHILE", "DO_WHILE_TASK"})
CALLS = frozenset({"SUB_WORKFLOW"})
SCRIPTS = frozenset({"JSON_JQ_TRANSFORM", "INLINE", "LAMBDA", "JSON_JQ_TRANSFORM_STRING"})
"""Tasks that compute a value from their inputs."""
_OTHER_SYSTEM = frozenset(
    {
        *("SET_VARIABLE", "TERMINATE", "WAIT", "HUMAN", "HTTP", "EVENT", "KAFKA_PUBLISH", "START_WORKFLOW", "NOOP"),
        *("WAIT_FOR_WEBHOOK", "HTTP_POLL", "BUSINESS_RULE", "GET_DOCUMENT", "GET_SIGNED_JWT", "UPDATE_SECRET", "JDBC"),
        *("LIST_FILES", "PARSE_DOCUMENT", "QUERY_PROCESSOR", "GET_WORKFLOW", "UPDATE_TASK", "TERMINATE_WORKFLOW", "OPS_GENIE"),
    }
)
SYSTEM = FORKS | DYNAMIC_FORKS | JOINS | SWITCHES | LOOPS | CALLS | SCRIPTS | _OTHER_SYSTEM
"""Types that Conductor runs itself. Any other type is work for a worker, as SIMPLE and DYNAMIC are."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task of a definition: a step, or a construct with tasks inside it."""

    ref: str
    name: str
    type: str
    inputs: Mapping[str, Any]
    raw: Mapping[str, Any]
    optional: bool = False
    lanes: Sequence[Sequence["Task"]] = ()
    cases: Mapping[str, Sequence["Task"]] = field(default_factory=dict[str, Sequence["Task"]])
    """Of a SWITCH, without the default case."""
    default: Sequence["Task"] = ()
    body: Sequence["Task"] = ()
    join_on: Sequence[str] = ()
    calls: "str | Workflow | None" = None
    """The name of a sub-workflow, or its definition where the task contains it. None: only a run knows."""

    @property
    def is_worker_task(self) -> bool:
        return self.type not in SYSTEM

    @property
    def has_dynamic_name(self) -> bool:
        return self.type == "DYNAMIC"

    def blocks(self) -> Iterator[tuple[str, Sequence["Task"]]]:
        """The sequences of tasks inside it, each with a description of its place."""
        for number, lane in enumerate(self.lanes, start=1):
            yield f"lane {number}", lane
        for name, case in self.cases.items():
            yield f"case {name!r}", case
        yield "the default case", self.default
        yield "the loop", self.body


@dataclass(frozen=True, slots=True)
class Workflow:
    name: str
    tasks: Sequence[Task]
    outputs: Mapping[str, Any]
    inputs: Sequence[str]
    """The declared names; empty where none are declared, which allows all."""
    variables: Mapping[str, Any]
    raw: Mapping[str, Any]
    problems: Sequence[Finding] = ()

    def walk(self) -> Iterator[Task]:
        return walk(self.tasks)


def walk(tasks: Sequence[Task]) -> Iterator[Task]:
    """Every task, those inside another directly after it. Does not enter sub-workflows."""
    for task in tasks:
        yield task
        for _, block in task.blocks():
            yield from walk(block)


def inline_definitions(workflow: Workflow) -> Iterator[Workflow]:
    """The sub-workflows whose definitions are inside this one, at any depth."""
    for task in workflow.walk():
        if isinstance(task.calls, Workflow):
            yield task.calls
            yield from inline_definitions(task.calls)


def definitions(document: object) -> list[Workflow]:
    """Every workflow of a document: one definition, a list of them, or an object that contains them. Empty if there is none."""
    if isinstance(document, list):
        found = cast("list[object]", document)
        if found and all(_is_task(one) for one in found):
            return [_workflow({"tasks": found})]
        return [workflow for one in found for workflow in definitions(one)]
    if not isinstance(document, dict):
        return []
    fields = cast("Json", document)
    if isinstance(fields.get("tasks"), list):
        return [_workflow(fields)]
    return [workflow for one in fields.values() for workflow in definitions(one)]


def _is_task(value: object) -> bool:
    return isinstance(value, dict) and "taskReferenceName" in value


def _workflow(fields: Json) -> Workflow:
    problems: list[Finding] = []
    tasks = _tasks(fields.get("tasks"), "tasks", problems)
    counts: dict[str, int] = {}
    for task in walk(tasks):
        counts[task.ref] = counts.get(task.ref, 0) + 1
    problems += [
        Finding(ref, "its taskReferenceName is used more than once; write a different one for each task")
        for ref, count in counts.items()
        if count > 1
    ]
    declared = fields.get("inputParameters")
    template = _mapping(fields.get("inputTemplate"))
    names = [one for one in cast("list[object]", declared) if isinstance(one, str)] if isinstance(declared, list) else []
    return Workflow(
        name=str(fields.get("name") or "workflow"),
        tasks=tasks,
        outputs=_mapping(fields.get("outputParameters")),
        inputs=[*names, *template] if names else [],
        variables=_mapping(fields.get("variables")),
        raw=fields,
        problems=problems,
    )


def _tasks(value: object, where: str, problems: list[Finding], ref: str | None = None) -> list[Task]:
    if value is None:
        return []
    if not isinstance(value, list):
        problems.append(Finding(ref, f"{where} is not a list; write a list of tasks"))
        return []
    found = [_task(one, where, problems, ref) for one in cast("list[object]", value)]
    return [task for task in found if task is not None]


def _task(value: object, where: str, problems: list[Finding], parent: str | None) -> Task | None:
    fields = _mapping(value)
    ref = fields.get("taskReferenceName")
    if not isinstance(ref, str) or not ref:
        problems.append(Finding(parent, f"{where} contains a task without a name; write a taskReferenceName"))
        return None
    kind = fields.get("type")
    kind = str(kind) if kind else "SIMPLE"
    join_on = fields.get("joinOn")
    return Task(
        ref=ref,
        name=str(fields.get("name") or ref),
        type=kind,
        inputs=_mapping(fields.get("inputParameters")),
        raw=fields,
        optional=fields.get("optional") is True,
        lanes=_lanes(fields.get("forkTasks"), problems, ref) if kind in FORKS else (),
        cases=_cases(fields.get("decisionCases"), problems, ref) if kind in SWITCHES else {},
        default=_tasks(fields.get("defaultCase"), "defaultCase", problems, ref) if kind in SWITCHES else (),
        body=_tasks(fields.get("loopOver"), "loopOver", problems, ref) if kind in LOOPS else (),
        join_on=[str(one) for one in cast("list[object]", join_on)] if isinstance(join_on, list) else (),
        calls=_called(fields) if kind in CALLS else None,
    )


def _lanes(value: object, problems: list[Finding], ref: str) -> list[list[Task]]:
    if value is not None and not isinstance(value, list):
        problems.append(Finding(ref, "forkTasks is not a list; write a list of lanes, each a list of tasks"))
        return []
    return [_tasks(lane, "forkTasks", problems, ref) for lane in cast("list[object]", value or [])]


def _cases(value: object, problems: list[Finding], ref: str) -> dict[str, Sequence[Task]]:
    if not isinstance(value, dict | None):
        problems.append(Finding(ref, "decisionCases is not an object; write the tasks of each case under its value"))
        return {}
    return {name: _tasks(case, "decisionCases", problems, ref) for name, case in _mapping(cast("object", value)).items()}


def _called(fields: Json) -> "str | Workflow | None":
    called = _mapping(fields.get("subWorkflowParam"))
    inside = called.get("workflowDefinition")
    if isinstance(inside, dict) and isinstance(cast("Json", inside).get("tasks"), list):
        return _workflow(cast("Json", inside))
    name = called.get("name") or _mapping(fields.get("inputParameters")).get("subWorkflowName")
    return name if isinstance(name, str) and "${" not in name else None


def _mapping(value: object) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}
