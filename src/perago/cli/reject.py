"""`perago reject`: fails a human step."""

from typing import Annotated

import typer
from rich.text import Text

from perago.cli import _human, _inputs, _repository
from perago.operate.human_tasks.answering import Answer
from perago.terminal import console

Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for those who read the run.", show_default=False)]


def reject(task: _human.Task, reason: Reason, take_over: _human.TakeOver = False, as_json: _inputs.AsJson = False) -> None:
    """Fail a human step, and with it the run.

    The task ends with FAILED_WITH_TERMINAL_ERROR, the reason and who rejected it. Nothing is published; a commit that a killed
    perago publish of the same task left on the branch is removed. perago retry asks the question again.

    Exit codes: 0 done, 1 the task was not rejected, 2 wrong usage.
    """
    if not reason.strip():
        raise typer.BadParameter("must not be empty", param_hint="--reason")
    with _human.connected("perago reject") as (local, both), _repository.interruptible(), _human.explaining(task):
        found = _human.find_waiting(both, task)
        outcome = _human.answer(both, local, found, Answer(rejection=reason.strip()), take_over=take_over)
    if as_json:
        console.write_json({"task": found.id, "reason": outcome.reason})
        return
    console.stdout().print(Text(f"task {found.id} is rejected: its run fails", style="yellow"))
