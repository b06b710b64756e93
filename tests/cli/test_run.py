"""`perago run` as a command: its output, its exit codes, and what it does not change."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.cli.conftest import GOOD, PROGRAM, OnTerminal, Perago
from tests.cli.test_authoring import assert_refused
from tests.support.waiting import eventually


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def params(word: str, times: int = 2) -> str:
    return json.dumps({"word": word, "times": times})


def test_it_shows_what_would_be_published_and_changes_nothing(perago: Perago, project: Path) -> None:
    before = snapshot(project / "ws")
    result = perago("run", "words", "--workspace", "ws", "--params", params("hi"))
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "the body speaks"
    assert lines[1:3] == ["- in/old.txt     4 B", "+ out/words.txt  6 B"]
    assert lines[3:6] == ["    @@ -0,0 +1,2 @@", "    +hi", "    +hi"]
    assert lines[6:8] == ["1 added, 0 changed, 1 deleted; 6 B to upload", 'result: {"lines": 2}']
    assert lines[8].startswith("COMPLETED words.repeat in ")
    assert "\x1b" not in result.stdout
    assert snapshot(project / "ws") == before


def test_a_terminal_gets_a_coloured_diff(on_terminal: OnTerminal) -> None:
    code, seen = on_terminal("run", "words", "-w", "ws", "-p", params("hi"))
    assert code == 0
    assert "\x1b[32m+ out/words.txt" in seen
    assert "\x1b[31m- in/old.txt" in seen
    assert "\x1b[32m    +hi" in seen
    assert "\x1b[1;32mCOMPLETED" in seen


def test_params_may_come_from_a_file(inside: Perago, project: Path) -> None:
    (project / "p.json").write_text(params("x"))
    assert inside("run", "words", "-w", "ws", "-p", "@p.json").returncode == 0
    assert inside("run", "words.py", "-w", "ws", "-p", "p.json").returncode == 0


@pytest.mark.parametrize(
    ("word", "code", "said"),
    [
        ("fail", 3, "words.repeat ended with FAILED (Conductor would retry it): try again later"),
        ("never", 4, "words.repeat ended with FAILED_WITH_TERMINAL_ERROR (no retry would help): not with this word"),
        ("mess", 3, "FAILED (Conductor would retry it): post guardrail forbid_glob('**/*.tmp') matched 1 file: left.tmp"),
    ],
)
def test_the_exit_code_tells_the_outcome(inside: Perago, word: str, code: int, said: str) -> None:
    result = inside("run", "words", "-w", "ws", "-p", params(word))
    assert_refused(result, said, code=code)
    assert result.stdout == "the body speaks\n"


def test_an_empty_workspace_fails_its_pre_check(inside: Perago, project: Path) -> None:
    (project / "empty").mkdir()
    result = inside("run", "words", "-w", "empty", "-p", params("x"))
    assert_refused(result, "pre guardrail require_glob('in/*.txt') matched 0 files; min_count=1", code=4)
    assert result.stdout == ""


def test_a_bug_shows_the_authors_frames_and_none_of_ours(inside: Perago) -> None:
    result = inside("run", "words", "-w", "ws", "-p", params("bug"))
    assert result.returncode == 3
    lines = result.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert 'words.py", line' in lines[1]
    assert lines[-1].startswith(
        "error: words.repeat ended with FAILED (Conductor would retry it): KeyError: 'nothing' (words.py:"
    )
    assert "transaction.py" not in result.stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{", "--params is not JSON: "),
        ("[1]", "--params must be a JSON object"),
        ('{"word": NaN}', "--params is not JSON: NaN is not a JSON number"),
        ("@missing.json", "--params file missing.json cannot be read: No such file or directory"),
        ("@words.py", "--params file words.py is not JSON: "),
        ("words.py", "--params file words.py is not JSON: "),
        ("missing.json", "--params is not JSON: "),
        ("{}", "params.word: Field required; params.times: Field required"),
        ('{"word": "x", "times": 0}', "params.times: Input should be greater than or equal to 1"),
        ('{"word": "x", "times": 1, "extra": 1}', "params.extra: unknown field"),
    ],
)
def test_wrong_params_are_refused_before_anything_runs(inside: Perago, given: str, said: str) -> None:
    result = inside("run", "words", "-w", "ws", "-p", given)
    assert_refused(result, said)
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


def test_wrong_workspaces_are_refused(inside: Perago, project: Path) -> None:
    assert_refused(inside("run", "words"), "name a folder with --workspace DIR")
    assert_refused(inside("run", "words", "-w", "nope"), "--workspace nope is not a folder")
    assert_refused(inside("run", "words", "-w", "words.py"), "--workspace words.py is not a folder")
    (project / "ws" / "link").symlink_to("in")
    assert_refused(inside("run", "words", "-w", "ws", "-p", params("x")), "ws holds symlinks, which a workspace cannot: link")


def test_write_puts_the_whole_result_into_a_new_folder(inside: Perago, project: Path) -> None:
    result = inside("run", "words", "-w", "ws", "-p", params("hi"), "--write", "out/there")
    assert result.returncode == 0, result.stderr
    assert "wrote 2 files to out/there" in result.stdout
    assert set(snapshot(project / "out/there")) == {"in/a.txt", "out/words.txt"}
    assert set(snapshot(project / "ws")) == {"in/a.txt", "in/old.txt"}
    assert_refused(inside("run", "words", "-w", "ws", "-p", params("hi"), "--write", "out/there"), "is not empty")
    assert_refused(inside("run", "words", "-w", "ws", "-p", params("hi"), "--write", "ws/x"), "overlaps --workspace")


def test_a_failure_writes_nothing(inside: Perago, project: Path) -> None:
    assert inside("run", "words", "-w", "ws", "-p", params("fail"), "--write", "new").returncode == 3
    assert not (project / "new").exists()


def test_keep_writes_what_failed_its_post_checks(inside: Perago, project: Path, tmp_path: Path) -> None:
    result = inside("run", "words", "-w", "ws", "-p", params("mess"), "--keep", "--write", "looked/at")
    assert result.returncode == 3
    assert "kept what it left, which failed its checks: 3 files in looked/at" in result.stderr
    assert set(snapshot(project / "looked/at")) == {"in/a.txt", "left.tmp", "out/words.txt"}
    result = inside("run", "words", "-w", "ws", "-p", params("mess"), "--keep", "--json")
    kept = Path(json.loads(result.stdout)["written"])
    try:
        assert "inspect" not in json.loads(result.stdout)["reason"]
        assert kept.parent == Path(tempfile.gettempdir())
        assert set(snapshot(kept)) == {"in/a.txt", "left.tmp", "out/words.txt"}
    finally:
        shutil.rmtree(kept)
    # Nothing is kept of other failures, and a task that passes writes its result.
    assert inside("run", "words", "-w", "ws", "-p", params("fail"), "--keep", "--write", "new").returncode == 3
    assert not (project / "new").exists()
    assert inside("run", "words", "-w", "ws", "-p", params("mess"), "--write", "new").returncode == 3
    assert not (project / "new").exists()
    assert inside("run", "words", "-w", "ws", "-p", params("hi"), "--keep", "--write", "new").returncode == 0
    assert set(snapshot(project / "new")) == {"in/a.txt", "out/words.txt"}


def test_keep_does_not_fit_a_task_that_publishes_nothing(inside: Perago, project: Path) -> None:
    (project / "words.py").write_text(GOOD.replace('prefix="/words"', 'prefix="/words", read_only=True'))
    assert_refused(inside("run", "words", "-w", "ws", "-p", params("x"), "--keep"), "publishes nothing; leave --keep out")
    (project / "free.py").write_text(FREE)
    assert_refused(inside("run", "free", "-p", '{"n": 1}', "--keep"), "has no workspace; leave --keep out")


def test_with_json_stdout_contains_nothing_else(perago: Perago, project: Path) -> None:
    spoken = '    print("the body speaks")'
    noisy = GOOD.replace(spoken, f'{spoken}\n    import os\n    os.system("echo a child speaks")')
    (project / "words.py").write_text(noisy)
    result = perago("run", "words", "-w", "ws", "-p", params("hi"), "--json")
    assert json.loads(result.stdout) == {
        "task": "words.repeat",
        "status": "COMPLETED",
        "reason": None,
        "result": {"lines": 2},
        "changes": [
            {"path": "in/old.txt", "change": "deleted", "size_before": 4, "size_after": None},
            {"path": "out/words.txt", "change": "added", "size_before": None, "size_after": 6},
        ],
        "tables": [],
        "written": None,
    }
    assert set(result.stderr.splitlines()) == {"the body speaks", "a child speaks"}


def test_json_of_a_failure(inside: Perago) -> None:
    result = inside("run", "words", "-w", "ws", "-p", params("never"), "--json")
    assert result.returncode == 4
    document = json.loads(result.stdout)
    assert (document["status"], document["reason"]) == ("FAILED_WITH_TERMINAL_ERROR", "not with this word")
    assert (document["result"], document["changes"]) == (None, [])


FREE = """
from pydantic import BaseModel
from perago import task

