"""`perago log`: lists the publications of a branch."""

from typing import Annotated

import typer
from rich.text import Text

from perago.cli import _history, _inputs, _repository
from perago.operate import publications
from perago.operate.publications import Standing
from perago.terminal import console

Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=publications.MOST, help="Show at most N commits.")]


def log(target: _repository.Target, limit: Limit = 20, as_json: _inputs.AsJson = False) -> None:
    """List the publications of a branch, and which Conductor accepted.

    From the head down by first parents, so that one publication is one line: commits of staging branches and of merged branches
    are not shown. Each line has the commit's short id, its time (UTC), its standing, and the step, attempt and workflow that
    made it, with the workflow's name, which is that of its pipeline. Where the commit tells, files that were added, changed and
    deleted follow, as in +3 ~1 -0, the size of the first two, and which commit it took the place of, and why.

    Standings: accepted, unaccepted (its task ended otherwise), running (its task has not ended), unknown (Conductor no longer
    knows the task), operator (perago import, undo or protect), by hand (not made by Perago), first (made with the repository).

    Exit codes: 0 done, 1 error, 2 wrong usage.
    """
    repository, branch = _repository.parse_branch(target)
    with _repository.connected("perago log") as (_, both):
        _repository.require_branch(both, repository, branch)
        found, more = publications.log(both, repository, branch, limit)
        replaced = publications.replacements(both, found)
    if as_json:
        console.write_json(
            {"publications": [publications.document(one, replaced.get(one.commit.id)) for one in found], "more": more}
        )
        return
    out = console.stdout()
    for one in found:
        out.print(_history.line(one, replaced.get(one.commit.id)))
    if more:
        out.print(Text(f"older commits follow; show more with --limit, at most {publications.MOST}", style="dim"))
    if publications.standing(found[0]) is Standing.UNACCEPTED:
        console.warning(f"Conductor did not accept the head; perago doctor {repository}/{branch} tells what to do")
