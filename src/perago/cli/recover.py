"""`perago recover`: moves a branch back to the newest commit that Conductor accepted."""

from typing import Annotated

import typer
from rich.text import Text

from perago.cli import _repository
from perago.errors import LakeNotFound, PublishFenceError, SetupError
from perago.model import BranchName, Repository
from perago.operate import evidence, protection, recovery, servers
from perago.terminal import console

_SHORT_ID = 12

To = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="COMMIT",
        help="Move to this commit of the history instead, even if accepted commits are lost.",
        show_default=False,
    ),
]


def recover(target: _repository.Target, to: To = None, yes: _repository.Yes = False) -> None:
    """Move a branch back to the newest commit that Conductor accepted.

    Shows the evidence of both servers for each commit from the head down, shows what it will do and asks for confirmation. The
    branch is moved in the same way as attempts move it: not while a running attempt is about to publish, and an attempt that
    publishes in the meantime has precedence.
    Without --to, nothing is removed that Conductor accepted or may have accepted, nor a commit that Perago did not make.
    A second run finds nothing to do.

    Exit codes: 0 done or nothing to do, 1 the branch was not moved, 2 wrong usage.
    """
    repository, branch = _repository.parse_branch(target)
    with _repository.connected("perago recover") as (_, both), _repository.interruptible():
        history, plan = _plan(both, repository, branch, to)
        _show_evidence(history, plan)
        if isinstance(plan, recovery.Nothing):
            console.stdout().print(Text(f"nothing to do: {plan.why}"))
            return
        if isinstance(plan, recovery.Unsafe):
            raise PublishFenceError(f"branch {branch} was left alone: {plan.why}")
        _show_move(branch, plan)
        _repository.confirm("Move the branch?", yes=yes)
    # The answer may have taken a while, so the connections are new and the evidence is gathered again.
    with _repository.connected("perago recover") as (_, both), _repository.interruptible():
        _move(both, repository, branch, to, history, plan)


def _plan(
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


def _move(
    both: servers.Servers,
    repository: Repository,
    branch: BranchName,
    to: str | None,
    shown: evidence.History,
    confirmed: recovery.RecoveryMove,
) -> None:
    """Carry out the confirmed plan if the servers still give the evidence that was shown."""
    history, plan = _plan(both, repository, branch, to)
    if not isinstance(plan, recovery.RecoveryMove) or (plan.goal, history.head) != (confirmed.goal, shown.head):
        raise PublishFenceError(f"branch {branch} was left alone: the evidence has changed in the meantime; run it again")
    recovery.apply(both, history, plan)
    hooks = protection.state(both.lake, repository, plan.goal.id, branch)
    had_hooks = protection.state(both.lake, repository, history.head.id, branch)
    console.stdout().print(Text(f"branch {branch} is at {plan.goal.id}", style="green"))
    if hooks is protection.State.ABSENT and had_hooks is not protection.State.ABSENT:
        console.warning(f"the hooks of perago protect were removed with the commits; run perago protect {repository} {branch}")


def _show_evidence(history: evidence.History, plan: recovery.Plan) -> None:
    out = console.stdout()
    judged = {one.commit.id: one for one in history.judged}
    if isinstance(plan, recovery.RecoveryMove):
        judged |= {one.commit.id: one for one in plan.removed}
    for one in judged.values():
        out.print(Text.assemble((one.commit.id, "bold"), f"  {console.printable(one.commit.message)}"))
        if one.by is not None:
            by = one.by
            labels = f"workflow {by.workflow_id}, step {by.reference_name}, task {by.task_id}, attempt {by.attempt_number}"
            out.print(Text(f"  labels: {console.printable(labels)}"))
            out.print(Text(f"  Conductor: {_conductor_state(one)}"))
        out.print(Text(f"  {console.printable(recovery.describe(one))}", style="green" if not one.may_go else "red"))
    for missing in history.missing:
        text = f"  accepted: step {missing.reference_name} of workflow {missing.workflow_id}; not on the branch"
        out.print(Text.assemble((missing.commit.id, "bold"), f"  {console.printable(missing.commit.message)}"))
        out.print(Text(console.printable(text), style="red"))


def _conductor_state(one: evidence.Evidence) -> str:
    if one.seen is None:
        return "does not know the task"
    output = evidence.accepted(one.seen)
    named = f", its output names {output}" if output else ""
    return f"the task is {one.seen.status}, its workflow {one.seen.workflow_status}{named}"


def _show_move(branch: BranchName, plan: recovery.RecoveryMove) -> None:
    out = console.stdout()
    out.print(Text(f"branch {branch} goes to {plan.goal.id}: {plan.why}", style="bold"))
    for one in plan.removed:
        out.print(Text(f"  removed: {one.commit.id[:_SHORT_ID]}… {console.printable(recovery.describe(one))}"))
    for one in plan.lost:
        console.warning(f"this removes {one.commit.id} from the branch, which is {recovery.describe(one)}")