class P(BaseModel):
    n: int = 1

@task(name="free.double", owner_email="a@example.com")
def double(params: P) -> P:
    return P(n=params.n * 2)
"""


def test_a_task_without_a_workspace_needs_none(inside: Perago, project: Path) -> None:
    (project / "free.py").write_text(FREE)
    result = inside("run", "free")
    assert result.stdout.splitlines()[0] == 'result: {"n": 2}'
    assert_refused(inside("run", "free", "-w", "ws"), "has no workspace; leave --workspace out")
    assert_refused(inside("run", "free", "--write", "x"), "has no workspace; leave --write out")


def test_read_only_and_no_change(inside: Perago, project: Path) -> None:
    (project / "look.py").write_text(GOOD.replace('prefix="/words"', "read_only=True"))
    result = inside("run", "look", "-w", "ws", "-p", params("x"))
    assert "read-only: nothing is published" in result.stdout
    assert_refused(inside("run", "look", "-w", "ws", "-p", params("x"), "--write", "new"), "is read-only and publishes nothing")
    (project / "ws" / "out").mkdir()
    (project / "ws" / "out" / "words.txt").write_text("x\n")
    (project / "ws" / "in" / "old.txt").unlink()
    assert "no changes: nothing to publish" in inside("run", "words", "-w", "ws", "-p", params("x", 1)).stdout


SLOW = GOOD.replace('    print("the body speaks")', '    print("the body speaks", flush=True)\n    __import__("time").sleep(60)')


def hear_ctrl_c() -> None:
    """Restore the handler of SIGINT: a shell lets background processes and their children ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_ends_it_quietly_and_leaves_nothing(project: Path, tmp_path: Path) -> None:
    (project / "words.py").write_text(SLOW)
    (tmp_path / "temporary").mkdir()
    program = Path(sys.executable).with_name("perago")
    command = [program, "run", "words", "-w", "ws", "-p", params("x")]
    env = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command,
        cwd=project,
        env=env,
        stdout=pipe,
        stderr=pipe,
        text=True,
        preexec_fn=hear_ctrl_c,  # noqa: PLW1509  no threads here
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "the body speaks\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == ""
    assert list((tmp_path / "temporary").iterdir()) == []


