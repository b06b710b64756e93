"""`perago approve`: answers a human step and leaves its files as they are."""

from rich.text import Text

from perago.cli import _human, _inputs, _repository
from perago.operate.human_tasks.answering import Answer
from perago.terminal import console


def approve(
    task: _human.Task, result: _human.Result = "{}", take_over: _human.TakeOver = False, as_json: _inputs.AsJson = False
) -> None:
    """Answer a human step and leave its files as they are.

    Goes through the same transaction as perago publish, as an attempt that changed nothing: the checks of the step must hold, and
    a commit that a killed perago publish of the same task left on the branch is removed.

    Exit codes: 0 done, 1 the task was not completed, 2 wrong usage.
    """
    given = _human.parse_result(result)
    with _human.connected("perago approve") as (local, both), _repository.interruptible(), _human.explaining(task):
        found = _human.find_waiting(both, task)
        outcome = _human.answer(both, local, found, Answer(given), take_over=take_over)
    if as_json:
        console.write_json({"task": found.id, "commit": _human.commit_of(outcome), "output": outcome.output})
        return
    console.stdout().print(Text(f"task {found.id} is completed", style="green"))
