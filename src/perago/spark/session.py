"""One attempt's share of Spark, as the workspace asks for it. A driver of our own and a Connect server both give one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from perago.errors import WorkspaceError
from perago.process.exit_status import ExitStatus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Work:
    """What runs just now, summed over the stages that are not done."""

    stages: int
    tasks: int
    tasks_done: int
    rows: int
    bytes: int


class Session(Protocol):
    """Its temporary views, settings and caches are nobody else's, and end with it."""

    @property
    def spark(self) -> "SparkSession": ...

    def cancel(self) -> None:
        """Tell all jobs and streaming queries to stop; returns before they have. Harmless if nothing runs, or nothing lives."""
        ...

    def is_quiet(self) -> bool:
        """Whether no task of this session runs anywhere any more, as far as can be known."""
        ...

    def work(self) -> Work | None:
        """None while nothing runs, or where it cannot be known."""
        ...

    def death(self) -> ExitStatus | None:
        """Of the driver; None while it lives, and where that cannot be known."""
        ...

    def close(self) -> None: ...


class Engine(Protocol):
    def start(self) -> None:
        """`SetupError` where Spark cannot be had."""
        ...

    def session(self, settings: Mapping[str, str]) -> Session: ...

    def close(self) -> None: ...


def blame(session: Session, error: Exception) -> Exception:
    """What a body raises whose driver has died names sockets and gateways: then it is the death that counts."""
    death = session.death()
    if death is None:
        return error
    return WorkspaceError(
        f"the Spark driver {death} while the body ran; if the machine ran out of memory, have it hold less at once, "
        "lower spark.driver.memory, or run fewer of them (-j)"
    )
