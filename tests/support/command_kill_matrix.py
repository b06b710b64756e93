"""The task of the kill matrix that is a command: it does in a shell what the local task does in Python."""

import os
from collections.abc import Mapping
from pathlib import Path

from tests.support.local_kill_matrix import LocalTask
from tests.support.waiting import eventually
from tests.support.worker_harness import Worker, WorkerHarness

TASK = """
name = "{prefix}.grow"
owner_email = "tests@example.com"
command = ["sh", "grow.sh"]

[params]
type = "object"
additionalProperties = false
required = ["line", "gate"]
properties = {{ line = {{ type = "string" }}, gate = {{ type = "string" }} }}

[result]
type = "object"
additionalProperties = false
required = ["lines"]
properties = {{ lines = {{ type = "integer" }} }}

[workspace]
prefix = "data"
pre = [{{ require_file = "log.txt" }}]
post = [{{ forbid_glob = "**/*.tmp" }}]

[controls.retry]
count = {retries}
delay_seconds = 0

[controls.timeout]
response_seconds = {response}
policy = "RETRY"
"""
SCRIPT = r"""
line=$(sed 's/.*"line":"\([^"]*\)".*/\1/')
gate=$(sed 's/.*"gate":"\([^"]*\)".*/\1/' "$PERAGO_PARAMS")
echo "$line" >> log.txt
touch "$gate.entered"
while [ ! -e "$gate.go" ]; do sleep 0.02; done
printf '{"lines": %d}' "$(wc -l < log.txt)" > "$PERAGO_RESULT"
"""
SELECTION = {"executor": ["body", "after publish"], "supervisor": ["body"]}
"""Outside of the body the same code runs as for the local task, whose selection contains every phase."""


class CommandTask(LocalTask):
    """Implements `kill_matrix.TaskUnderTest`."""

    def start(self, harness: WorkerHarness, environ: Mapping[str, str]) -> Worker:
        harness.folder.mkdir(parents=True, exist_ok=True)
        values = {"prefix": harness.prefix, "retries": environ["E2E_RETRIES"], "response": environ["E2E_RESPONSE"]}
        (harness.folder / "grow.task.toml").write_text(TASK.format(**values))
        (harness.folder / "grow.sh").write_text(SCRIPT)
        return harness.start("grow.task.toml", jobs=1, **environ)

    def check_nothing_left(self, harness: WorkerHarness, worker: Worker) -> None:
        eventually(lambda: not processes(harness.folder), within=20, what="the end of the commands")


def processes(folder: Path) -> list[int]:
    """The processes of commands whose declaration is in the folder, and their guardians."""
    wanted = f"PERAGO_TASK_DIR={folder}".encode()
    found = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and wanted in _environment(path)]
    return [pid for pid in found if pid != os.getpid()]


def _environment(process: Path) -> list[bytes]:
    try:
        return (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return []
