"""`perago doctor`: finds out why workflows cannot publish, or checks the publication protocol on a lakeFS."""

import contextlib
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from perago import settings
from perago.cli import _inputs, _repository
from perago.errors import SetupError
from perago.operate import doctor as diagnosis
from perago.operate import findings, servers
from perago.operate.findings import Finding, Level
from perago.operate.protocol_check import runner
from perago.protocol import decision
from perago.terminal import console

_STYLES = {Level.OK: "green", Level.NOTE: "yellow", Level.ACTION: "bold red"}

Target = Annotated[
    str,
    typer.Argument(
        metavar="REPOSITORY[/BRANCH]",
        help="The lakeFS repository; without a branch, every branch that Perago wrote to recently.",
        show_default=False,
    ),
]
Publication = Annotated[
    bool, typer.Option("--publication", help="Check instead that the publication protocol works on this lakeFS.")
]
Base = Annotated[
    str, typer.Option("--base", metavar="BRANCH", help="With --publication: the branch that test branches start from.")
]


def doctor(target: Target, publication: Publication = False, base: Base = "main", as_json: _inputs.AsJson = False) -> None:
    """Find out why workflows cannot publish, and how to fix it.

    Examines both servers, the clocks, the permissions (tested on temporary hidden branches), branch protection, hooks,
    staging branches and their owners, heads that Conductor did not accept, accepted commits that the branch does not contain,
    histories in which no retry can succeed, and uncommitted changes. Changes nothing else and shows no secrets.

    With --publication, it runs attempts on temporary branches, with an in-memory Conductor, to check that this lakeFS behaves
    as the publication protocol requires.

    Exit codes: 0 nothing to do, 1 something needs action (or an error), 2 wrong usage.
    """
    if publication:
        _check_publication(target, base, as_json=as_json)
    else:
        _diagnose(target, as_json=as_json)


def _diagnose(target: str, *, as_json: bool) -> None:
    repository, branch = _repository.parse_target(target)
    with _repository.connected("perago doctor") as (local, both), _repository.interruptible():
        unlabelled = decision.UnlabelledHead(local.perago_unlabelled_head)
        found = list(diagnosis.examine(both, repository, branch, unlabelled))
    if as_json:
        shown = [
            {"level": one.level.value, "check": one.check, "subject": one.subject, "text": one.text, "fix": one.fix}
            for one in found
        ]
        console.write_json({"findings": shown, "needs_action": findings.need_action(found)})
    else:
        _show_findings(found)
    raise typer.Exit(1 if findings.need_action(found) else 0)


def _check_publication(target: str, base: str, *, as_json: bool) -> None:
    repository, branch = _repository.parse_target(target)
    if branch is not None:
        raise typer.BadParameter("--publication takes a repository; it uses temporary branches", param_hint="REPOSITORY")
    start = _repository.branch_name(base, "--base")
    access = _inputs.load_settings().lakefs
    if access is None:
        raise SetupError(settings.missing_lakefs("perago doctor"))
    with (
        contextlib.closing(servers.lake_client(access)) as lake,
        contextlib.closing(servers.LakeSettings(access)) as lake_settings,
        _repository.interruptible(),
    ):
        lake.branch(repository, start)
        results: list[runner.Result] = []
        for result in runner.run(runner.Ground(lake, lake_settings, repository, start)):
            results.append(result)
            if not as_json:
                _show_result(result)
    if as_json:
        shown = [
            {"check": one.name, "holds": None if one.unknown else one.fault is None, "why": one.fault or one.unknown}
            for one in results
        ]
        console.write_json({"checks": shown})
    raise typer.Exit(1 if any(result.fault is not None for result in results) else 0)


def _show_findings(found: Sequence[Finding]) -> None:
    out = console.stdout()
    if out.is_terminal:
        out.print(_table(found), soft_wrap=False)
    else:
        for one in found:
            out.print(Text(f"{one.level.value}: {one.subject}: {console.printable(one.text)}"))
            if one.fix is not None:
                out.print(Text(f"  fix: {console.printable(one.fix)}"))
    count = sum(one.level is Level.ACTION for one in found)
    out.print(Text(f"{count} to fix" if count else "nothing to do", style="bold red" if count else "bold green"))


def _table(found: Sequence[Finding]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("", "where", "what"):
        table.add_column(title, overflow="fold", no_wrap=not title)
    for one in found:
        what = Text(console.printable(one.text))
        if one.fix is not None:
            what.append(f"\n→ {console.printable(one.fix)}", style="cyan")
        table.add_row(Text(one.level.value, style=_STYLES[one.level]), Text(one.subject), what)
    return table


def _show_result(result: runner.Result) -> None:
    if result.fault is not None:
        verdict = Text(f"FAILED: {console.printable(result.fault)}", style="bold red")
    elif result.unknown is not None:
        verdict = Text(f"not checked: {console.printable(result.unknown)}", style="yellow")
    else:
        verdict = Text("ok", style="green")
    console.stdout().print(Text.assemble(f"{result.name}: ", verdict))
