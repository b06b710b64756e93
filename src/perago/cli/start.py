"""`perago start`: runs the worker."""

import os
import sys
from typing import Annotated

import typer

from perago import human_units
from perago.cli import _inputs
from perago.supervisor import serve

Slots = Annotated[int, typer.Option("-j", "--jobs", min=1, max=1000, help="Number of executors, each running one attempt.")]
Register = Annotated[bool, typer.Option("--register", help="Create or update the TaskDefs in Conductor first.")]
MetricsPort = Annotated[
    int | None,
    typer.Option("--metrics-port", min=0, max=65535, help="Serve /metrics, /healthz and /readyz here.", show_default=False),
]
MetricsHost = Annotated[str, typer.Option("--metrics-host", help="The address to serve them on.")]
Wait = Annotated[
    str,
    typer.Option(
        "--wait",
        metavar="DURATION",
        help="How long to wait for Conductor and lakeFS if they do not answer yet, such as 90s or 15m.",
    ),
]
Reload = Annotated[
    bool, typer.Option("--reload", help="For development: restart the executors when a source file of the modules changes.")
]


def start(
    modules: _inputs.Modules,
    jobs: Slots = 1,
    register: Register = False,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    wait: Wait = "1m",
    reload: Reload = False,
) -> None:
    """Run the worker: take tasks from Conductor until it is stopped.

    The first SIGTERM or Ctrl-C lets running attempts finish, a second one cancels them; PERAGO_SHUTDOWN_FORCE_KILL_AFTER
    limits the wait.

    While Conductor or lakeFS does not answer at the start, the worker waits for --wait, and logs that it does; --wait 0 exits at
    once. A Spark Connect server is tried for about half a minute, whatever --wait says. A wrong setting, such as refused
    credentials, always exits at once.

    With --reload, nothing is served while a changed module cannot be imported; the worker waits for the next change.

    Exit codes: 0 stopped, all attempts finished, 1 cannot start, 2 wrong usage, 3 stopped with attempts cancelled.
    """
    options = serve.StartOptions(
        tuple(dict.fromkeys(modules)), jobs, register, metrics_port, metrics_host, _duration(wait), reload
    )
    code = serve.start(options, _inputs.load_settings())
    sys.stdout.flush()
    sys.stderr.flush()
    # Everything is closed. A request that hangs in a thread must not keep the process alive.
    os._exit(code)


def _duration(text: str) -> float:
    try:
        return human_units.seconds(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--wait") from error
