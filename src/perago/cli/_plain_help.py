"""The help text of a command, in the notation of other Unix programs: `-j, --jobs NUMBER`, without names of Python types."""

import re
from typing import Any

from typer.core import TyperCommand

HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}
"""Context settings of every command."""

_RANGE = re.compile(r"([^\s;\[]+)<=x<=([^\s;\]]+)")
_PLACEHOLDERS = {"int": "NUMBER", "float": "NUMBER", "Path": "PATH"}


class PlainCommand(TyperCommand):
    """A command whose help shows the placeholder of each value, as in `--workspace DIR`, where Typer shows its type."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [_without_braces(piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        rows: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                rows[parameter.param_type_name].append((_label(parameter), plain_text(record[1])))
        for title, found in (("Arguments", rows["argument"]), ("Options", rows["option"])):
            if found:
                with formatter.section(title):
                    formatter.write_dl(found)


def plain_text(text: str) -> str:
    """Ranges in words: `1 to 1000`."""
    return _RANGE.sub(r"\1 to \2", text).replace("x>=", "at least ").replace("x<=", "at most ")


def _label(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"{parameter.display_name_raw}{'' if parameter.nargs == 1 else '...'}"
    names = ", ".join(sorted(parameter.opts, key=len))
    return names if parameter.is_flag else f"{names} {parameter.metavar or _placeholder(parameter)}"


def _placeholder(parameter: Any) -> str:
    annotation = parameter.type_descriptor.annotation
    return _PLACEHOLDERS.get(getattr(annotation, "__name__", ""), "TEXT")


def _without_braces(piece: str) -> str:
    """Typer writes `{MODULE}` for a required argument."""
    return piece.replace("{", "").replace("}", "")
