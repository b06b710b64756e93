"""`perago tasks`: lists the human steps that wait for a person."""

import json
from typing import Annotated

import typer
from rich.text import Text

from perago.cli import _inputs, _watching
from perago.operate.human_tasks import waiting
from perago.operate.human_tasks.waiting import HumanTask
from perago.terminal import console

MOST = 1000
_CUT = 200

Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=MOST, help="Show at most N tasks.")]


def tasks(limit: Limit = 50, as_json: _inputs.AsJson = False) -> None:
    """List the human steps that wait for a person.

    Each line has the task's id, the time since when it waits (UTC), the pipeline, the step, and the question. perago diff TASK
    shows what the pipeline changed so far; perago checkout, publish, approve and reject answer it. Conductor's search index is
    asked, which may be a second behind. HUMAN tasks that no pipeline of Perago made are left out.

    Exit codes: 0 done, 1 error, 2 wrong usage.
    """
    access = _inputs.load_settings().require_conductor("perago tasks")
    with _watching.connected(access) as client:
        found = waiting.waiting(client, limit)
    if as_json:
        console.write_json({"tasks": [_document(one) for one in found]})
    elif not found:
        console.stdout().print("nothing waits for a person")
    for one in found if not as_json else ():
        question = json.dumps(dict(one.question), ensure_ascii=False)
        text = f"{one.id}  {_watching.moment(one.since)}  {one.pipeline}  {one.attempt.reference_name}  {question[:_CUT]}"
        console.stdout().print(Text(console.printable(text)))


def _document(task: HumanTask) -> dict[str, object]:
    return {
        "task": task.id,
        "run": task.attempt.workflow_id,
        "pipeline": task.pipeline,
        "step": task.attempt.reference_name,
        "since": _watching.moment(task.since),
        "question": task.question,
        "workspace": task.input.get("workspace"),
        "form": task.input.get("form"),
    }
