"""`perago extract`: writes the Conductor TaskDef of a task, or the workflow definition of a pipeline, to a file."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from perago.cli import _inputs
from perago.declare import taskdef
from perago.errors import SetupError
from perago.pipelines import compiler
from perago.pipelines.graph import Pipeline
from perago.terminal import console

Output = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="FILE.json", help="The file to write; missing folders are created.", show_default=False
    ),
]


def extract(module: _inputs.Module, output: Output) -> None:
    """Write the TaskDef or workflow that a module declares to a file.

    Prints the path. Needs no server.

    Exit codes: 0 written, 1 something is wrong, 2 wrong usage.
    """
    if output.suffix != ".json":
        raise SetupError(f"--output {output} must end in .json")
    _inputs.show_warnings()
    declared = _inputs.load_declared(module)
    definition = compiler.workflow(declared) if isinstance(declared, Pipeline) else taskdef.of(declared)
    _write_atomically(output, json.dumps(definition, indent=2, ensure_ascii=False) + "\n")
    console.stdout().print(Text(str(output)))


def _write_atomically(output: Path, text: str) -> None:
    """Write a file beside it and rename that, so that a reader never sees half a definition."""
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        beside = output.with_name(f".{output.name}.{os.getpid()}")
        try:
            beside.write_text(text, encoding="utf-8")
            beside.replace(output)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise SetupError(f"cannot write {output}: {error.strerror}") from error
