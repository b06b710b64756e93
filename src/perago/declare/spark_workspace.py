"""What a Spark task body is given. Only the shape stands here, so that declaring a Spark task needs no pyspark."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from perago.model import FilePath

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INSTALL = "pip install 'perago[spark]'"


class SparkWorkspace(ABC):
    """A workspace that Spark reads and writes in lakeFS directly. Paths are relative to the workspace root, as in checks."""

    @property
    @abstractmethod
    def spark(self) -> "SparkSession":
        """A session with lakeFS wired in."""

    @abstractmethod
    def input(self, path: str) -> str:
        """The URI of `path` at the input commit: always safe to read, also while the same path is overwritten."""

    @abstractmethod
    def output(self, path: str) -> str:
        """The URI of `path` on this execution's staging branch, which begins as the input; raises on a read-only task."""

    @abstractmethod
    def list(self, glob: str = "**") -> Sequence[FilePath]:
        """The files that match, as the body sees them now."""

    @abstractmethod
    def read_text(self, path: str) -> str: ...

    @abstractmethod
    def write_text(self, path: str, text: str) -> None: ...
