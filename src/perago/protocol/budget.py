"""How long each of the last steps of an attempt may take, and the response timeout that they need."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """Seconds for the publish request, the completion request, the shutdown grace and between two lease extensions."""

    publish_seconds: float
    completion_seconds: float
    shutdown_grace_seconds: float
    heartbeat_seconds: float

    @property
    def response_timeout_seconds(self) -> float:
        """The shortest response timeout with which the task of a live attempt is never handed out again."""
        return self.publish_seconds + self.completion_seconds + self.shutdown_grace_seconds + self.heartbeat_seconds


DEFAULT = Budget(publish_seconds=60, completion_seconds=15, shutdown_grace_seconds=30, heartbeat_seconds=30)
"""For tasks without a publish budget. A publish request usually takes 10 ms; the default response timeout is 600 s."""


def default_for(response_timeout_seconds: float) -> Budget:
    """The default, reduced in proportion if the task's response timeout is too short for it."""
    share = min(1.0, response_timeout_seconds / DEFAULT.response_timeout_seconds)
    return Budget(
        publish_seconds=DEFAULT.publish_seconds * share,
        completion_seconds=DEFAULT.completion_seconds * share,
        shutdown_grace_seconds=DEFAULT.shutdown_grace_seconds * share,
        heartbeat_seconds=DEFAULT.heartbeat_seconds * share,
    )
