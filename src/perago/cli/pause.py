"""`perago pause`: stops a run from scheduling further steps."""

from perago.cli import _inputs, _watching
from perago.operate import runs
from perago.terminal import console


def pause(run: _watching.Run) -> None:
    """Stop a run from starting further steps, until perago resume.

    Steps that run already are not interrupted: they publish and report as usual. Pipelines that the run has called are paused
    with it.

    Exit codes: 0 paused, 1 error, 2 wrong usage.
    """
    with _watching.connected(_inputs.load_settings().require_conductor("perago pause")) as client:
        found = runs.find(client, run)
        runs.pause(client, found)
    console.stdout().print(f"run {found} is paused; perago resume {found} lets it go on")
