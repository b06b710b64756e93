"""Kept attempts as an operator names them: by a task id, by a run, or by a run and one of its steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from perago.attempt import kept_gc
from perago.errors import LakeNotFound, SetupError
from perago.model import ChangeCounts, CommitId, Repository, TaskId
from perago.operate import runs
from perago.operate.servers import Servers
from perago.protocol import commit_labels, kept_labels, kept_names

Json = Mapping[str, Any]

_WHOLE_ID = 36


@dataclass(frozen=True, slots=True)
class KeptAttempt:
    """What the body left, and why its attempt failed."""

    repository: Repository
    name: kept_names.KeptName
    commit: CommitId
    labels: kept_labels.KeptLabels
    counts: ChangeCounts | None
    """How much the body changed of the input."""


def find(servers: Servers, text: str) -> KeptAttempt:
    """The one that `TASK`, `RUN` or `RUN/STEP` names; of several attempts of one step the newest. `SetupError` otherwise."""
    run, _, step = text.partition("/")
    # What Conductor does not know as a task may be the id of a run.
    task = None if step or len(text) < _WHOLE_ID else servers.workflows.task(TaskId(text))
    tasks = [task] if task is not None else _tasks_of_run(servers, run, step)
    found = [pair for repository in _repositories(tasks) for pair in _of_tasks(servers, repository, tasks)]
    if not found:
        raise SetupError(f"nothing is kept of {text}: {_why(tasks)}")
    steps = {(repository, name.reference_name) for repository, name in found}
    if len(steps) > 1:
        listed = ", ".join(f"{name.task_id} (step {name.reference_name})" for _, name in found)
        raise SetupError(f"{text} has kept attempts of several steps; name one of these tasks: {listed}")
    return _read(servers, *max(found, key=lambda pair: (pair[1].made_at or 0, pair[1].retry_count)))


def _tasks_of_run(servers: Servers, text: str, step: str) -> Sequence[Json]:
    run = runs.find(servers.workflows, text)
    found = [task for one in runs.with_called(servers.workflows, run) for task in runs.tasks_in(one)]
    if not found:
        raise SetupError(
            f"Conductor at {servers.workflows.url} knows no task and no run {text}; perago runs lists the newest runs"
        )
    named = [task for task in found if step in {"", *_names(task)}]
    if not named:
        known = ", ".join(sorted({str(task.get("referenceTaskName")) for task in found}))
        raise SetupError(f"run {run} has no step {step}; it has {known}")
    return named


def _names(task: Json) -> set[str]:
    """The reference name; in a loop also the one without the number of the iteration."""
    reference = str(task.get("referenceTaskName"))
    return {reference, reference.removesuffix(f"__{task.get('iteration')}")}


def _repositories(tasks: Sequence[Json]) -> Sequence[Repository]:
    given = (_workspace(task).get("repository") for task in tasks)
    return [Repository(name) for name in dict.fromkeys(given) if isinstance(name, str) and name]


def _workspace(task: Json) -> Json:
    found = cast("Json", task.get("inputData") or {}).get("workspace")
    return cast("Json", found) if isinstance(found, Mapping) else {}


def _of_tasks(servers: Servers, repository: Repository, tasks: Sequence[Json]) -> list[tuple[Repository, kept_names.KeptName]]:
    ids = [TaskId(str(task.get("taskId"))) for task in tasks]
    try:
        names = list(kept_gc.names(servers.lake, repository))
    except LakeNotFound as error:
        raise SetupError(f"repository {repository} does not exist in lakeFS at {servers.settings.url}") from error
    return [(repository, name) for name in names if any(name.is_of(task_id) for task_id in ids)]


def _why(tasks: Sequence[Json]) -> str:
    if not any(str(task.get("status", "")).startswith("FAILED") for task in tasks):
        return "none of its attempts failed"
    return (
        "only an attempt that fails its post checks is kept, if its worker has PERAGO_KEEP_FAILED set, and it is deleted after "
        "that time"
    )


def _read(servers: Servers, repository: Repository, name: kept_names.KeptName) -> KeptAttempt:
    try:
        commit = servers.lake.head(repository, name.branch)
    except LakeNotFound as error:
        raise SetupError(f"{name.branch} was deleted just now: its time is over") from error
    labels = kept_labels.read(commit.metadata)
    if labels is None:
        raise SetupError(f"{name.branch} is incomplete: its worker still uploads to it, or died before it was finished")
    return KeptAttempt(repository, name, commit.id, labels, commit_labels.read_counts(commit.metadata))
