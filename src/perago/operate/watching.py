"""Follow a run until it ends, also across a restart of Conductor."""

import time
from collections.abc import Callable

from perago.errors import ConductorUnavailable, SetupError
from perago.model import WorkflowId
from perago.operate.run_state import RunReader, RunState

_PAUSE_SECONDS = 1.0
_SHARE = 5
"""A run that is slow to read, because it is large, is read less often: the pause is this many times as long as the read."""
_LONGEST_PAUSE = 15.0


def follow(
    reader: RunReader,
    run: WorkflowId,
    show: Callable[[RunState], None],
    note: Callable[[str], None],
    *,
    patience: float,
) -> RunState:
    """Calls `show` with each state, the last one included. Conductor may be away for `patience` seconds at a time.

    `SetupError` where Conductor does not know the run, `ConductorUnavailable` where it stays away.
    """
    away_since: float | None = None
    while True:
        began = time.monotonic()
        try:
            state = reader.read(run, time.time())
        except ConductorUnavailable as error:
            if away_since is None:
                away_since = began
                note(f"Conductor does not answer; waiting for it for {patience:.0f} s at most")
            if time.monotonic() - away_since >= patience:
                raise ConductorUnavailable(
                    f"Conductor has not answered for {patience:.0f} s; the run goes on when it is back: perago watch {run}"
                ) from error
            time.sleep(_PAUSE_SECONDS)
            continue
        if away_since is not None:
            away_since = None
            note("Conductor answers again")
        if state is None:
            raise SetupError(f"Conductor at {reader.client.url} does not know run {run}; perago runs lists the newest")
        show(state)
        if not state.is_active:
            return state
        time.sleep(min(_LONGEST_PAUSE, max(_PAUSE_SECONDS, _SHARE * (time.monotonic() - began))))
