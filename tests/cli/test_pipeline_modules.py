"""`perago check`, `extract` and `register` with modules that declare a pipeline."""

import contextlib
import json
import uuid
from pathlib import Path

import pytest
from tests.cli.conftest import GOOD, Perago
from tests.support.workflow_driver import WorkflowDriver

from perago.dev.stack import Endpoints

PIPELINE = """
from perago import Flow, pipeline
from words import repeat

@pipeline(name="NAME", owner_email="data@example.com")
def twice(flow: Flow) -> None:
    flow.step(repeat, word='a', times=2, WITH)
"""


@pytest.fixture
def shop(project: Path) -> Path:
    return project / "shop.py"


def written(name: str = "twice", params: str = "") -> str:
    return PIPELINE.replace("NAME", name).replace("WITH", params)


def test_check_draws_a_pipeline(inside: Perago, shop: Path) -> None:
    shop.write_text(written())
    result = inside("check", "shop")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[:2] == [
        "ok: twice",
        '└─ repeat (task words.repeat, writes): word = "a", times = 2',
    ]
    document = json.loads(inside("check", "shop", "words", "--json").stdout)
    assert document["pipelines"] == [
        {"module": "shop", "name": "twice", "workspace": True, "tasks": ["words.repeat"], "warnings": []}
    ]
    assert [task["name"] for task in document["tasks"]] == ["words.repeat"]


def test_check_names_what_is_wrong_with_a_pipeline(inside: Perago, shop: Path) -> None:
    shop.write_text(written(params="nonsense=1, ref='a b'"))
    result = inside("check", "shop")
    assert result.returncode == 1
    assert result.stderr.splitlines()[0].startswith("error: shop: pipeline 'twice': 2 problems")
    assert "unknown parameter 'nonsense'" in result.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (written() + written("other").replace("def twice", "def other"), "declares 2 pipelines ('twice', 'other')"),
        (GOOD + written(), "declares the task 'words.repeat' and the pipeline 'twice'; give each a module of its own"),
        ("", "declares no task and no pipeline; put @task(name=..., owner_email=...) or @pipeline(...) on one function"),
    ],
)
@pytest.mark.parametrize("command", [["check"], ["register"], ["extract", "-o", "x.json"]])
def test_a_module_declares_one_thing(inside: Perago, shop: Path, command: list[str], text: str, said: str) -> None:
    shop.write_text(text)
    result = inside(*command, "shop")
    assert result.returncode == 1
    assert said in result.stderr


def test_extract_writes_the_workflow(inside: Perago, shop: Path, project: Path) -> None:
    shop.write_text(written())
    assert inside("extract", "shop", "-o", "made/shop.json").returncode == 0
    made = json.loads((project / "made" / "shop.json").read_text())
    assert (made["name"], made["version"]) == ("twice", 1)
    assert [task["taskReferenceName"] for task in made["tasks"]] == ["repeat"]


def test_register_brings_the_tasks_along_and_makes_versions(
    inside: Perago, shop: Path, stack: Endpoints, monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    monkeypatch.setenv("CONDUCTOR_SERVER_URL", stack.conductor_url)
    name = f"tests_{uuid.uuid4().hex[:12]}"
    with contextlib.closing(WorkflowDriver(stack.conductor_url)) as driver:
        driver.removed_at_the_end(name)
        (project / "words.py").write_text(GOOD.replace("words.repeat", f"{name}.repeat"))
        shop.write_text(written(name))
        assert inside("register", "shop").stdout.splitlines() == [f"created: {name}.repeat", f"created: {name} version 1"]
        assert inside("register", "shop").stdout.splitlines() == [f"unchanged: {name}.repeat", f"unchanged: {name} version 1"]
        shop.write_text(written(name, "ref='again'"))
        lines = inside("register", "shop").stdout.splitlines()
        assert lines[1] == f"updated: {name} version 2"
        driver.call("DELETE", f"/metadata/taskdefs/{name}.repeat")
