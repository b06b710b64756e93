"""`perago blame`: tells which publication wrote an object."""

from typing import Annotated, Any

import typer
from rich.text import Text

from perago.cli import _history, _inputs, _repository
from perago.errors import SetupError
from perago.operate import blame as authorship
from perago.operate import publications
from perago.terminal import console

Path = Annotated[str, typer.Argument(metavar="PATH", help="An object, or a folder: then each object in it.", show_default=False)]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="Of a folder, show at most N objects.")]


def blame(target: _repository.Ref, path: Path, limit: Limit = 50, as_json: _inputs.AsJson = False) -> None:
    """Tell which publication, workflow and step wrote an object.

    The object is taken as it is at REF. The answer is the newest publication that changed it to that, also if a merge by hand
    brought it, and whether Conductor accepted that publication. An object that perago undo put back has the publication that
    wrote it first, and the undo. Of an object that was not written by Perago, the commit's message and author are shown.

    Exit codes: 0 done, 1 error (no such object), 2 wrong usage.
    """
    repository, ref = _repository.parse_ref(target)
    with _repository.connected("perago blame") as (_, both):
        commit = _repository.resolve(both, repository, ref).id
        infos, more = authorship.select(both.lake, repository, commit, path.removeprefix("/"), limit)
        if not infos:
            raise SetupError(
                f"{path!r} is neither an object nor a folder at {repository}/{ref}; "
                f"paths begin at the repository's root, such as data/a.csv"
            )
        found = [authorship.of(both, repository, commit, info) for info in infos]
    if as_json:
        console.write_json({"commit": commit, "objects": [_document(one) for one in found], "more": more})
        return
    for one in found:
        _show(one)
    if more:
        console.stdout().print(Text("more objects follow; show more with --limit, or name a smaller folder", style="dim"))


def _show(one: authorship.Authorship) -> None:
    out = console.stdout()
    out.print(Text.assemble((console.printable(one.object.path), "bold"), (f"  {console.size(one.object.size)}", "dim")))
    for undo in one.restored:
        out.print(Text("  put back by ").append_text(_history.line(undo)))
    if one.written is None:
        out.print(Text("  unknown: none of its newest commits holds it like this", style="yellow"))
    else:
        out.print(Text("  ").append_text(_history.line(one.written)))


def _document(one: authorship.Authorship) -> dict[str, Any]:
    return {
        "path": one.object.path,
        "size": one.object.size,
        "checksum": one.object.checksum,
        "written_by": None if one.written is None else publications.document(one.written),
        "put_back_by": [publications.document(undo) for undo in one.restored],
    }
