"""Try and Cancel: the staging branch of one execution, made from the input commit, committed, and always deleted again."""

import contextlib
from collections.abc import Generator
from dataclasses import dataclass, field

from perago import events
from perago.attempt import instrumentation
from perago.errors import LakeConflict, LakeNotFound, PublishFenceError, StaleAttemptError
from perago.lake import port as lake_port
from perago.model import Attempt, BranchName, CommitId, ExecutionId, Staged, WorkspaceRef
from perago.protocol import commit_labels, staging_names


@dataclass(frozen=True, slots=True)
class Staging:
    """One execution's right to publish: deleting its branch takes it away."""

    lake: lake_port.Lake
    effects: instrumentation.Effects
    attempt: Attempt
    execution: ExecutionId
    target: WorkspaceRef
    workflow_created: int
    """Of the attempt's own workflow, as the attempt fence read it."""
    name: BranchName = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", staging_names.staging_branch(self.attempt, self.execution, self.target.branch))

    @contextlib.contextmanager
    def branch(self) -> Generator[Staged]:
        """The branch at the input commit: a handle as it stands, and where the change is brought to. Deleted on the way out."""
        with self._made(self.name, self.target.ref) as staged:
            yield staged

    @contextlib.contextmanager
    def second_handle(self, commit: CommitId, mark: str) -> Generator[Staged]:
        """A handle at another commit than the input; `mark` says what for."""
        name = staging_names.staging_branch(self.attempt, ExecutionId(self.execution + mark), self.target.branch)
        with self._made(name, commit) as staged:
            yield staged

    @contextlib.contextmanager
    def _made(self, name: BranchName, commit: CommitId) -> Generator[Staged]:
        with self.effects.of(events.Phase.STAGE, "create staging branch"):
            self._create(name, commit)
        try:
            yield Staged(self.target.repository, name, commit)
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
            # It may be there although the answer did not say so.
            self._clean_up(name)
            raise

    def _clean_up(self, name: BranchName) -> None:
        self.effects.clean_up("delete staging branch", lambda: self.delete(name), "failed to clean staging workspace")

    def delete(self, name: BranchName) -> None:
        """Gone is gone, by whatever request."""
        with contextlib.suppress(LakeNotFound):
            self.lake.delete_branch(self.target.repository, name)

    def commit(self, staged: Staged) -> Staged:
        """Commit what was brought onto the branch. If nothing differs from the input after all, it stays a handle."""
        with self.effects.of(events.Phase.STAGE, "commit"):
            try:
                made = self.lake.commit_branch(staged.repository, staged.branch, self.message, self.labels)
            except LakeConflict:
                if any(self.lake.uncommitted(staged.repository, staged.branch)):
                    raise
                return staged
        if made.parents != (self.target.ref,):
            raise PublishFenceError("the staging branch holds a commit that this attempt did not make")
        return Staged(staged.repository, staged.branch, made.id, made.meta_range_id)

    @property
    def labels(self) -> dict[str, str]:
        return commit_labels.write(self.attempt, self.execution, self.target.ref, self.workflow_created)

    @property
    def message(self) -> str:
        return f"{self.attempt.task_type}: {self.attempt.reference_name}"


def revoked() -> StaleAttemptError:
    return StaleAttemptError("another attempt took this one's right to publish by deleting its staging branch")
