"""`perago demo --poison` as a user types it: wrong orders are refused with their rules, the branch stays, right ones pass."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).with_name("perago")


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_wrong_orders_are_refused_and_right_ones_published(installed_servers: None, tmp_path: Path) -> None:
    line = [PROGRAM, "demo", "--poison", "--scale", "0.05", "--report", "report.html"]
    done = subprocess.run(line, cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=580, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    refusal = re.search(r"^Refused: (.*)$", done.stdout, re.MULTILINE)
    assert refusal is not None, said
    for column in ("customer_id", "product_id", "quantity"):
        assert re.search(rf"\b2 of [\d,]+ rows [^|]*column {column}\b", refusal[1]), said
    assert re.search(r"^The branch main is still at \w{12}\.", done.stdout, re.MULTILINE), said
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
