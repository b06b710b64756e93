"""The check at the end of a test run finds what tests leave behind."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import leftovers
from tests.support.leftovers import RunTraces
from tests.support.waiting import eventually
from tests.support.worker_harness import command


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> Iterator[RunTraces]:
    monkeypatch.setenv("TMPDIR", tempfile.gettempdir())
    monkeypatch.setenv(leftovers.RUN_VARIABLE, "")
    monkeypatch.setattr(tempfile, "tempdir", tempfile.tempdir)
    monkeypatch.setattr(leftovers, "SECONDS_TO_END", 0.0)
    made = RunTraces()
    yield made
    made.close()


def test_run_without_traces_is_clean(traces: RunTraces) -> None:
    with tempfile.TemporaryDirectory(prefix="perago-"):
        pass
    subprocess.run(["true"], check=True)
    assert traces.all() == []


def test_process_that_is_not_a_child_any_more_is_found(traces: RunTraces) -> None:
    """Its parent has ended, as the guardian of a killed worker has."""
    shell = "setsid sleep 60 >/dev/null 2>&1 & echo $!"
    pid = int(subprocess.run(["bash", "-c", shell], check=True, capture_output=True, text=True).stdout)
    try:
        assert [line.split()[3] for line in traces.all()] == [str(pid)]
    finally:
        os.kill(pid, 9)


def test_resource_tracker_of_multiprocessing_is_not_counted(traces: RunTraces) -> None:
    program = """
import sys
from multiprocessing import resource_tracker
resource_tracker.ensure_running()
print(resource_tracker._resource_tracker._pid, flush=True)
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        tracker = int(owner.stdout.readline())
        eventually(lambda: leftovers.RESOURCE_TRACKER.encode() in command(tracker), what="the resource tracker")
        assert [line.split()[3] for line in traces.all()] == [str(owner.pid)]


def test_directory_of_perago_is_found(traces: RunTraces) -> None:
    made = Path(tempfile.mkdtemp(prefix="perago-dev-"))
    assert traces.all() == [f"directory left behind: {made.name}"]