def test_sigterm_and_sigkill_leave_nothing(project: Path, tmp_path: Path) -> None:
    (project / "words.py").write_text(SLOW)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = [PROGRAM, "run", "words", "-w", "ws", "-p", params("x")]
    env = {**os.environ, "TMPDIR": str(temporary)}
    for number, code in ((signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)):
        with subprocess.Popen(command, cwd=project, env=env, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "the body speaks\n"
            process.send_signal(number)
            # The guardian and the task hold the pipe until they have ended.
            process.stdout.read()
            assert process.wait(timeout=30) == code
        eventually(lambda: not list(temporary.iterdir()), within=10)


ENDS = """
import ctypes, os, signal, sys
from pathlib import Path
from pydantic import BaseModel
from perago import TaskControls, TimeoutPolicy, WorkspaceSpec, task

class P(BaseModel):
    how: str

class R(BaseModel):
    done: bool

@task(
    name="t.ends",
    owner_email="a@example.com",
    workspace=WorkspaceSpec(),
    controls=TaskControls(timeout=TimeoutPolicy(response_seconds=1, seconds=1)),
)
def ends(workspace: Path, params: P) -> R:
    Path("out.csv").write_text(params.how)
    print("printed before the end")
    match params.how:
        case "segfault":
            ctypes.string_at(0)
        case "_exit":
            os._exit(7)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            sys.exit(3)
        case "hang":
            try:
                signal.pause()
            finally:
                print("interrupted", flush=True)
        case "wrong":
            return 1
        case "fork":
            if (child := os.fork()) != 0:
                os.waitpid(child, 0)
    return R(done=True)
"""


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("segfault", 3, "FAILED (Conductor would retry it): the executor was killed by SIGSEGV (11) in phase body, "),
        ("_exit", 3, "FAILED (Conductor would retry it): the executor exited with code 7 in phase body, "),
        ("kill", 3, "FAILED (Conductor would retry it): the executor was killed by SIGKILL (9) in phase body, "),
        ("exit", 3, "FAILED (Conductor would retry it): the body ended with SystemExit: 3"),
        ("hang", 5, "TIMED_OUT (Conductor would time out the workflow): timeout.seconds=1 of the task is over in phase body"),
        (
            "wrong",
            3,
            "FAILED (Conductor would retry it; correct the task, which returns this on every attempt): the body returned int",
        ),
    ],
)
def test_an_unusual_end_is_reported_as_in_the_worker(
    inside: Perago, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, code: int, said: str
) -> None:
    (project / "ends.py").write_text(ENDS)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    result = inside("run", "ends", "-w", "ws", "-p", json.dumps({"how": how}))
    assert result.returncode == code, result
    assert f"error: t.ends ended with {said}" in result.stderr.splitlines()[-1]
    assert result.stdout.splitlines() == ["printed before the end", *(["interrupted"] if how == "hang" else [])]
    assert list((tmp_path / "temporary").iterdir()) == []


