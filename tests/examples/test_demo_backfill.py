"""`perago demo backfill` as a user types it, on servers of its own, with real data and kills."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).with_name("perago")


@pytest.mark.chaos
@pytest.mark.timeout(400)
def test_killed_workers_leave_one_commit_with_all_partitions(installed_servers: None, tmp_path: Path) -> None:
    line = [PROGRAM, "demo", "backfill", "--days", "5", "--kill", "2"]
    done = subprocess.run(line, cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=380, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "5 partitions in exactly one commit, " in done.stdout, said
    assert "Result: partitions 5, departures 4303, worst_day 2013-01-03" in done.stdout, said
    assert re.search(r"^2 kills: \d of workers with all their executors, \d of single executors", done.stdout, re.MULTILINE), said
    assert len(re.findall("^killed ", done.stderr, re.MULTILINE)) == 2, said
    assert re.search(r"^Without kills, 5 days side by side and published once: ", done.stdout, re.MULTILINE), said
    assert re.search(r"^One after another, each published: .* \(measured\), ", done.stdout, re.MULTILINE), said
    assert list(tmp_path.iterdir()) == []
