"""The interface of the workspace that a Spark task body gets. Abstract, so that declaring a Spark task needs no pyspark."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from perago.model import FilePath

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_PACKAGES = ("pyspark>=4.2,<4.3",)
CONNECT_PACKAGES = ("pyspark[connect]>=4.2,<4.3", "pandas>=2.2,<3")
"""As in the extras `spark` and `connect` of pyproject.toml."""


def install_command(packages: Sequence[str]) -> str:
    """The command that error messages show. It names the packages themselves, so it works however Perago was installed."""
    return " ".join(["pip install", *(f"'{package}'" for package in packages)])


class SparkWorkspace(ABC):
    """A workspace that Spark reads and writes directly in lakeFS. Paths are relative to the workspace root, as in checks."""

    @property
    @abstractmethod
    def spark(self) -> "SparkSession":
        """A session that is configured for lakeFS."""

    @abstractmethod
    def input(self, path: str) -> str:
        """The URI of `path` at the input commit: safe to read even while the same path is overwritten."""

    @abstractmethod
    def output(self, path: str) -> str:
        """The URI of `path` on this execution's staging branch, which starts as the input; raises in a read-only task."""

    @abstractmethod
    def list(self, glob: str = "**") -> Sequence[FilePath]:
        """The files that match, as the body sees them now."""

    @abstractmethod
    def read_text(self, path: str) -> str: ...

    @abstractmethod
    def write_text(self, path: str, text: str) -> None: ...
