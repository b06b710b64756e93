"""What an executor tells the supervisor about its tasks."""

from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel

from perago import WorkspaceSpec, ipc, task
from perago.declare import taskdef
from perago.declare.task import declaration_of
from perago.executor import main


class Params(BaseModel):
    pass


class Output(BaseModel):
    pass


@task(name="t.plain", owner_email="a@example.com")
def plain(params: Params) -> Output:
    return Output()


@task(name="t.files", owner_email="a@example.com", workspace=WorkspaceSpec())
def files(workspace: Path, params: Params) -> Output:
    return Output()


def facts(function: Callable[..., object]) -> ipc.TaskFacts:
    declaration = declaration_of(function)
    assert declaration is not None
    told = main.facts(declaration)
    assert told.definition == taskdef.of(declaration)
    return told


def test_facts_tell_what_the_supervisor_must_know_without_importing_the_module() -> None:
    told = facts(plain)
    assert (told.module, told.task_type, told.needs_lake, told.is_built_in) == (__name__, "t.plain", False, False)
    assert told.heartbeat_seconds > 0
    assert facts(files).needs_lake
    assert facts(files).completion_seconds > 0
