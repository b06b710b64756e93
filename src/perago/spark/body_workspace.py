"""The workspace argument of a Spark task's body: URIs for Spark, and small text files. Paths are validated as in checks."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from perago.declare import globs, relative_path
from perago.declare.spark_workspace import SparkWorkspace
from perago.errors import TaskTerminalError
from perago.lake import port
from perago.model import BranchName, CommitId, FilePath, ObjectInfo, ObjectPath, Repository, is_marker
from perago.spark import s3a
from perago.workspace import path_mapping

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class WorkspaceStorage(Protocol):
    """The files of a workspace; every `path` is relative and validated."""

    def input(self, path: str) -> str: ...
    def output(self, path: str) -> str: ...
    def files(self) -> Iterator[FilePath]: ...
    def read(self, path: str) -> bytes: ...
    def write(self, path: str, data: bytes) -> None: ...


class BodyWorkspace(SparkWorkspace):
    def __init__(self, spark: "SparkSession", storage: WorkspaceStorage) -> None:
        self._spark = spark
        self._storage = storage

    @property
    def spark(self) -> "SparkSession":
        return self._spark

    def input(self, path: str) -> str:
        return self._storage.input(validated_path(path))

    def output(self, path: str) -> str:
        return self._storage.output(validated_path(path))

    def list(self, glob: str = "**") -> Sequence[FilePath]:
        return [FilePath(path) for path in globs.matching(validated_path(glob), self._storage.files())]

    def read_text(self, path: str) -> str:
        return self._storage.read(validated_path(path)).decode()

    def write_text(self, path: str, text: str) -> None:
        self._storage.write(validated_path(path), text.encode())


def validated_path(path: object) -> str:
    """The path as text; `TaskTerminalError` if it leaves the workspace, because a retry cannot correct the author's mistake."""
    given = relative_path.as_text(path)
    if not isinstance(given, str):
        raise TaskTerminalError(f"a path in a workspace is a str or a PurePath, not {path!r}")
    if given.startswith("/") or "://" in given:
        raise TaskTerminalError(f"{given!r} is absolute; write it relative to the workspace root")
    if (wrong := relative_path.problem(given.removesuffix("/"))) is not None:
        raise TaskTerminalError(wrong)
    return given.removesuffix("/")


def require_writable(writes: bool) -> None:
    if not writes:
        raise TaskTerminalError("the task is read-only: it has no output; declare WorkspaceSpec(read_only=False) to write")


def file_not_found(path: str) -> FileNotFoundError:
    return FileNotFoundError(f"there is no file {path!r} in the workspace")


@dataclass(frozen=True, slots=True)
class LakeStorage:
    """The input commit, and the staging branch where there is one. Implements `WorkspaceStorage`."""

    lake: port.Lake
    repository: Repository
    commit: CommitId
    branch: BranchName | None
    prefix: str

    def input(self, path: str) -> str:
        return s3a.base(self.repository, self.commit, self.prefix) + path

    def output(self, path: str) -> str:
        return s3a.base(self.repository, self._writable(), self.prefix) + path

    def files(self) -> Iterator[FilePath]:
        return files(self.lake, self.repository, self._current_ref, self.prefix)

    def read(self, path: str) -> bytes:
        info = self._find(path)
        with tempfile.TemporaryDirectory(prefix="perago-spark-") as directory:
            self.lake.read(self.repository, self._current_ref, info, Path(directory) / "object")
            return (Path(directory) / "object").read_bytes()

    def write(self, path: str, data: bytes) -> None:
        branch, target = self._writable(), path_mapping.to_object(self.prefix, FilePath(path))
        with tempfile.TemporaryDirectory(prefix="perago-spark-") as directory:
            source = Path(directory) / "object"
            source.write_bytes(data)
            self.lake.write(self.repository, branch, target, source, content_type="text/plain; charset=utf-8", metadata={})

    @property
    def _current_ref(self) -> port.Ref:
        return self.branch or self.commit

    def _writable(self) -> BranchName:
        require_writable(self.branch is not None)
        return cast("BranchName", self.branch)

    def _find(self, path: str) -> ObjectInfo:
        wanted = self.prefix + path
        page = self.lake.objects(self.repository, self._current_ref, wanted)
        info = next((info for info in page.objects if info.path == wanted), None)
        if info is None:
            raise file_not_found(path)
        return info


def files(lake: port.Lake, repository: Repository, ref: port.Ref, prefix: str) -> Iterator[FilePath]:
    """The files under `prefix`. Names that no local disk can hold are allowed, because Spark can read them."""
    return (path for path, _ in sizes(lake, repository, ref, prefix))


def sizes(lake: port.Lake, repository: Repository, ref: port.Ref, prefix: str) -> Iterator[tuple[FilePath, int]]:
    """The files under `prefix` with their sizes."""
    after: ObjectPath | None = None
    while True:
        page = lake.objects(repository, ref, prefix, after)
        for info in page.objects:
            local = info.path[len(prefix) :]
            is_directory = not local or local.endswith("/")
            if not is_directory and not is_marker(local) and not info.path.startswith(path_mapping.HOOKS_PREFIX):
                yield FilePath(local), info.size
        after = page.after
        if after is None:
            return
