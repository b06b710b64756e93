"""A Spark task on a machine without pyspark is refused, with the command that installs it."""

import importlib.util
import sys
from pathlib import Path

import pytest

from perago.declare import module_loader
from perago.errors import TaskDefinitionError

TASK = """
from pydantic import BaseModel
from perago import SparkWorkspace, WorkspaceSpec, task

class Model(BaseModel):
    pass

@task(name="t", owner_email="a@example.com", workspace=WorkspaceSpec())
def body(workspace: SparkWorkspace, params: Model) -> Model:
    return params
"""


@pytest.mark.parametrize("first", ["", "from pyspark.sql import functions\n"])
def test_the_refusal_names_the_module_and_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str) -> None:
    name = f"spark_task_{len(first)}"
    (tmp_path / f"{name}.py").write_text(first + TASK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for loaded in [found for found in sys.modules if found.partition(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, loaded)
    find = importlib.util.find_spec
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, package=None: None if name == "pyspark" else find(name, package)
    )
    with pytest.raises(TaskDefinitionError, match=rf"{name}: works on Spark, .* run: pip install 'perago\[spark\]'"):
        module_loader.load(name)
