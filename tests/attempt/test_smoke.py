"""The smoke script on the stack's lakeFS, as an operator runs it, and that it can fail."""

import os
import subprocess
import sys
from pathlib import Path

from tests.attempt.bed import Bed

from perago.dev.stack import Endpoints

SCRIPT = Path(__file__).parents[2] / "scripts" / "publication_smoke.py"


def smoke(stack: Endpoints, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **stack.environment()}
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, env=environment, cwd=directory, capture_output=True, text=True, timeout=100, check=False)


def test_every_check_holds_and_nothing_is_left(real_bed: Bed, stack: Endpoints, tmp_path: Path) -> None:
    before = real_bed.head()
    done = smoke(stack, tmp_path, real_bed.repository)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split()[-1] for line in done.stdout.splitlines()] == ["ok"] * 7
    assert [branch.name for branch in real_bed.lake.branches(real_bed.repository, "")] == ["main"]
    assert real_bed.head() == before


def test_a_repository_that_does_not_exist_fails_every_check(stack: Endpoints, tmp_path: Path) -> None:
    done = smoke(stack, tmp_path, "no-such-repository")
    assert done.returncode == 1
    assert done.stdout.count("FAILED: ") == 7
    assert "Traceback" not in done.stderr


def test_settings_are_required(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAKECTL_")}
    command = [sys.executable, str(SCRIPT), "x"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == "error: LakeFS config is required for workspace tasks\n"
