"""`perago publish`: publishes the edited folder of a human step and answers it."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from perago.cli import _human, _inputs, _repository
from perago.errors import SetupError
from perago.operate.human_tasks import checkout as checkouts
from perago.operate.human_tasks import waiting
from perago.operate.human_tasks.checkout import Marker
from perago.operate.human_tasks.waiting import HumanTask
from perago.operate.servers import Servers
from perago.terminal import console

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder that perago checkout made.", show_default=False)]


def publish(
    folder: Folder, result: _human.Result = "{}", take_over: _human.TakeOver = False, as_json: _inputs.AsJson = False
) -> None:
    """Publish the edited folder of a human step and answer it.

    What differs from the commit that was checked out goes through the whole transaction of an attempt: checks, staging branch,
    fences, revocation, merge, verification. Then the task is completed with the new commit, the result, and who did it
    (PERAGO_USER, or the login name). If nothing differs, no commit is made. The folder is only read.

    Refused, with nothing lost, if the task is over, if the branch has moved, if a check fails, and while another publication of
    the task has not ended. After the process was killed, run it again.

    Exit codes: 0 done, 1 nothing was published, 2 wrong usage.
    """
    given = _human.parse_result(result)
    checkout = checkouts.open_folder(folder)
    with (
        checkout.lock,
        _human.connected("perago publish") as (local, both),
        _repository.interruptible(),
        _human.explaining(checkout.marker.task_id, folder),
    ):
        task = _task(both, checkout.marker)
        checkouts.require_of_task(checkout.marker, task)
        task.require_waiting(both.workflows)
        if not task.read().form.publishes:
            raise SetupError(f"the workspace of task {task.id} is read-only; answer it with perago approve {task.id}")
        outcome = _human.publish(both, local, task, given, checkout, take_over=take_over)
    commit = _human.commit_of(outcome)
    if as_json:
        document = {"task": task.id, "commit": commit, "parent": checkout.marker.ref, "output": outcome.output}
        console.write_json(document)
        return
    changed = "nothing differs, so no commit was made" if commit == checkout.marker.ref else f"published as {commit}"
    console.stdout().print(Text(f"task {task.id} is completed: {changed}", style="green"))


def _task(both: Servers, marker: Marker) -> HumanTask:
    try:
        return waiting.find(both.workflows, marker.task_id)
    except SetupError as error:
        if marker.conductor == both.workflows.url:
            raise
        raise SetupError(f"{error}; the folder was checked out from Conductor at {marker.conductor}") from error
