"""`perago start`: what a person may choose, handed on to the worker when the command runs."""

import os
import sys
from typing import Annotated

import typer

Modules = Annotated[
    list[str],
    typer.Argument(metavar="MODULE...", help="Dotted names, as for python -m; each declares one task.", show_default=False),
]
Slots = Annotated[int, typer.Option("-j", "--jobs", min=1, max=1000, help="Executors, that is attempts at a time.")]
Register = Annotated[bool, typer.Option("--register", help="Create or update the TaskDefs in Conductor first.")]
MetricsPort = Annotated[
    int | None,
    typer.Option("--metrics-port", min=0, max=65535, help="Serve /metrics, /healthz and /readyz here.", show_default=False),
]
MetricsHost = Annotated[str, typer.Option("--metrics-host", help="The address to serve them on.")]


def start(
    modules: Modules,
    jobs: Slots = 1,
    register: Register = False,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
) -> None:
    """Run the worker: take tasks from Conductor and run them, until told to stop.

    The first SIGTERM or Ctrl-C finishes what runs, a second one calls it off; PERAGO_SHUTDOWN_FORCE_KILL_AFTER bounds the wait.

    Exit codes: 0 stopped and all finished, 1 cannot start, 2 wrong usage, 3 stopped with attempts called off.
    """
    from perago import settings  # noqa: PLC0415 - the other commands start without it
    from perago.supervisor import serve  # noqa: PLC0415 - the other commands start without it

    orders = serve.Orders(tuple(dict.fromkeys(modules)), jobs, register, metrics_port, metrics_host)
    code = serve.start(orders, settings.load())
    sys.stdout.flush()
    sys.stderr.flush()
    # Everything is closed and said. A request that hangs in a thread is no reason to stay.
    os._exit(code)
