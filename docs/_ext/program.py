"""Sphinx extension: a directive for the help text of a command, and signatures of value classes from their fields."""

import dataclasses
import inspect
import os
from collections.abc import Iterator
from typing import Any

import typer
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from perago.cli.commands import app

WIDTH = 90


def commands() -> list[str]:
    """In the order of `perago --help`."""
    return list(_group().commands)


def help_text(command: str) -> str:
    """The help text at a fixed width; that of the program itself for an empty name."""
    group = _group()
    found = group.commands[command] if command else group
    name = f"perago {command}".strip()
    os.environ["COLUMNS"] = str(WIDTH)
    context = typer.Context(found, info_name=name, max_content_width=WIDTH, terminal_width=WIDTH)
    return found.get_help(context).rstrip()


def _group() -> Any:
    return typer.main.get_command(app)


class Help(Directive):
    """`perago-help` or `perago-help:: COMMAND`."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        text = help_text(self.arguments[0] if self.arguments else "")
        return [nodes.literal_block(text, text, language="text")]


def signature_of_value(
    _app: Sphinx, what: str, _name: str, thing: Any, _options: Any, _signature: str | None, _returns: str | None
) -> tuple[str, None] | None:
    """Value classes accept anything, so that they can report all mistakes at once; the manual shows their fields instead."""
    if what != "class" or not dataclasses.is_dataclass(thing):
        return None
    return f"({', '.join(_parameters(thing))})", None


def _parameters(value: Any) -> Iterator[str]:
    for name, parameter in list(inspect.signature(value.__init__).parameters.items())[1:]:
        field = next(one for one in dataclasses.fields(value) if one.name == name)
        if field.default is not dataclasses.MISSING:
            yield f"{name}={field.default!r}"
        elif field.default_factory is not dataclasses.MISSING:
            yield f"{name}={field.default_factory.__name__}()"
        else:
            yield str(parameter.replace(annotation=inspect.Parameter.empty))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("perago-help", Help)
    app.connect("autodoc-process-signature", signature_of_value)
    return {"parallel_read_safe": True}
