"""A Spark task on a machine without pyspark is refused, with the command that installs it."""

import importlib.util
import sys
import tomllib
from pathlib import Path

import pytest

from perago.declare import module_loader, spark_workspace
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
def test_error_names_the_module_and_the_install_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str) -> None:
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
    with pytest.raises(TaskDefinitionError, match=rf"{name}: uses Spark, .* run: pip install 'pyspark>=4.2,<4.3'$"):
        module_loader.load(name)


def test_packages_of_the_hints_are_those_of_the_extras() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert list(spark_workspace.SPARK_PACKAGES) == project["optional-dependencies"]["spark"]
    assert list(spark_workspace.CONNECT_PACKAGES) == project["optional-dependencies"]["connect"]
