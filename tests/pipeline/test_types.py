"""What a type checker in strict mode says about pipelines."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

TASKS = """
from pathlib import Path
from pydantic import BaseModel
from perago import SparkWorkspace, WorkspaceSpec, task

class Params(BaseModel):
    scale: float
    name: str = ""

class Result(BaseModel):
    orders: int

@task(name="ingest", owner_email="a@example.com", workspace=WorkspaceSpec())
def ingest(workspace: Path, params: Params) -> Result: ...

@task(name="spark", owner_email="a@example.com", workspace=WorkspaceSpec())
def spark(workspace: SparkWorkspace, params: Params) -> Result: ...

@task(name="plain", owner_email="a@example.com")
def plain(params: Params) -> Result: ...
"""

PIPELINE = """
from pydantic import BaseModel
from perago import Flow, pipeline
from typing_tasks import Params, ingest, plain, spark

class Inputs(BaseModel):
    scale: float = 1.0
    days: list[int] = []

class Summary(BaseModel):
    total: int

@pipeline(name="other", owner_email="a@example.com")
def other(flow: Flow) -> Summary:
    return Summary(total=flow.step(plain, scale=1).orders)

@pipeline(name="shop", owner_email="a@example.com", description="Orders.")
def shop(flow: Flow, inputs: Inputs) -> Summary:
    raw = flow.step(ingest, scale=inputs.scale)
    checked = flow.step(ingest, Params, scale=inputs.scale)
    with flow.fork() as fork:
        with fork.lane("a"):
            lane = flow.step(spark, ref="b", optional=False, scale=1)
        with fork.lane("b"):
            flow.step(plain, Params, scale=raw.orders)
    many = flow.each(inputs.days, plain, scale=flow.item)
    with flow.when((raw.orders > 0) & (lane.orders == 3)) as branch:
        flow.step(plain, ref="c", scale=1)
    with branch.otherwise():
        flow.wait(seconds=3)
    with flow.repeat(at_most=3) as loop:
        flow.step(plain, ref="d", scale=loop.iteration)
        loop.until(raw.orders > 3)
    sub = flow.call(other)
    REVEAL
    return Summary(total=raw.orders)
"""


def diagnostics(folder: Path, text: str) -> list[dict[str, Any]]:
    """Of the pipeline's file alone; the bodies of the tasks are empty."""
    (folder / "typing_tasks.py").write_text(TASKS)
    (folder / "typing_shop.py").write_text(text)
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "venvPath": str(ROOT), "venv": ".venv"}
    (folder / "pyrightconfig.json").write_text(
        json.dumps({**settings, "include": ["typing_shop.py"], "extraPaths": [str(ROOT / "src")]})
    )
    checker = Path(sys.executable).with_name("basedpyright")
    done = subprocess.run([checker, "--outputjson", "-p", folder], capture_output=True, text=True, check=False)
    return json.loads(done.stdout)["generalDiagnostics"]


def test_a_correct_pipeline_is_accepted_and_its_values_have_types(tmp_path: Path) -> None:
    names = ["raw.orders", "checked", "many", "sub", "loop.iteration", "inputs.scale", "lane.orders"]
    reveals = "\n    ".join(f"reveal_type({name})" for name in names)
    found = diagnostics(tmp_path, PIPELINE.replace("REVEAL", reveals))
    assert [one["message"] for one in found if one["severity"] != "information"] == []
    types = [one["message"].split(" is ")[1].strip('"') for one in found]
    assert types == ["int", "Result", "list[Result]", "Summary", "int", "float", "int"]


MISTAKES = {
    "print(raw.ordrs)": 'Cannot access attribute "ordrs"',
    "print(Summary(total=sub))": 'cannot be assigned to parameter "total"',
    "flow.step(ingest, Params, scale='x')": 'cannot be assigned to parameter "scale"',
    "flow.step(ingest, Params, sclae=1)": 'No parameter named "sclae"',
    "flow.step(ingest, Params)": 'Argument missing for parameter "scale"',
    "flow.step(ingest, Inputs, scale=1)": "Inputs",
    "print(many.orders)": 'Cannot access attribute "orders"',
    "if inputs.days: return raw": 'is not assignable to return type "Summary"',
}


def test_mistakes_that_a_type_checker_finds(tmp_path: Path) -> None:
    text = PIPELINE.replace("REVEAL", "\n    ".join(["print(checked)", *MISTAKES]))
    found = [one for one in diagnostics(tmp_path, text) if one["severity"] == "error"]
    lines = text.splitlines()
    by_line = {lines[one["range"]["start"]["line"]].strip(): one["message"] for one in found}
    assert set(by_line) == set(MISTAKES)
    assert [line for line, said in MISTAKES.items() if said not in by_line[line]] == [], by_line
