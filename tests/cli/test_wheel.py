"""The contents of the wheel."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from perago.demo import backfill, shop

CLONE = Path(__file__).parents[2]
LOOK = """
import importlib.util
import perago
from perago.demo import backfill, shop, workers
print(perago.__file__)
print(workers.examples())
for name in (shop.PIPELINE, backfill.PIPELINE, backfill.ONE_BY_ONE):
    print(importlib.util.find_spec(name).origin)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked wheel; installing it does no more."""
    room = tmp_path_factory.mktemp("wheel")
    line = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(room)]
    subprocess.run(line, cwd=CLONE, check=True, capture_output=True, timeout=60)
    (wheel,) = room.glob("perago_conductor-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(room / "site")
    return room / "site"


def test_the_demos_find_their_pipelines_in_an_installed_wheel(installed: Path) -> None:
    examples = installed / "perago" / "demo"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), str(examples)]), "PYTHONDONTWRITEBYTECODE": "1"}
    line = [sys.executable, "-c", LOOK]
    done = subprocess.run(line, cwd=installed.parent, env=env, capture_output=True, check=False, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    names = (shop.PIPELINE, backfill.PIPELINE, backfill.ONE_BY_ONE)
    modules = [str(examples / name.replace(".", "/")) + ".py" for name in names]
    assert done.stdout.splitlines() == [str(installed / "perago" / "__init__.py"), str(examples), *modules]


def test_it_holds_what_the_package_reads_and_nothing_that_was_made_on_the_way(installed: Path) -> None:
    source = CLONE / "src" / "perago"
    ours = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    packed = {str(path.relative_to(installed / "perago")) for path in (installed / "perago").rglob("*") if path.is_file()}
    assert ours <= packed
    shown = CLONE / "examples"
    examples = {f"demo/examples/{path.relative_to(shown)}" for path in shown.rglob("*") if "__pycache__" not in path.parts}
    assert {path for path in packed - ours if path not in examples} == set()
