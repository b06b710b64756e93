"""Shared by the commands for operators: arguments that name repositories, connections to the servers, confirmation, SIGTERM."""

import contextlib
import signal
import sys
from collections.abc import Generator
from types import FrameType
from typing import Annotated

import typer

from perago import settings
from perago.cli import _inputs
from perago.errors import LakeNotFound, LakeRejected, SetupError
from perago.lake import url_parts
from perago.model import BranchName, Commit, CommitId, Repository
from perago.operate import servers

Target = Annotated[
    str, typer.Argument(metavar="REPOSITORY/BRANCH", help="The lakeFS repository and the branch in it.", show_default=False)
]
Ref = Annotated[
    str,
    typer.Argument(
        metavar="REPOSITORY/REF", help="The lakeFS repository and a branch, a tag or a commit id in it.", show_default=False
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask; needed where there is no terminal.")]


@contextlib.contextmanager
def connected(command: str) -> Generator[tuple[settings.Settings, servers.Servers]]:
    """The settings and clients of both servers; `command` as it is typed, for error messages."""
    local = _inputs.load_settings()
    if local.lakefs is None:
        raise SetupError(settings.missing_lakefs(command))
    with servers.connect(local.lakefs, local.require_conductor(command)) as both:
        yield local, both


@contextlib.contextmanager
def lake_only(command: str) -> Generator[servers.LakeServers]:
    """The client of lakeFS alone."""
    access = _inputs.load_settings().lakefs
    if access is None:
        raise SetupError(f"LakeFS config is required for {command}")
    with (
        contextlib.closing(servers.lake_client(access)) as lake,
        contextlib.closing(servers.LakeSettings(access)) as lake_settings,
    ):
        yield servers.LakeServers(lake, lake_settings)


def confirm(question: str, *, yes: bool) -> None:
    """Ask on the terminal; `SetupError` where there is none, `Abort` where the answer is no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise SetupError("nothing was changed: there is no terminal to ask on; pass --yes to go ahead")
    typer.confirm(question, abort=True)


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


def parse_branch(text: str) -> tuple[Repository, BranchName]:
    """`REPOSITORY/BRANCH`."""
    repository, branch = parse_target(text)
    if branch is None:
        raise typer.BadParameter("name the branch too: REPOSITORY/BRANCH", param_hint="REPOSITORY/BRANCH")
    return repository, branch


def parse_ref(text: str) -> tuple[Repository, CommitId]:
    """`REPOSITORY/REF`: a branch, a tag or a commit id."""
    repository, _, ref = text.removeprefix("lakefs://").partition("/")
    if not ref:
        raise typer.BadParameter("name a branch, tag or commit too: REPOSITORY/REF", param_hint="REPOSITORY/REF")
    return repository_name(repository), ref_name(ref, "REPOSITORY/REF")


def require_branch(both: servers.LakeServers, repository: Repository, branch: BranchName) -> None:
    """`SetupError` where the repository or the branch does not exist."""
    try:
        both.lake.branch(repository, branch)
    except LakeNotFound as error:
        _require_repository(both, repository)
        raise SetupError(f"branch {branch} does not exist in repository {repository}; name one that lakeFS lists") from error


def resolve(both: servers.LakeServers, repository: Repository, ref: CommitId) -> Commit:
    """The commit; `SetupError` where the repository or the ref does not exist."""
    try:
        return both.lake.commit(repository, ref)
    except LakeNotFound as error:
        _require_repository(both, repository)
        raise SetupError(
            f"{ref} does not exist in repository {repository}; name a branch, a tag or a commit id, as perago log shows it"
        ) from error


def _require_repository(both: servers.LakeServers, repository: Repository) -> None:
    try:
        both.settings.repository(repository)
    except LakeNotFound as error:
        raise SetupError(f"repository {repository} does not exist in lakeFS at {both.settings.url}; check its name") from error


def ref_name(text: str, hint: str) -> CommitId:
    try:
        url_parts.ref(CommitId(text))
    except LakeRejected as error:
        raise typer.BadParameter(str(error), param_hint=hint) from error
    return CommitId(text)


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
