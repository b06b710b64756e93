"""`perago certify`: drives a worker through faults on real servers."""

import contextlib
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from perago import human_units
from perago.certify import catalog, contract, worker_process
from perago.certify.runner import Certification
from perago.certify.verdict import Result, Verdict
from perago.certify.waiting import Patience
from perago.certify.worker_process import WorkerCommand
from perago.cli import _inputs, _repository, dev
from perago.declare import task_names
from perago.dev import stack as stacks
from perago.errors import SetupError
from perago.model import LakeAccess
from perago.operate import servers
from perago.process.stop_request import StopRequested
from perago.settings import ConductorAccess, missing_lakefs
from perago.terminal import console

_STYLES = {Verdict.HELD: "green", Verdict.BROKEN: "bold red", Verdict.NOT_REACHED: "yellow"}

Worker = Annotated[
    str,
    typer.Option(
        "--worker",
        metavar="COMMAND",
        help="The command that starts the worker under test; it is run without a shell, several times at once.",
        show_default=False,
    ),
]
Task = Annotated[str, typer.Option("--task", metavar="NAME", help="The task type that the worker serves.")]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="SCENARIO", help="Run only this scenario; may be repeated.", show_default=False),
]
Configured = Annotated[
    bool,
    typer.Option(
        "--configured-servers", help="Use the servers of the settings, with temporary repositories, instead of starting some."
    ),
]
TimeLimit = Annotated[str, typer.Option("--time-limit", metavar="DURATION", help="What has not run by then is not reached.")]

Namespace = Annotated[
    str,
    typer.Option(
        "--storage-namespace",
        metavar="URL",
        help="With --configured-servers: where the repositories keep their objects, such as s3://bucket/name.",
        show_default=False,
    ),
]
LogDir = Annotated[
    Path | None,
    typer.Option("--log-dir", metavar="DIR", help="Keep the output of the workers in this directory.", file_okay=False),
]


def certify(  # noqa: PLR0913 - one parameter per option
    *,
    worker: Worker,
    task: Task = contract.DEFAULT_TASK_TYPE,
    only: Only = None,
    configured_servers: Configured = False,
    storage_namespace: Namespace = "",
    time_limit: TimeLimit = "5m",
    log_dir: LogDir = None,
    as_json: _inputs.AsJson = False,
) -> None:
    """Check that a worker follows the publication protocol.

    The worker may be written in any language. It is started with the settings of a worker in its environment, and with proxies
    between it and both servers. It is then paused, killed and rerun, gets outdated inputs, and loses requests and replies. After
    each scenario, the history of the branch is compared with what Conductor accepted. The manual states what the task has to do.

    For Perago's own worker: --worker 'perago start perago.certify.task'

    Exit codes: 0 all held, 1 something is broken or was not reached (or an error), 2 wrong usage.
    """
    words, wanted, limit = _words(worker), _scenarios(only or ()), _duration(time_limit)
    if storage_namespace and not configured_servers:
        raise typer.BadParameter("only for --configured-servers", param_hint="--storage-namespace")
    if log_dir is not None:
        _make_directory(log_dir)
    if problems := list(task_names.name_problems(task)):
        raise typer.BadParameter(str(problems[0]), param_hint="--task")
    with _opened(configured=configured_servers) as place, _command(words, task, place, log_dir) as command:
        results: list[Result] = []
        with servers.connect(place.lakefs, place.conductor) as both:
            certification = Certification(both, command, Patience(limit), wanted, storage_namespace)
            for result in certification.run(place.tick):
                results.append(result)
                _show_progress(result)
    results.sort(key=lambda result: catalog.names().index(result.name))
    if as_json:
        console.write_json(_document(worker, task, results))
    else:
        _show(results)
    raise typer.Exit(0 if all(result.verdict is Verdict.HELD for result in results) else 1)


@dataclass(frozen=True, slots=True)
class _Place:
    """The servers of a run, and how the main thread waits: with a stop by Ctrl-C, and an error if own servers end."""

    conductor: ConductorAccess
    lakefs: LakeAccess
    tick: Callable[[float], None]


