"""`perago doctor`, `recover` and `protect` at work: names go in; findings, evidence and what was done come out."""

import contextlib
import signal
import sys
from collections.abc import Generator, Sequence
from types import FrameType

import typer
from rich.table import Table
from rich.text import Text

from perago import settings
from perago.cli import console
from perago.errors import LakeNotFound, LakeRejected, PublishFenceError, SetupError
from perago.lake import url_parts
from perago.model import BranchName, Repository
from perago.operate import doctor as examination
from perago.operate import evidence, findings, protection, protocol_check, recovery, servers
from perago.operate.findings import Finding, Level
from perago.protocol import decision

_STYLES = {Level.OK: "green", Level.NOTE: "yellow", Level.ACTION: "bold red"}
_SHORT = 12


def doctor(target: str, *, as_json: bool) -> None:
    repository, branch = _target(target)
    with _connected("perago doctor") as (local, both), _interruptible():
        found = list(examination.examine(both, repository, branch, decision.UnlabelledHead(local.perago_unlabelled_head)))
    if as_json:
        shown = [
            {"level": one.level.value, "check": one.check, "subject": one.subject, "text": one.text, "fix": one.fix}
            for one in found
        ]
        console.write_json({"findings": shown, "needs_action": findings.need_action(found)})
    else:
        _show(found)
    raise typer.Exit(1 if findings.need_action(found) else 0)


def check_publication(target: str, base: str, *, as_json: bool) -> None:
    repository, branch = _target(target)
    if branch is not None:
        raise typer.BadParameter("--publication takes a repository; it works on branches of its own", param_hint="REPOSITORY")
    start = _branch_name(base, "--base")
    access = settings.load().lakefs
    if access is None:
        raise SetupError("LakeFS config is required for perago doctor")
    with (
        contextlib.closing(servers.lake_client(access)) as lake,
        contextlib.closing(servers.LakeSettings(access)) as own,
        _interruptible(),
    ):
        lake.branch(repository, start)
        results: list[protocol_check.Result] = []
        for result in protocol_check.run(protocol_check.Ground(lake, own, repository, start)):
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


def recover(target: str, to: str | None, *, yes: bool) -> None:
    repository, branch = _target(target)
    if branch is None:
        raise typer.BadParameter("name the branch too: REPOSITORY/BRANCH", param_hint="REPOSITORY/BRANCH")
    with _connected("perago recover") as (_, both), _interruptible():
        history, plan = _planned(both, repository, branch, to)
        _show_evidence(history, plan)
        if isinstance(plan, recovery.Nothing):
            console.stdout().print(Text(f"nothing to do: {plan.why}"))
            return
        if isinstance(plan, recovery.Unsafe):
            raise PublishFenceError(f"branch {branch} was left alone: {plan.why}")
        _show_move(branch, plan)
        _confirm(yes=yes)
    # A person may have taken a while, so the connections are new and the evidence is gathered again.
    with _connected("perago recover") as (_, both), _interruptible():
        again, still = _planned(both, repository, branch, to)
        if not isinstance(still, recovery.Move) or (still.goal, again.head) != (plan.goal, history.head):
            raise PublishFenceError(f"branch {branch} was left alone: what the servers say changed meanwhile; run it again")
        recovery.apply(both, again, still)
        hooks = protection.state(both.lake, repository, plan.goal.id, branch)
        had_hooks = protection.state(both.lake, repository, history.head.id, branch)
    console.stdout().print(Text(f"branch {branch} is at {plan.goal.id}", style="green"))
    if hooks is protection.State.ABSENT and had_hooks is not protection.State.ABSENT:
        console.warning(f"the hooks of perago protect are gone with the commits; run perago protect {repository} {branch}")


def protect(repository: str, branch: str, *, is_removal: bool) -> None:
    name, target = _repository_name(repository), _branch_name(branch, "BRANCH")
    with _connected("perago protect") as (_, both), _interruptible():
        change = protection.change(both.lake, name, target, is_removal=is_removal)
        out = console.stdout()
        if not change.is_needed:
            out.print(Text(f"nothing to do: {change.path} is {change.before.value} on branch {target}"))
            return
        verb = "remove" if is_removal else ("update" if change.before is protection.State.OUTDATED else "add")
        out.print(Text(f"{verb} {change.path} on branch {target}"))
        if not is_removal:
            for line in protection.action_file(target).splitlines():
                out.print(Text(f"  {line}", style="dim"))
        made = protection.apply(both, name, target, change)
        out.print(Text(f"branch {target} is at {made.id}", style="green"))
        console.warning("workflows that started before that commit are refused: start new ones from the new head")


# connections and names


@contextlib.contextmanager
def _connected(command: str) -> Generator[tuple[settings.Settings, servers.Servers]]:
    local = settings.load()
    if local.lakefs is None:
        raise SetupError(f"LakeFS config is required for {command}")
    with servers.connect(local.lakefs, local.require_conductor(command)) as both:
        yield local, both


