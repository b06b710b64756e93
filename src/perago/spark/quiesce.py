"""A session whose body has returned comes in; it leaves with nothing running any more, or not at all."""

import time

from perago.errors import WorkspaceError
from perago.spark.session import Session

SECONDS = 30.0
"""For cancelled jobs to be gone everywhere; an attempt whose writers cannot be stopped publishes nothing."""
_POLL_SECONDS = 0.05


def enforce(session: Session) -> None:
    if not wait(session):
        raise WorkspaceError(f"Spark tasks of the body still run {SECONDS:g} s after they were cancelled; nothing is published")


def wait(session: Session) -> bool:
    """Whether all is quiet in the end."""
    session.cancel()
    deadline = time.monotonic() + SECONDS
    while not session.is_quiet():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
