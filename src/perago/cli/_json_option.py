"""A JSON object on the command line: the text itself, or a file that contains it."""

import json
from pathlib import Path
from typing import Any, NoReturn, cast

from perago.errors import SetupError

_MAX_PATH_LENGTH = 1024
"""The system refuses to look at much longer paths. JSON text may be longer."""


def parse(given: str, option: str = "--params") -> dict[str, Any]:
    """`SetupError` for what is not a JSON object; `option` is what it was given with."""
    source, text = option, given
    file = _params_file(given)
    if file is not None:
        source = f"{option} file {file}"
        try:
            text = Path(file).read_text(encoding="utf-8")
        except OSError as error:
            raise SetupError(f"{source} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise SetupError(f"{source} is not UTF-8 text") from error
    try:
        params = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise SetupError(f"{source} is not JSON: {error}") from error
    if not isinstance(params, dict):
        raise SetupError(f'{source} must be a JSON object such as {{"name": 1}}, not {text.strip()[:40]}')
    return cast("dict[str, Any]", params)


def _params_file(given: str) -> str | None:
    """`@FILE`, or an existing file whose name is not JSON itself."""
    if given.startswith("@"):
        return given[1:]
    if given.lstrip()[:1] in {"{", "[", '"', ""} or "\0" in given or len(given) > _MAX_PATH_LENGTH:
        return None
    return given if Path(given).is_file() else None


def _refuse_constant(word: str) -> NoReturn:
    """NaN and Infinity, which Python's parser would accept."""
    raise ValueError(f"{word} is not a JSON number")
