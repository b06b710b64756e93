"""`perago retry`: runs the last failed step of a run again."""

from perago.cli import _inputs, _watching
from perago.operate import run_lanes, runs
from perago.terminal import console


def retry(run: _watching.Run) -> None:
    """Run the step again that ended a run, and what follows it.

    For runs that are FAILED, TIMED_OUT or TERMINATED. Steps that completed are not run again; a step inside a called pipeline is
    run again there. The branches of lanes are restored first, where lakeFS is configured.

    Exit codes: 0 retried, 1 error, 2 wrong usage.
    """
    local = _inputs.load_settings()
    with _watching.connected(local.require_conductor("perago retry")) as client:
        found = runs.find(client, run)
        runs.require_retryable(client, found)
        run_lanes.restore(local.lakefs, client, found)
        runs.retry(client, found)
        # A worker that saw the run's end a moment before may have deleted them in between.
        run_lanes.restore(local.lakefs, client, found)
    console.stdout().print(f"run {found} goes on; perago watch {found} shows it")
