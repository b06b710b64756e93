"""The staging branch of one execution: created from the input commit, committed to, and always deleted again."""

import contextlib
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Self

from perago.attempt import instrumentation
from perago.errors import LakeConflict, LakeNotFound, PublishFenceError
from perago.events import Effect
from perago.lake import port as lake_port
from perago.model import Attempt, BranchName, Commit, CommitId, ExecutionId, Handle, StagedCommit, WorkspaceRef
from perago.protocol import staging_names

_TAKE_OVER_SECONDS = 60.0


@dataclass(slots=True)
class Staging:
    """The right of one execution to publish: deleting its branch revokes it. Leaving the context deletes the branch."""

    lake: lake_port.Lake
    recorder: instrumentation.EffectRecorder
    attempt: Attempt
    execution: ExecutionId
    target: WorkspaceRef
    handle: Handle | None = field(default=None, init=False)
    """The branch at the input commit, once it was created."""
    name: BranchName = field(init=False)
    _cleanup: contextlib.ExitStack = field(default_factory=contextlib.ExitStack, init=False)

    def __post_init__(self) -> None:
        self.name = staging_names.staging_branch(self.attempt, self.execution, self.target.branch)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def create(self) -> Handle:
        """The branch at the input commit, created at the first call."""
        if self.handle is None:
            self.handle = self._cleanup.enter_context(self._branch(self.name, self.target.ref))
        return self.handle

    @contextlib.contextmanager
    def second_handle(self, commit: CommitId, mark: str) -> Generator[Handle]:
        """A second staging branch, at another commit than the input. `mark` distinguishes the names by purpose."""
        name = staging_names.staging_branch(self.attempt, ExecutionId(self.execution + mark), self.target.branch)
        with self._branch(name, commit) as handle:
            yield handle

    def commit(self, handle: Handle, message: str, labels: Mapping[str, str]) -> StagedCommit | None:
        """Commit what was brought onto the branch; None where nothing differs from the input."""
        with self.recorder.record(Effect.COMMIT):
            try:
                made = self.lake.commit_branch(handle.repository, handle.branch, message, labels)
            except LakeConflict:
                if any(self.lake.uncommitted(handle.repository, handle.branch)):
                    raise
                return None
        if made.parents != (self.target.ref,):
            raise PublishFenceError("the staging branch holds a commit that this attempt did not make")
        return StagedCommit(handle.repository, handle.branch, made.id, made.meta_range_id)

    def take_over(self, handle: Handle, composed: Commit, message: str, labels: Mapping[str, str]) -> StagedCommit:
        """Commit the content of `composed`, which descends from the input.

        The branch stands at the input, so lakeFS merges nothing: the new commit has the content of the composed one.
        """
        with self.recorder.record(Effect.COMMIT):
            made = self.lake.commit(
                handle.repository,
                self.lake.merge(
                    handle.repository, composed.id, handle.branch, message=message, metadata=labels, timeout=_TAKE_OVER_SECONDS
                ),
            )
        if made.parents != (self.target.ref,) or made.meta_range_id != composed.meta_range_id:
            raise PublishFenceError("the staging branch holds a commit that this attempt did not make")
        return StagedCommit(handle.repository, handle.branch, made.id, made.meta_range_id)

    @contextlib.contextmanager
    def _branch(self, name: BranchName, commit: CommitId) -> Generator[Handle]:
        with self.recorder.record(Effect.CREATE_STAGING_BRANCH):
            self._create(name, commit)
        try:
            yield Handle(self.target.repository, name, commit)
        finally:
            self._clean_up(name)

    def _create(self, name: BranchName, commit: CommitId) -> None:
        try:
            self.lake.create_branch(self.target.repository, name, commit)
        except LakeConflict as error:
            raise PublishFenceError(
                "the staging branch of this execution exists already: another one works under its id"
            ) from error
        except BaseException:
            # The request may have succeeded although no answer arrived.
            self._clean_up(name)
            raise

    def _clean_up(self, name: BranchName) -> None:
        def delete() -> None:
            # Another attempt may have revoked it.
            with contextlib.suppress(LakeNotFound):
                self.lake.delete_branch(self.target.repository, name)

        self.recorder.clean_up(Effect.DELETE_STAGING_BRANCH, delete, "failed to clean staging workspace")
