import os
import pty
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from perago.cli import main

Result = subprocess.CompletedProcess[str]
Perago = Callable[..., Result]
OnTerminal = Callable[..., tuple[int, str]]

PROGRAM = Path(sys.executable).with_name("perago")
SETTINGS = ("CONDUCTOR_", "LAKECTL_", "PERAGO_")

GOOD = """
from pathlib import Path
from pydantic import BaseModel, Field
from perago import TaskFailed, TaskTerminalError, WorkspaceSpec, forbid_glob, require_glob, task

class Params(BaseModel):
    word: str
    times: int = Field(ge=1)

class Output(BaseModel):
    lines: int

@task(
    name="words.repeat",
    owner_email="data@example.com",
    workspace=WorkspaceSpec(prefix="/words", pre=[require_glob("in/*.txt")], post=[forbid_glob("**/*.tmp")]),
)
def repeat(workspace: Path, params: Params) -> Output:
    print("the body speaks")
    if params.word == "fail":
        raise TaskFailed("try again later")
    if params.word == "never":
        raise TaskTerminalError("not with this word")
    if params.word == "bug":
        return Output(lines={}["nothing"])
    if params.word == "mess":
        (workspace / "left.tmp").touch()
    (workspace / "out").mkdir(exist_ok=True)
    (workspace / "out" / "words.txt").write_text(f"{params.word}\\n" * params.times)
    (workspace / "in" / "old.txt").unlink(missing_ok=True)
    return Output(lines=params.times)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A working directory with a good task module `words` and a workspace for it."""
    made = tmp_path / "project"
    (made / "ws" / "in").mkdir(parents=True)
    (made / "words.py").write_text(GOOD)
    (made / "ws" / "in" / "a.txt").write_text("alpha\n")
    (made / "ws" / "in" / "old.txt").write_text("old\n")
    return made


def clean_environment() -> dict[str, str]:
    looks = {"NO_COLOR", "FORCE_COLOR"}
    return {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS) and name not in looks}


@pytest.fixture
def on_terminal(project: Path) -> OnTerminal:
    """Runs the command on its own pseudo-terminal; returns the exit code and everything that it printed."""

    def run(*args: str, env: Mapping[str, str] | None = None) -> tuple[int, str]:
        leader, follower = pty.openpty()
        variables = {**clean_environment(), "TERM": "xterm", **(env or {})}
        with subprocess.Popen([PROGRAM, *args], cwd=project, env=variables, stdout=follower, stderr=follower) as process:
            os.close(follower)
            seen = b"".join(iter(lambda: _read(leader), b""))
            code = process.wait(timeout=60)
        os.close(leader)
        return code, seen.decode()

    return run


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # Linux reports EIO once the other end is closed
        return b""


@pytest.fixture
def perago(project: Path) -> Perago:
    """Runs the installed command in a separate process, without the settings of the caller."""

    def run(*args: str | Path, cwd: Path = project, env: Mapping[str, str] | None = None) -> Result:
        return subprocess.run(
            [PROGRAM, *map(str, args)],
            cwd=cwd,
            env={**clean_environment(), **(env or {})},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    return run


@pytest.fixture
def inside(project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Perago:
    """Runs the command in this process, for tests of its output and exit code only."""
    monkeypatch.chdir(project)
    monkeypatch.setattr(sys, "path", sys.path[:])
    for name in [name for name in os.environ if name.startswith(SETTINGS)]:
        monkeypatch.delenv(name)

    def run(*args: str | Path) -> Result:
        monkeypatch.setattr(sys, "argv", ["perago", *map(str, args)])
        before = set(sys.modules)
        with pytest.raises(SystemExit) as ended:
            main.main()
        for name in set(sys.modules) - before:
            if str(project) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]
        out, err = capfd.readouterr()
        return Result(args, int(ended.value.code or 0), out, err)

    return run
