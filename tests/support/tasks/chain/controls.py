"""What the tasks of this package share."""

import os
from pathlib import Path

from pydantic import BaseModel

from perago import RetryPolicy, TaskControls, TaskFailed, TaskTerminalError

PREFIX = os.environ.get("E2E_PREFIX", "chain")
OWNER = "tests@example.com"
CONTROLS = TaskControls(retry=RetryPolicy(count=0, delay_seconds=0))


class WriteParams(BaseModel):
    file: str
    text: str = "line"
    number: int = 0
    fail: str = ""


class Written(BaseModel):
    lines: int
    files: int
    text: str
    even: bool
    last: int | None


def fail_if_asked(word: str) -> None:
    if word == "fail":
        raise TaskFailed("asked to fail")
    if word == "terminal":
        raise TaskTerminalError("asked never to succeed")


def append(workspace: Path, params: WriteParams) -> Written:
    """Append a line to a file; with the text `delete`, delete the file. In a folder, the file is named by the number."""
    file = workspace / (f"{params.file}{params.number}.txt" if params.file.endswith("/") else params.file)
    before = file.read_text() if file.exists() else ""
    if params.text == "delete":
        file.unlink(missing_ok=True)
        now = ""
    elif params.text == "keep":
        now = before
    else:
        now = before + f"{params.text} {params.number}\n"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(now)
    fail_if_asked(params.fail)
    lines = len(now.splitlines())
    files = sum(1 for path in workspace.rglob("*") if path.is_file())
    return Written(lines=lines, files=files, text=f"{params.text}{lines}", even=lines % 2 == 0, last=lines or None)
