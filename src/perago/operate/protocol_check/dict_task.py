"""A task without an author, on a workspace without a disk: a dictionary of files that is read from and written to a lake."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, cast

from perago import events
from perago.attempt.port import DataChecks
from perago.declare import checks
from perago.declare.checks import When
from perago.errors import TaskInputError
from perago.lake.port import Lake
from perago.model import (
    BranchName,
    ChangeCounts,
    CommitId,
    FilePath,
    Listing,
    ObjectPath,
    Repository,
    TaskInput,
    UncheckedFill,
    WorkspaceRef,
)

Files = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class DictChange:
    uploads: Mapping[str, bytes]
    deletes: tuple[str, ...]
    added: int = 0
    """So many of the uploads are new files."""

    @property
    def is_empty(self) -> bool:
        return not self.uploads and not self.deletes

    @property
    def counts(self) -> ChangeCounts:
        size = sum(map(len, self.uploads.values()))
        return ChangeCounts(self.added, len(self.uploads) - self.added, len(self.deletes), size)


class DictWorkspace:
    """Implements `perago.attempt.port.AttemptWorkspace`; the body gets a dictionary of files and changes it."""

    needs_branch_before_body = False

    def __init__(self, lake: Lake, source: WorkspaceRef, prefix: str = "") -> None:
        self._lake, self._source, self._prefix = lake, source, prefix
        self._before: Files = {}
        self.files: Files = {}

    def open(self) -> None:
        page = self._lake.objects(self._source.repository, self._source.ref, self._prefix)
        with tempfile.TemporaryDirectory(prefix="perago-testing-") as directory:
            for number, info in enumerate(page.objects):
                at = Path(directory) / str(number)
                self._lake.read(self._source.repository, self._source.ref, info, at)
                self._before[info.path.removeprefix(self._prefix)] = at.read_bytes()
        self.files = dict(self._before)

    def listing(self) -> Listing:
        return Listing([FilePath(path) for path in sorted(self.files)])

    def inspection(self) -> NoReturn:
        raise AssertionError("its tasks declare no data checks")

    def attach(self, branch: BranchName) -> None:
        raise AssertionError(f"not asked for: {branch}")

    def argument(self) -> Files:
        return self.files

    def blame(self, error: Exception) -> Exception:
        return error

    def settle(self) -> None:
        """Nothing writes to a dictionary once the body has returned."""

    def verify_input(self) -> None:
        """Nothing to do: everything was verified when it was read."""

    def changed(self) -> DictChange:
        uploads = {path: data for path, data in sorted(self.files.items()) if self._before.get(path) != data}
        added = len(uploads.keys() - self._before.keys())
        return DictChange(uploads, tuple(sorted(self._before.keys() - self.files.keys())), added)

    def fill(self, branch: BranchName) -> None:
        change = self.changed()
        if change.deletes:
            self._lake.delete_objects(
                self._source.repository, branch, [ObjectPath(self._prefix + path) for path in change.deletes]
            )
        for path, data in change.uploads.items():
            upload(self._lake, self._source.repository, branch, self._prefix + path, data)

    def fill_unchecked(self, branch: BranchName, emit: events.Emit) -> UncheckedFill:
        del emit
        self.fill(branch)
        return UncheckedFill(self.changed().counts)

    def published(self) -> None:
        """Nothing is left besides what `close` removes."""

    def close(self) -> None:
        """Nothing is left outside of memory."""


def upload(lake: Lake, repository: Repository, branch: BranchName, path: str, data: bytes) -> None:
    """Bytes onto a branch, uncommitted."""
    with tempfile.NamedTemporaryFile(prefix="perago-testing-") as file:
        file.write(data)
        file.flush()
        lake.write(repository, branch, ObjectPath(path), Path(file.name), content_type="application/octet-stream", metadata={})


def _nothing(_files: Files) -> object:
    return {}


@dataclass(frozen=True, slots=True)
class DictTask:
    """Implements `perago.attempt.port.Task` for a `DictWorkspace`, with as little contract as possible."""

    run: Callable[[Files], object] = _nothing
    read_only: bool = False
    prepares_publication: bool = False

    def accept(self, task_input: Mapping[str, Any]) -> TaskInput:
        given = task_input.get("workspace")
        if not isinstance(given, Mapping):
            raise TaskInputError("workspace: Field required")
        fields = cast("Mapping[str, str]", given)
        ref = WorkspaceRef(Repository(fields["repository"]), BranchName(fields["branch"]), CommitId(fields["ref"]))
        return TaskInput(ref, task_input.get("params"))

    def check_before(self, listing: Listing) -> None:
        """Every workspace passes."""

    def body(self, workspace: object, params: object) -> object:
        del params
        return self.run(cast("Files", workspace))

    def result(self, returned: object) -> Mapping[str, Any]:
        return cast("Mapping[str, Any]", returned or {})

    def check_after(self, listing: Listing) -> None:
        """Every workspace passes."""

    def data_checks(self, when: When) -> DataChecks:
        """None: a dictionary has no tables."""
        del when
        return DataChecks()

    def refuse(self, violations: Sequence[str], when: When, log: Sequence[str]) -> None:
        checks.refuse(violations, when, tuple(log))


def workspace_input(target: WorkspaceRef) -> dict[str, Any]:
    """Conductor's input of a workspace task without parameters."""
    return {"workspace": target.as_json(), "params": {}}
