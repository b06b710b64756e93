"""`perago dev`: runs a real Conductor and a real lakeFS until it is stopped."""

import contextlib
import json
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Annotated

import typer

from perago.cli import _env_file, _inputs
from perago.dev import stack as stacks
from perago.process.stop_request import StopRequest, StopRequested
from perago.terminal import progress

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

DataDir = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Keep the servers' state here. Default: a temporary directory, removed at the end."),
]
EnvFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Also write the settings into this file while the servers run; its other lines are kept.",
    ),
]
Port = Annotated[int, typer.Option(metavar="PORT", help="0 chooses a free port.", min=0, max=65535)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one line of JSON when both are ready, and nothing else on stdout.")]


def dev(
    data_dir: DataDir = None, env_file: EnvFile = None, conductor_port: Port = 0, lakefs_port: Port = 0, as_json: AsJson = False
) -> None:
    """Run a real Conductor and a real lakeFS here; Ctrl-C stops both.

    With --env-file, the settings are in the file while the servers run. When they stop, the previous values are restored. A file
    that another perago dev uses is refused.
    """
    _inputs.show_warnings()
    if env_file is not None:
        _env_file.require_usable(env_file)
    options = stacks.StackOptions(data_dir, conductor_port, lakefs_port)
    with running(options) as stack, contextlib.ExitStack() as cleanup:
        if env_file is not None:
            cleanup.enter_context(_env_file.written(env_file, stack.endpoints, stack.data_dir))
        sys.stdout.write(_as_json(stack) if as_json else _as_text(stack.endpoints))
        sys.stdout.flush()
        stack.watch()


@contextlib.contextmanager
def running(options: stacks.StackOptions) -> Generator[stacks.Stack]:
    """Both servers, with progress on stderr. A signal ends the context: exit code 0, or 128 + its number while starting."""
    stop_request = StopRequest()
    ready = False
    before = {number: signal.signal(number, stop_request.request) for number in _SIGNALS}
    try:
        with progress.shown() as report:
            stack = stacks.Stack(options, stop_request=stop_request, report=report)
            stack.start()
        ready = True
        with contextlib.closing(stack):
            yield stack
    except StopRequested:
        raise typer.Exit(0 if ready else 128 + stop_request.number) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        stop_request.close()


def _as_json(stack: stacks.Stack) -> str:
    more = {
        "conductor_pid": stack.conductor.pid,
        "lakefs_pid": stack.lakefs.pid,
        "data_dir": str(stack.data_dir),
        "environment": stack.environment(),
    }
    return json.dumps(json.loads(stack.endpoints.to_json()) | more) + "\n"


def _as_text(endpoints: stacks.Endpoints) -> str:
    lines = [
        f"Conductor API       {endpoints.conductor_url}",
        f"lakeFS API          {endpoints.lakefs_url}",
        f"lakeFS S3 gateway   {endpoints.s3_url}",
        "",
        "# .env",
        *_env_file.assignments(endpoints),
        "",
        "Both servers run until Ctrl-C.",
    ]
    return "".join(f"{line}\n" for line in lines)
