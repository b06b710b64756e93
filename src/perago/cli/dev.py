"""`perago dev`: what a person may choose, handed on to `devstack` when the command runs."""

from pathlib import Path
from typing import Annotated

import typer

DataDir = Annotated[Path | None, typer.Option(help="Keep the servers' state here. Default: a temporary one, removed at the end.")]
EnvFile = Annotated[Path | None, typer.Option(help="Also write the settings into this file; its other lines stay.")]
Port = Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one line of JSON when both are ready, and nothing else on stdout.")]


def dev(
    data_dir: DataDir = None, env_file: EnvFile = None, conductor_port: Port = 0, lakefs_port: Port = 0, as_json: AsJson = False
) -> None:
    """Run a real Conductor and a real lakeFS on this machine; Ctrl-C stops both."""
    from perago.cli import devstack  # noqa: PLC0415 - the other commands start without it

    devstack.serve(devstack.Options(data_dir, conductor_port, lakefs_port), env_file, as_json=as_json)
