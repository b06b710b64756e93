"""Shared by the commands for human steps: arguments, who the person is, and how an answer is shown."""

import contextlib
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.text import Text

from perago import settings
from perago.cli import _json_option, _repository
from perago.errors import PeragoError, PublishFenceError
from perago.model import Outcome
from perago.operate import branch_move
from perago.operate.human_tasks import answering, waiting
from perago.operate.human_tasks.checkout import Checkout
from perago.operate.human_tasks.waiting import HumanTask
from perago.operate.servers import Servers
from perago.protocol import decision
from perago.terminal import console

Task = Annotated[
    str,
    typer.Argument(metavar="TASK", help="Its id as perago tasks shows it, or the beginning of it.", show_default=False),
]
Result = Annotated[
    str,
    typer.Option("--result", "-r", metavar="JSON|FILE", help="The answer as JSON, or a file that contains it."),
]
TakeOver = Annotated[
    bool, typer.Option("--take-over", help="Go on although another publication of the task has not ended: it was killed.")
]


def answer(both: Servers, local: settings.Settings, task: HumanTask, given: answering.Answer, *, take_over: bool) -> Outcome:
    """Without a folder: what Conductor accepted."""
    return _answering(both, local, task, given, None, take_over=take_over).run()


def publish(
    both: Servers, local: settings.Settings, task: HumanTask, result: object, checkout: Checkout, *, take_over: bool
) -> Outcome:
    return _answering(both, local, task, answering.Answer(result), checkout, take_over=take_over).run()


def _answering(
    both: Servers,
    local: settings.Settings,
    task: HumanTask,
    given: answering.Answer,
    checkout: Checkout | None,
    *,
    take_over: bool,
) -> answering.Answering:
    person = answering.new_person(local.perago_user or branch_move.login_name(), take_over=take_over, checkout=checkout)
    return answering.Answering(both, task, person, given, decision.UnlabelledHead(local.perago_unlabelled_head), checkout)


def find_waiting(both: Servers, text: str) -> HumanTask:
    """`StaleAttemptError` if it does not wait any more."""
    task = waiting.find(both.workflows, text)
    task.require_waiting(both.workflows)
    return task


@contextlib.contextmanager
def explaining(task: str, folder: Path | None = None) -> Generator[None]:
    """Says, with an error that ends a command, what has become of the files, and what to do on a branch that moved."""
    try:
        yield
    except PeragoError as error:
        advice = ""
        if isinstance(error, PublishFenceError):
            advice = f"; the task cannot be completed any more: end its run with perago reject {task}, and submit a new run"
        kept = "" if folder is None else f"; nothing was published, and the files in {folder} are as they were"
        raise type(error)(f"{error}{advice}{kept}") from error


def parse_result(given: str) -> dict[str, Any]:
    return _json_option.parse(given, "--result")


def connected(command: str) -> contextlib.AbstractContextManager[tuple[settings.Settings, Servers]]:
    return _repository.connected(command)


def commit_of(outcome: Outcome) -> str | None:
    workspace = (outcome.output or {}).get("workspace")
    return cast("dict[str, str]", workspace)["ref"] if isinstance(workspace, dict) else None


def show_lines(lines: Sequence[tuple[str, str]]) -> None:
    """A label and a text each."""
    for label, text in lines:
        console.stdout().print(Text.assemble((f"{label}  ", "dim"), console.printable(text)))
