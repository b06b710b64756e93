"""Shared by the commands for operators (doctor, recover, protect): repository arguments, connections to both servers, SIGTERM."""

import contextlib
import signal
from collections.abc import Generator
from types import FrameType

import typer

from perago import settings
from perago.cli import _inputs
from perago.errors import LakeRejected, SetupError
from perago.lake import url_parts
from perago.model import BranchName, Repository
from perago.operate import servers


@contextlib.contextmanager
def connected(command: str) -> Generator[tuple[settings.Settings, servers.Servers]]:
    """The settings and clients of both servers; `command` as it is typed, for error messages."""
    local = _inputs.load_settings()
    if local.lakefs is None:
        raise SetupError(settings.missing_lakefs(command))
    with servers.connect(local.lakefs, local.require_conductor(command)) as both:
        yield local, both


@contextlib.contextmanager
def interruptible() -> Generator[None]:
    """SIGTERM ends the command as Ctrl-C does, so that it cleans up first."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def parse_target(text: str) -> tuple[Repository, BranchName | None]:
    """`REPOSITORY` or `REPOSITORY/BRANCH`, also as a `lakefs://` address."""
    repository, slash, branch = text.removeprefix("lakefs://").partition("/")
    return repository_name(repository), branch_name(branch, "BRANCH") if slash else None


def repository_name(text: str) -> Repository:
    try:
        return Repository(url_parts.repository(Repository(text)))
    except LakeRejected as error:
        raise typer.BadParameter(str(error), param_hint="REPOSITORY") from error


def branch_name(text: str, hint: str) -> BranchName:
    try:
        return BranchName(url_parts.branch(BranchName(text)))
    except LakeRejected as error:
        raise typer.BadParameter(str(error), param_hint=hint) from error
