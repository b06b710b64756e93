"""Measures how long the program takes to start: `perago --version` and `perago check` of a small module.

    .venv/bin/python bench/startup.py [--quick] [--json FILE]

Each line is a process of its own; all of them take turns. The modules are compiled before. `import pydantic` loads a third of
pydantic only: a module that declares a model also needs `BaseModel`, so `perago check` is shown against both. Exit code 1 if a
target is missed.
"""

import argparse
import compileall
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pydantic

import perago

VERSION_RATIO = 8
CHECK_RATIO, CHECK_SECONDS = 1.2, 0.1
MODULE = """
from pathlib import Path

from pydantic import BaseModel

from perago import WorkspaceSpec, task


class Params(BaseModel):
    word: str


class Found(BaseModel):
    count: int


@task(name="count", owner_email="team@example.com", workspace=WorkspaceSpec())
def count(workspace: Path, params: Params) -> Found:
    return Found(count=len(list(workspace.glob(params.word))))
"""


def measure(rounds: int) -> dict[str, float]:
    """The median of the seconds of each line."""
    program = str(Path(sys.executable).with_name("perago"))
    lines = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "perago --version": [program, "--version"],
        "import pydantic": [sys.executable, "-c", "import pydantic"],
        "from pydantic import BaseModel": [sys.executable, "-c", "from pydantic import BaseModel"],
        "import of the module": [sys.executable, "-c", "import small"],
        "perago check": [program, "check", "small"],
    }
    seconds: dict[str, list[float]] = {name: [] for name in lines}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory(prefix="perago-bench-") as folder:
        (Path(folder) / "small.py").write_text(MODULE)
        for _ in range(1 + rounds):
            for name, line in lines.items():
                began = time.perf_counter()
                subprocess.run(line, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
                seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(found[1:]) for name, found in seconds.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    options = parser.parse_args()
    for module in (perago, pydantic):
        compileall.compile_dir(Path(str(module.__file__)).parent, quiet=2)
    found = measure(11 if options.quick else 41)
    for name, seconds in found.items():
        print(f"{name}: {seconds * 1000:.0f} ms")
    version = found["perago --version"] / found["python -c pass"]
    allowed = CHECK_RATIO * found["import pydantic"] + CHECK_SECONDS
    with_model = CHECK_RATIO * found["from pydantic import BaseModel"] + CHECK_SECONDS
    check = found["perago check"]
    rows = [
        (f"perago --version {version:.1f} x python -c pass <= {VERSION_RATIO}", version <= VERSION_RATIO),
        (
            f"perago check {check * 1000:.0f} ms <= {CHECK_RATIO} x import pydantic + 100 ms = {allowed * 1000:.0f} ms",
            check <= allowed,
        ),
        (
            f"perago check {check * 1000:.0f} ms <= {CHECK_RATIO} x BaseModel + 100 ms = {with_model * 1000:.0f} ms",
            check <= with_model,
        ),
    ]
    for text, met in rows:
        print(f"{'ok    ' if met else 'MISSED'} {text}")
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2))
    return 0 if all(met for _, met in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
