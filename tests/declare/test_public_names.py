"""Importing perago: quick, without pydantic or pyspark, and with everything the manual names."""

import subprocess
import sys

import pytest

import perago

NAMES = [
    *("task", "WorkspaceSpec", "SparkWorkspace", "require_file", "require_dir", "require_glob", "forbid_glob"),
    *("TaskControls", "RetryPolicy", "TimeoutPolicy", "ExecutionLimits", "PublishBudget", "TaskFailed", "TaskTerminalError"),
    *("TaskDefinitionError", "RuntimeConfigError", "TaskInputError", "GuardrailViolation", "PreGuardrailViolation"),
    *("PostGuardrailViolation", "StaleAttemptError", "PublishFenceError"),
]


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_the_manual_is_exported_by_perago(name: str) -> None:
    assert name in perago.__all__
    assert getattr(perago, name).__name__.replace("_", "").lower() == name.replace("_", "").lower()


def test_neither_pydantic_nor_pyspark_is_loaded() -> None:
    heavy = "('pydantic', 'pydantic_core', 'pyspark', 'wcmatch', 'typer', 'rich', 'urllib3')"
    assert run(f"import sys, perago; print([m for m in {heavy} if m in sys.modules])") == "[]"


def test_declaring_a_spark_task_needs_no_pyspark() -> None:
    code = """
import sys
sys.modules["pyspark"] = None
from pydantic import BaseModel
from perago import SparkWorkspace, WorkspaceSpec, task
class P(BaseModel):
    n: int
@task(name="t", owner_email="a@example.com", workspace=WorkspaceSpec())
def body(workspace: SparkWorkspace, params: P) -> P:
    return params
from perago.declare.task import declaration_of
print(declaration_of(body).kind.value)
"""
    assert run(code) == "spark"


def test_importing_costs_less_than_a_hundred_milliseconds_more_than_pydantic() -> None:
    code = "import time, pydantic; began = time.process_time(); import perago; print(time.process_time() - began)"
    assert min(float(run(code)) for _ in range(3)) < 0.1