def test_the_working_directory_is_the_workspace_and_a_fork_reports_nothing(inside: Perago, project: Path) -> None:
    (project / "ends.py").write_text(ENDS)
    result = inside("run", "ends", "-w", "ws", "-p", '{"how": "fork"}')
    assert result.returncode == 0, result
    assert "+ out.csv  4 B" in result.stdout
    assert result.stdout.count("COMPLETED") == 1
    assert not (project / "out.csv").exists()


def test_files_in_a_scratch_directory_are_named(inside: Perago, project: Path) -> None:
    (project / "free.py").write_text(FREE.replace("    return", '    open("lost.txt", "w").close()\n    return'))
    result = inside("run", "free")
    assert result.returncode == 0
    assert result.stderr.startswith("warning: the body left files in its working directory, which are not published: lost.txt; ")
    assert not (project / "lost.txt").exists()


def test_a_module_that_crashes_on_import_is_reported(inside: Perago, project: Path) -> None:
    (project / "free.py").write_text("import os\nos._exit(9)\n")
    assert_refused(inside("run", "free"), "free: the process that imported it exited with code 9")


@pytest.mark.slow
def test_a_new_user_gets_from_init_to_pytest(perago: Perago, tmp_path: Path) -> None:
    """`perago init x && cd x && perago check … && perago run … && pytest`, with the lines that init and the README give."""
    made = perago("init", "x", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert perago("init", "x", cwd=tmp_path).stderr == "error: x is not empty; name a new or an empty directory [PG-100]\n"
    home = tmp_path / "x"
    check = perago("check", "sales_pipeline", cwd=home)
    assert check.stdout.startswith("ok: sales.nightly\n"), check.stderr
    assert check.stderr == ""
    advised = next(line for line in made.stdout.splitlines() if "perago run" in line).split("  #")[0].split()
    run = perago(*advised[1:], cwd=home)
    assert run.returncode == 0, run.stderr
    assert "~ sales/summary/by_country.csv" in run.stdout
    assert " ".join(advised) in (home / "README.md").read_text()
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-q"], cwd=home, capture_output=True, text=True, timeout=100, check=False
    )
    assert tests.returncode == 0, tests.stdout
    assert "9 passed" in tests.stdout


def test_help_names_every_exit_code(perago: Perago, inside: Perago) -> None:
    shown = perago("--help").stdout
    for command in ("init", "check", "run", "extract", "register"):
        assert f"\n  {command} " in shown
        assert "Exit codes: 0 " in " ".join(inside(command, "--help").stdout.split())
