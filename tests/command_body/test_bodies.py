"""Bodies that are commands, without servers: what they get, what becomes of their end, and nothing of them is left."""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perago.command_body import environment, output, running
from perago.errors import CommandFailed, CommandTerminalError, TaskInputError, TaskResultError, WorkspaceError
from perago.process import guardian
from perago.testing import TaskRun, run_task

TASK = """
name = "site.render"
owner_email = "web@example.com"
command = {command}
environment = ["SITE_KEY", "NOT_SET_ANYWHERE"]

[params]
type = "object"
additionalProperties = false
properties.title = {{ type = "string", default = "T" }}
properties.factor = {{ type = "number", default = 3 }}

[result]
type = "object"
additionalProperties = false
properties.pages = {{ type = "integer" {default} }}
{required}

[workspace]
prefix = "/site"
"""
Body = Callable[..., TaskRun]


@pytest.fixture
def body(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Body:
    """Runs a shell script as the body of a task, and checks that no process and no file of it is left."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()

    def run(script: str, *, command: str = '["sh", "body.sh"]', optional: bool = False, **params: Any) -> TaskRun:
        file = tmp_path / "render.task.toml"
        ways = (", default = 0", "") if optional else ("", 'required = ["pages"]')
        file.write_text(TASK.format(command=command, default=ways[0], required=ways[1]))
        (tmp_path / "body.sh").write_text(script)
        before = set(guardian.descendants(os.getpid()))
        try:
            return run_task(str(file), files={"a.md": "# a\n"}, params=params)
        finally:
            assert set(guardian.descendants(os.getpid())) <= before
            assert list((tmp_path / "tmp").iterdir()) == []

    return run


def result(pages: int = 1) -> str:
    return f"""echo '{{"pages": {pages}}}' > "$PERAGO_RESULT"\n"""


def test_a_command_gets_its_parameters_and_its_workspace(body: Body, capfd: pytest.CaptureFixture[str]) -> None:
    run = body('cat > in.json; cmp in.json "$PERAGO_PARAMS" && ls; echo "to stderr" >&2\n' + result(7), title="Ü")
    assert run.ok, run.report()
    assert run.result == {"pages": 7}
    assert run.text("in.json") == '{"title":"Ü","factor":3}\n'
    assert run.added == ["in.json"]
    assert capfd.readouterr() == ("a.md\nin.json\n", "to stderr\n")


def test_the_environment_is_small_and_has_no_credentials(body: Body, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = [
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY",
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID",
        "CONDUCTOR_AUTH_SECRET",
        "AWS_SECRET_ACCESS_KEY",
        "PERAGO_SPARK_REMOTE",
    ]
    for name in secrets:
        monkeypatch.setenv(name, f"secret-of-{name}")
    monkeypatch.setenv("SITE_KEY", "for this command")
    # What the shell adds itself is not in /proc, which has what the process was started with.
    run = body("tr '\\0' '\\n' < /proc/$$/environ > env; tr '\\0' '\\n' < /proc/$PPID/environ > parent\n" + result())
    assert run.ok, run.report()
    found = dict(line.split("=", 1) for line in run.text("env").splitlines())
    passed = {name for name in environment.PASSED if name in os.environ}
    assert set(found) == {"TMPDIR", "PERAGO_PARAMS", "PERAGO_RESULT", "PERAGO_TASK_DIR", "SITE_KEY", *passed}
    assert (found["SITE_KEY"], found["PERAGO_TASK_DIR"]) == ("for this command", str(tmp_path))
    assert "secret-of-" not in run.text("env") + run.text("parent")


def test_temporary_files_are_not_published_and_not_left(body: Body) -> None:
    run = body('echo x > "$TMPDIR/x"; mkdir "$TMPDIR/d"; chmod 0 "$TMPDIR/d"\n' + result())
    assert run.ok, run.report()
    assert run.added == []


@pytest.mark.parametrize(
    ("script", "kind", "reason"),
    [
        ("echo first; echo last; exit 3", CommandFailed, "the command exited with code 3: first | last"),
        ("echo out; echo err >&2; exit 1", CommandFailed, "the command exited with code 1: err"),
        ("exit 1", CommandFailed, "the command exited with code 1, and printed nothing"),
        ("echo bad file; exit 65", CommandTerminalError, "the command exited with code 65 (data error): bad file"),
        ("exit 78", CommandTerminalError, "the command exited with code 78 (configuration error), and printed nothing"),
        ("kill -SEGV $$", CommandFailed, "the command was killed by SIGSEGV (11), and printed nothing"),
        ("kill -KILL $$", CommandFailed, "the command was killed by SIGKILL (9), and printed nothing"),
        ("printf 'not \\377 text'; exit 1", CommandFailed, "the command exited with code 1: not \\xff text"),
        (
            "exit 0",
            TaskResultError,
            "the command wrote no result to the file that PERAGO_RESULT names; it must have: pages",
        ),
        (
            'echo "{}" > "$PERAGO_RESULT"',
            TaskResultError,
            "result does not satisfy the contract: result.pages: Field required",
        ),
        (
            'echo \'{"pages": "1", "more": 1}\' > "$PERAGO_RESULT"',
            TaskResultError,
            "result does not satisfy the contract: result.pages: Input should be a valid integer; result.more: unknown field",
        ),
        ('echo "[1]" > "$PERAGO_RESULT"', TaskResultError, "the command's result must be a JSON object, not array"),
        ('echo null > "$PERAGO_RESULT"', TaskResultError, "the command's result must be a JSON object, not null"),
        (': > "$PERAGO_RESULT"', TaskResultError, "the command's result file is empty; write one JSON object to it"),
        (
            'echo pages > "$PERAGO_RESULT"',
            TaskResultError,
            "the command's result file is not JSON: Expecting value: line 1 column 1 (char 0); write one JSON object to it",
        ),
        (
            'echo \'{"pages": NaN}\' > "$PERAGO_RESULT"',
            TaskResultError,
            "the command's result file is not JSON: NaN is not a JSON number; write one JSON object to it",
        ),
        ("printf '\\377' > \"$PERAGO_RESULT\"", TaskResultError, "the command's result is not UTF-8 text; write JSON"),
        (
            'truncate -s 100000000 "$PERAGO_RESULT"',
            TaskResultError,
            (
                "the command's result file has 100,000,000 bytes, and Conductor accepts at most 3,000,000; "
                "write large data into the workspace and return its path"
            ),
        ),
        (
            'ln -s /dev/zero "$PERAGO_RESULT"',
            TaskResultError,
            "the command's result file cannot be read: Too many levels of symbolic links",
        ),
        (
            'mkfifo "$PERAGO_RESULT"',
            TaskResultError,
            "the command's result is not a regular file; write JSON to the file that PERAGO_RESULT names",
        ),
        ('mkdir "$PERAGO_RESULT"', TaskResultError, "the command's result is not a regular file"),
        (result() + 'rm -rf "$PWD"', WorkspaceError, "cannot be trusted any more: it or its marker is gone"),
        ('rm -rf "${PWD%/*}"', TaskResultError, "the command wrote no result"),
        (result() + "ln -s a.md link", WorkspaceError, "link"),
    ],
)
def test_ends_of_a_command(body: Body, script: str, kind: type[Exception], reason: str) -> None:
    run = body(script)
    assert type(run.error) is kind, run.report()
    assert reason in run.reason
    assert "\n" not in run.reason
    terminal = kind is CommandTerminalError
    assert run.status == ("FAILED_WITH_TERMINAL_ERROR" if terminal else "FAILED")
    if kind in {CommandFailed, CommandTerminalError}:
        assert run.log == ()


def test_no_result_is_needed_where_every_field_has_a_default(body: Body) -> None:
    assert body("exit 0", optional=True).result == {"pages": 0}


def test_wrong_parameters_start_no_command(body: Body) -> None:
    run = body("touch started", tittle="x")
    assert isinstance(run.error, TaskInputError)
    assert "params.tittle: unknown field" in run.reason


def test_long_last_words_keep_their_end(body: Body) -> None:
    run = body("head -c 2000 /dev/zero | tr '\\0' x; echo; echo the end; exit 1")
    assert run.reason.startswith("the command exited with code 1: …xxx")
    assert run.reason.endswith("xxx | the end")
    assert len(run.reason) < 450


def test_output_is_bounded_in_lines_and_its_end_is_kept(body: Body, capfd: pytest.CaptureFixture[str]) -> None:
    run = body("yes | head -n 3000000; echo the last line\n" + result())
    assert run.ok, run.report()
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == output.MOST_LINES + 1 + output.LAST_LINES
    assert lines[-1] == "the last line"
    total = 6_000_000 + len("the last line\n")
    dropped = total - 2 * output.MOST_LINES
    assert lines[output.MOST_LINES] == f"… {dropped:,} bytes of output left out; the last lines are: …"


def test_output_is_bounded_in_bytes_without_line_ends(body: Body, capfd: pytest.CaptureFixture[str]) -> None:
    run = body("head -c 30000000 /dev/zero | tr '\\0' x >&2\n" + result())
    assert run.ok, run.report()
    shown = capfd.readouterr().err
    assert output.MOST_BYTES <= len(shown) < output.MOST_BYTES + 200_000
    assert max(map(len, shown.splitlines())) <= output.LONGEST_LINE


def test_processes_that_a_command_leaves_end_before_its_files_are_read(body: Body) -> None:
    """One in its process group, one in a session of its own that writes into the workspace without end."""
    loop = "while :; do date +%N > written; done"
    run = body(f"sleep 1000 & setsid sh -c '{loop}' & while [ ! -e written ]; do sleep 0.01; done\n" + result())
    assert run.ok, run.report()
    assert "written" in run.added


def test_a_command_that_closes_its_output_is_waited_for(body: Body) -> None:
    run = body("exec >&- 2>&-; sleep 0.3; touch late\n" + result())
    assert run.ok, run.report()
    assert run.added == ["late"]


@pytest.mark.parametrize(
    ("first_line", "reason"),
    [
        ("#!/no/such/interpreter", "No such file or directory"),
        ("\x7fELF is no program", "Exec format error"),
    ],
)
def test_a_program_that_cannot_be_started(body: Body, tmp_path: Path, first_line: str, reason: str) -> None:
    program = tmp_path / "program"
    program.write_text(f"{first_line}\n")
    program.chmod(0o755)
    run = body("", command='["./program"]')
    assert isinstance(run.error, CommandFailed)
    assert run.reason == (
        f"the command cannot be started: {program} cannot be started: {reason}: {program}; "
        "is the program in its first line, such as #!/bin/sh, installed?"
    )


def test_a_program_that_disappeared(body: Body, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    run = body("", command='["no-such-program"]')
    missing = "the program 'no-such-program' is not in the PATH of this machine; install it, or write its path"
    assert run.reason == f"the command cannot be started: {missing}"


def test_an_interrupted_command_gets_sigterm_and_time_to_end(body: Body, tmp_path: Path) -> None:
    """Ctrl-C in a test; in a worker the same happens when the attempt is cancelled."""
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    script = f"trap 'echo told > {ended}; exit 1' TERM; kill -INT {os.getpid()}; touch {begun}; while :; do sleep 0.01; done"
    with pytest.raises(KeyboardInterrupt):
        body(script)
    assert ended.read_text() == "told\n"


def test_a_command_that_ignores_sigterm_is_killed(body: Body, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(running, "GRACE_SECONDS", 0.3)
    script = f"trap 'echo ignored > {tmp_path}/told' TERM; kill -INT {os.getpid()}; while :; do sleep 0.01; done"
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        body(script)
    assert (tmp_path / "told").exists()
    assert time.monotonic() - began < 30


def test_a_command_without_a_workspace_runs_in_an_empty_directory(tmp_path: Path) -> None:
    file = tmp_path / "list.task.toml"
    line = json.dumps(
        [sys.executable, "-c", "import os, json; json.dump({}, open(os.environ['PERAGO_RESULT'], 'w')); print(os.listdir())"]
    )
    file.write_text(f'name = "a.b"\nowner_email = "a@b.c"\ncommand = {line}\n')
    run = run_task(str(file))
    assert run.ok, run.report()
    assert (run.result, run.warnings) == ({}, ())