@contextlib.contextmanager
def _interruptible() -> Generator[None]:
    """SIGTERM ends the command as Ctrl-C does: what it made is cleaned up first."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _target(text: str) -> tuple[Repository, BranchName | None]:
    repository, slash, branch = text.removeprefix("lakefs://").partition("/")
    return _repository_name(repository), _branch_name(branch, "BRANCH") if slash else None


def _repository_name(text: str) -> Repository:
    try:
        return Repository(url_parts.repository(Repository(text)))
    except LakeRejected as error:
        raise typer.BadParameter(str(error), param_hint="REPOSITORY") from error


def _branch_name(text: str, hint: str) -> BranchName:
    try:
        return BranchName(url_parts.branch(BranchName(text)))
    except LakeRejected as error:
        raise typer.BadParameter(str(error), param_hint=hint) from error


def _planned(
    both: servers.Servers, repository: Repository, branch: BranchName, to: str | None
) -> tuple[evidence.History, recovery.Plan]:
    both.lake.branch(repository, branch)
    both.conductor.check()
    history = evidence.examine(both, repository, branch)
    if to is None:
        return history, recovery.plan(history)
    try:
        return history, recovery.plan_to(both, history, to)
    except LakeNotFound as error:
        raise SetupError(f"--to {to} does not exist in repository {repository}") from error


def _confirm(*, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise SetupError("nothing was changed: there is no terminal to ask on; pass --yes to go ahead")
    typer.confirm("Move the branch?", abort=True)


# words


def _show(found: Sequence[Finding]) -> None:
    out = console.stdout()
    if out.is_terminal:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        for title in ("", "where", "what"):
            table.add_column(title, overflow="fold", no_wrap=not title)
        for one in found:
            what = Text(console.printable(one.text))
            if one.fix is not None:
                what.append(f"\n→ {console.printable(one.fix)}", style="cyan")
            table.add_row(Text(one.level.value, style=_STYLES[one.level]), Text(one.subject), what)
        out.print(table, soft_wrap=False)
    else:
        for one in found:
            out.print(Text(f"{one.level.value}: {one.subject}: {console.printable(one.text)}"))
            if one.fix is not None:
                out.print(Text(f"  fix: {console.printable(one.fix)}"))
    count = sum(one.level is Level.ACTION for one in found)
    out.print(Text(f"{count} to act on" if count else "nothing to do", style="bold red" if count else "bold green"))


def _show_result(result: protocol_check.Result) -> None:
    out = console.stdout()
    if result.fault is not None:
        verdict = Text(f"FAILED: {console.printable(result.fault)}", style="bold red")
    elif result.unknown is not None:
        verdict = Text(f"not checked: {console.printable(result.unknown)}", style="yellow")
    else:
        verdict = Text("ok", style="green")
    out.print(Text.assemble(f"{result.name}: ", verdict))


def _show_evidence(history: evidence.History, plan: recovery.Plan) -> None:
    out = console.stdout()
    judged = {one.commit.id: one for one in history.judged}
    if isinstance(plan, recovery.Move):
        judged |= {one.commit.id: one for one in plan.removed}
    for one in judged.values():
        out.print(Text.assemble((one.commit.id, "bold"), f"  {console.printable(one.commit.message)}"))
        if one.by is not None:
            labels = (
                f"workflow {one.by.workflow_id}, step {one.by.reference_name}, task {one.by.task_id}, attempt {one.by.attempt}"
            )
            out.print(Text(f"  labels: {console.printable(labels)}"))
            out.print(Text(f"  Conductor: {_answer(one)}"))
        out.print(Text(f"  {console.printable(recovery.describe(one))}", style="green" if not one.may_go else "red"))
    for missing in history.missing:
        text = f"  accepted: step {missing.reference_name} of workflow {missing.workflow_id}; not on the branch"
        out.print(Text.assemble((missing.commit.id, "bold"), f"  {console.printable(missing.commit.message)}"))
        out.print(Text(console.printable(text), style="red"))


def _answer(one: evidence.Evidence) -> str:
    if one.seen is None:
        return "does not know the task"
    output = evidence.accepted(one.seen)
    named = f", its output names {output}" if output else ""
    return f"the task is {one.seen.status}, its workflow {one.seen.workflow_status}{named}"


def _show_move(branch: BranchName, plan: recovery.Move) -> None:
    out = console.stdout()
    out.print(Text(f"branch {branch} goes to {plan.goal.id}: {plan.why}", style="bold"))
    for one in plan.removed:
        out.print(Text(f"  off the branch: {one.commit.id[:_SHORT]}… {console.printable(recovery.describe(one))}"))
    for one in plan.lost:
        console.warning(f"this takes {one.commit.id} off the branch, which is {recovery.describe(one)}")
