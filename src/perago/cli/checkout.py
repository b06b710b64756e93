"""`perago checkout`: downloads the files of a human step into a folder."""

import json
from pathlib import Path
from typing import Annotated

import typer

from perago.cli import _human, _inputs, _repository
from perago.operate.human_tasks import checkout as checkouts
from perago.terminal import console

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.", show_default=False)]


def checkout(task: _human.Task, folder: Folder, as_json: _inputs.AsJson = False) -> None:
    """Download the files of a human step into a folder.

    The files are those below the step's prefix in the commit that the step got. Edit them, then perago publish DIR. Nothing is
    held on the servers: others may answer the task meanwhile, and the branch may move. The folder remembers its task in
    .perago-checkout.json, which is never published.

    Exit codes: 0 done, 1 error, 2 wrong usage.
    """
    with _human.connected("perago checkout") as (_, both), _repository.interruptible():
        found = _human.find_waiting(both, task)
        marker = checkouts.make(both, found, folder)
    form = found.read().form
    if as_json:
        console.write_json({"task": found.id, "folder": str(folder), "commit": marker.ref, "prefix": f"/{marker.prefix}"})
        return
    _human.show_lines(
        [
            ("files   ", f"{folder}: /{marker.prefix} of {marker.repository}/{marker.branch} at {marker.ref}"),
            ("question", json.dumps(dict(found.question), ensure_ascii=False)),
            ("answer  ", form.expected()),
            (
                "next    ",
                f"perago publish {folder} --result JSON" if form.publishes else f"perago approve {found.id} --result JSON",
            ),
        ]
    )
