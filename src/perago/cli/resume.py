"""`perago resume`: lets a paused run go on."""

from perago.cli import _inputs, _watching
from perago.operate import runs
from perago.terminal import console


def resume(run: _watching.Run) -> None:
    """Let a paused run go on, with the pipelines that it has called.

    Exit codes: 0 resumed, 1 error, 2 wrong usage.
    """
    with _watching.connected(_inputs.load_settings().require_conductor("perago resume")) as client:
        found = runs.find(client, run)
        runs.resume(client, found)
    console.stdout().print(f"run {found} goes on; perago watch {found} shows it")