@contextlib.contextmanager
def _opened(*, configured: bool) -> Generator[_Place]:
    if configured:
        settings = _inputs.load_settings()
        lakefs = settings.lakefs
        if lakefs is None:
            raise SetupError(missing_lakefs("perago certify --configured-servers"))
        with _repository.interruptible():
            yield _Place(settings.require_conductor("perago certify --configured-servers"), lakefs, time.sleep)
        return
    _inputs.show_warnings()
    with dev.running(stacks.StackOptions()) as stack:
        keys = LakeAccess(stack.lakefs_url, stack.access_key_id, stack.secret_access_key)
        try:
            yield _Place(ConductorAccess(stack.conductor_url), keys, stack.wait)
        except StopRequested:
            raise typer.Abort from None  # for `dev.running`, a stop while the servers run would be a success


@contextlib.contextmanager
def _command(words: Sequence[str], task: str, place: _Place, log_dir: Path | None) -> Generator[WorkerCommand]:
    with tempfile.TemporaryDirectory(prefix="perago-certify-") as directory:
        logs = Path(directory) if log_dir is None else log_dir.absolute()
        yield WorkerCommand(words, task, place.conductor, place.lakefs, Path(directory), logs)


def _words(line: str) -> Sequence[str]:
    """The command as a shell would split it. Checked before servers are started."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise typer.BadParameter(f"{line!r} is not a command line: {error}", param_hint="--worker") from error
    if not words or not words[0]:
        raise typer.BadParameter("it is empty; write the command that starts your worker", param_hint="--worker")
    if shutil.which(words[0], path=worker_process.search_path()) is None:
        raise typer.BadParameter(f"there is no program {words[0]!r} on PATH", param_hint="--worker")
    return words


def _scenarios(given: Sequence[str]) -> Sequence[str]:
    known = catalog.names()
    unknown = [name for name in given if name not in known]
    if unknown:
        raise typer.BadParameter(f"there is no scenario {unknown[0]!r}; there are {', '.join(known)}", param_hint="--only")
    return given


def _duration(text: str) -> float:
    try:
        return human_units.seconds(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--time-limit") from error


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(f"{directory} cannot be made: {error.strerror}", param_hint="--log-dir") from error


def _show_progress(result: Result) -> None:
    line = f"{result.verdict.value}: {result.name} ({result.seconds:.1f} s)"
    console.stderr().print(Text(line, style=_STYLES[result.verdict]))


def _document(worker: str, task: str, results: Sequence[Result]) -> dict[str, object]:
    shown = [
        {
            "scenario": one.name,
            "tried": one.attempted,
            "verdict": one.verdict.value,
            "evidence": one.evidence,
            "seconds": round(one.seconds, 1),
        }
        for one in results
    ]
    return {"worker": worker, "task": task, "scenarios": shown, "all_held": all(one.verdict is Verdict.HELD for one in results)}


def _show(results: Sequence[Result]) -> None:
    out = console.stdout()
    if out.is_terminal:
        out.print(_table(results), soft_wrap=False)
    else:
        for one in results:
            out.print(Text(f"{one.verdict.value}: {one.name}: {one.attempted}"))
            out.print(Text(f"  {console.printable(one.evidence)}"))
    out.print(Text(_summary(results)))


def _table(results: Sequence[Result]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("", "scenario", "what was tried, and what was seen"):
        table.add_column(title, overflow="fold", no_wrap=len(title) < len("scenario "))
    for one in results:
        seen = Text(f"{one.attempted}\n").append(console.printable(one.evidence), style="dim")
        table.add_row(Text(one.verdict.value, style=_STYLES[one.verdict]), Text(one.name), seen)
    return table


def _summary(results: Sequence[Result]) -> str:
    counted = [(sum(one.verdict is verdict for one in results), verdict.value) for verdict in Verdict]
    return ", ".join(f"{count} {word}" for count, word in counted if count)
