"""The files through which a command gets its parameters and gives its result, in the attempt directory beside the workspace."""

import contextlib
import json
import os
import stat
import tempfile
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, cast

from pydantic import BaseModel

from perago.declare.contract import MAX_OUTPUT_BYTES
from perago.declare.schema_keywords import json_type
from perago.errors import CommandFailed, TaskResultError
from perago.workspace import rmtree


@dataclass(frozen=True, slots=True)
class Exchange:
    """A directory for one body, which is removed after it; the attempt directory is removed with it if the executor dies."""

    directory: Path

    @property
    def params(self) -> Path:
        return self.directory / "params.json"

    @property
    def result(self) -> Path:
        return self.directory / "result.json"

    @property
    def temporary(self) -> Path:
        return self.directory / "tmp"

    def read_result(self) -> bytes | None:
        """What the command wrote as its result; None if it wrote no file. `TaskResultError` if it cannot be a result."""
        try:
            # A named pipe would be waited for, and a link could lead to a device that never ends.
            descriptor = os.open(self.result, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise TaskResultError(f"the command's result file cannot be read: {error.strerror}") from error
        try:
            _require_regular(os.fstat(descriptor))
            with open(descriptor, "rb", closefd=False) as file:
                return file.read(MAX_OUTPUT_BYTES)
        finally:
            os.close(descriptor)


def _require_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise TaskResultError("the command's result is not a regular file; write JSON to the file that PERAGO_RESULT names")
    if status.st_size > MAX_OUTPUT_BYTES:
        raise TaskResultError(
            f"the command's result file has {status.st_size:,} bytes, and Conductor accepts at most {MAX_OUTPUT_BYTES:,}; "
            "write large data into the workspace and return its path"
        )


@contextlib.contextmanager
def opened(work: Path, params: BaseModel) -> Generator[Exchange]:
    """Beside `work`, the body's working directory, with the parameters written."""
    try:
        exchange = Exchange(Path(tempfile.mkdtemp(prefix="command-", dir=work.parent)))
    except OSError as error:
        raise CommandFailed(f"cannot create a directory for the command beside {work}: {error.strerror}") from error
    try:
        exchange.temporary.mkdir(mode=0o700)
        exchange.params.write_text(params_text(params), encoding="utf-8")
        yield exchange
    finally:
        # What cannot be removed now is removed with the attempt directory, which reports what is left.
        rmtree.remove_tree(exchange.directory)


def params_text(params: BaseModel) -> str:
    """Compact JSON in one line, with the defaults filled in."""
    written = params.model_dump(mode="json", by_alias=True, round_trip=True)
    return json.dumps(_whole(written), ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n"


def _whole(value: object) -> object:
    """Numbers without a fraction as JavaScript writes them: a parameter `3` of type number stays `3`, and not `3.0`."""
    if isinstance(value, dict):
        return {key: _whole(one) for key, one in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [_whole(one) for one in cast("list[object]", value)]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT else value


_EXACT = 2**53
"""Below, every integer is a float."""


def parsed(text: bytes) -> dict[str, Any]:
    """The result as a value; `TaskResultError` if it is not one JSON object in UTF-8."""
    found = _loaded(text)
    if not isinstance(found, dict):
        raise TaskResultError(f"the command's result must be a JSON object, not {json_type(found)}")
    return cast("dict[str, Any]", found)


def _loaded(text: bytes) -> object:
    try:
        return json.loads(text.decode(), parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise TaskResultError("the command's result is not UTF-8 text; write JSON") from None
    except RecursionError:
        raise TaskResultError("the command's result is nested too deeply") from None
    except ValueError as wrong:
        what = "is empty" if not text.strip() else f"is not JSON: {wrong}"
        raise TaskResultError(f"the command's result file {what}; write one JSON object to it") from None


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")
