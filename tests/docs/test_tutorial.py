"""Runs the tutorial: writes its files, runs its commands, and compares their output with the page."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support import manual
from tests.support.waiting import eventually

from perago.cli import _env_file
from perago.dev.stack import Endpoints
from perago.supervisor.monitoring import STATUS_SECONDS

SETTINGS = ("CONDUCTOR_", "LAKECTL_", "PERAGO_")
PROGRAMS = Path(sys.executable).parent


class Reader:
    """Follows the pages in one directory. `instead` replaces names that must not collide on shared servers."""

    def __init__(self, home: Path, instead: Mapping[str, str]) -> None:
        self.here = home
        self._instead = instead
        kept = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
        places = {f"PERAGO_{name}_ROOT": str(home / "perago" / name.lower()) for name in ("WORKSPACE", "LOG", "CACHE")}
        if fetched := os.environ.get("PERAGO_CACHE_DIR"):
            places["PERAGO_CACHE_DIR"] = fetched
        # Conductor would hand out the built-in tasks of other tests to this worker, and its status would show them.
        places["PERAGO_SERVE_BUILT_IN_TASKS"] = "false"
        self.environment = {**kept, **places, "PATH": f"{PROGRAMS}:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}

    def renamed(self, text: str) -> str:
        for name, other in self._instead.items():
            text = text.replace(name, other)
        return text

    def follow(self, page: str, terminal: Callable[["Reader", manual.Block], None]) -> None:
        for block in manual.blocks(manual.DOCS / "tutorial" / page):
            if block.file:
                target = self.here / block.file
                target.parent.mkdir(exist_ok=True)
                target.write_text(self.renamed(block.text))
            elif block.terminal:
                terminal(self, block)
            elif block.language == "console":
                for command in manual.commands(block):
                    self.type(command)

    def type(self, command: manual.Command) -> None:
        if command.line.startswith("cd "):
            self.here /= command.line.removeprefix("cd ")
            self._rename_project()
            return
        shown = tuple(map(self.renamed, command.shown))
        said = self._run(command.line)
        # A worker writes its status once a second, so the command may have to be repeated.
        deadline = time.monotonic() + 60
        while (
            command.line == "perago status" and not re.fullmatch(manual.as_pattern(shown), said) and time.monotonic() < deadline
        ):
            time.sleep(STATUS_SECONDS)
            said = self._run(command.line)
        if not re.fullmatch(manual.as_pattern(shown), said):
            pytest.fail(f"$ {command.line}\nthe page shows\n{chr(10).join(shown)}\nand the command printed\n{said}")

    def _run(self, line: str) -> str:
        return subprocess.run(
            ["bash", "-c", self.renamed(line)],
            cwd=self.here,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=200,
            check=False,
        ).stdout

    def _rename_project(self) -> None:
        """Replaces the names in the files that `perago init` wrote."""
        for file in [*self.here.glob("*.py"), *self.here.glob("tests/*.py")]:
            file.write_text(self.renamed(file.read_text()))


def no_terminal(_reader: Reader, block: manual.Block) -> None:
    pytest.fail(f"the page needs the terminal {block.terminal!r}")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "empty"
    made.mkdir()
    return made


@pytest.mark.slow
def test_first_two_pages_without_servers(home: Path) -> None:
    reader = Reader(home, {})
    reader.follow("first-task.md", no_terminal)
    reader.follow("own-task.md", no_terminal)


def test_readme_example_prints_what_it_shows(home: Path) -> None:
    reader = Reader(home, {})
    (home / "notes").mkdir()
    (home / "notes" / "monday.txt").write_text("tea is hot\nice is cold\nhot tea again\n")
    module, transcript = [block for block in manual.blocks(manual.ROOT / "README.md") if block.language in {"python", "console"}][
        :2
    ]
    (home / "find_notes.py").write_text(module.text)
    shown = manual.Block(transcript.language, re.sub(r"\d+\.\d+ s$", "… s", transcript.text, flags=re.MULTILINE))
    for command in manual.commands(shown):
        reader.type(command)


def test_readmes_have_the_same_code_and_links() -> None:
    english, chinese = manual.ROOT / "README.md", manual.ROOT / "README.zh-CN.md"
    ours, theirs = ([block.text for block in manual.blocks(page) if block.language != "sh"] for page in (english, chinese))
    assert ours == theirs
    assert set(manual.links(english)) - {"README.zh-CN.md"} == set(manual.links(chinese)) - {"README.md"}


def test_readme_shows_the_pipeline_of_the_shop() -> None:
    """So that its code is checked and run too."""
    shown = [block.text for block in manual.blocks(manual.ROOT / "README.md") if "@pipeline" in block.text]
    assert len(shown) == 1
    assert shown[0] in (manual.ROOT / "examples" / "shop" / "pipeline.py").read_text()


def test_first_page_shows_the_task_of_the_readme() -> None:
    """So that its code is run too."""
    shown = [block for block in manual.blocks(manual.DOCS / "index.md") if block.language in {"python", "console"}]
    assert [block.language for block in shown] == ["python", "console"]
    assert {block.text for block in shown} <= {block.text for block in manual.blocks(manual.ROOT / "README.md")}


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("spark_runtime")
def test_pages_with_real_servers_and_spark(home: Path, stack: Endpoints, fresh_name: Callable[[], str]) -> None:
    name = fresh_name()
    taken = ("sales.summarize", "sales.report", "sales.nightly", "sales-data", "events.count", "clicks-data")
    reader = Reader(home, {old: f"{name}-{old}" for old in taken})
    reader.type(manual.Command("perago init sales", ("…",)))
    reader.type(manual.Command("cd sales", ()))
    with workers() as start:

        def terminal(who: Reader, block: manual.Block) -> None:
            if block.terminal == "servers":
                _env_file.write(who.here / ".env", stack, who.here)
            else:
                start(who, block)

        reader.follow("real-servers.md", terminal)
        reader.follow("spark.md", terminal)


@contextmanager
def workers() -> Generator[Callable[[Reader, manual.Block], None]]:
    """Starts the command of a terminal block and waits for the line that the block shows; stops all of them at the end."""
    running: list[subprocess.Popen[bytes]] = []

    def start(reader: Reader, block: manual.Block) -> None:
        command = next(manual.commands(block))
        said = reader.here / f"{block.terminal}.out"
        with said.open("wb") as out:
            line = ["bash", "-c", f"exec {reader.renamed(command.line)}"]
            running.append(subprocess.Popen(line, cwd=reader.here, env=reader.environment, stdout=out, stderr=out))
        wanted = command.shown[-1].strip("… ")
        eventually(lambda: wanted in said.read_text() or running[-1].poll() is not None, within=150, what=repr(wanted))
        assert wanted in said.read_text(), said.read_text()

    try:
        yield start
    finally:
        for process in running:
            process.send_signal(signal.SIGINT)
        assert [process.wait(timeout=60) for process in running] == [0] * len(running)
