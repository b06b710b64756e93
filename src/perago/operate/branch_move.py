"""An operator's right to move a branch: a staging branch like those of attempts, which every attempt sees and may delete."""

import getpass
import socket
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import urandom

from perago import events, human_units
from perago.attempt import instrumentation
from perago.attempt.restore import Restoration
from perago.attempt.staging import Staging
from perago.attempt.target_branch import TargetBranch
from perago.conductor.direct_fence import DirectFence
from perago.errors import LakeConflict, LakeNotFound, LakeRejected, LakeUnknown, PublishFenceError, PublishUnknownError
from perago.model import Attempt, Commit, Handle, TaskId, TaskType, WorkerId, WorkflowId, WorkspaceRef
from perago.operate.servers import Servers
from perago.protocol import rivals, staging_names

PUBLISH_SECONDS = 60.0
_LONGEST = 2 * PUBLISH_SECONDS
"""Seconds after which the staging branch of another command counts as left behind. A wrong clock can only make a command fail."""
_COMMAND = "perago-"
"""Begins what stands for the workflow in the names of the staging branches of commands."""


@dataclass(frozen=True, slots=True)
class Operation:
    """`staging` and `branch` of an execution that Conductor never heard of: an attempt that publishes meanwhile goes first.

    Of two commands, the one that began first goes first.
    """

    staging: Staging
    branch: TargetBranch

    @property
    def restoration(self) -> Restoration:
        return Restoration(self.staging, self.branch, PUBLISH_SECONDS)

    def publish(
        self,
        stage: Callable[[Handle], Commit],
        message: str,
        labels: Mapping[str, str],
        outdated: Callable[[], str | None] = lambda: None,
    ) -> Commit:
        """Merge the commit that `stage` makes on a staging branch at the head; the branch itself is never written to directly.

        `outdated` is called when the rivals are listed, and says why the branch must be left alone after all.
        `PublishFenceError` says why the branch was left alone, `PublishUnknownError` that lakeFS did not answer.
        """
        base = self.staging.target.ref
        with self.staging as staging:
            handle = staging.create()
            staged = stage(handle)
            if (why := self._claim() or outdated()) is not None:
                raise self._left_alone(why)
            self.branch.require_still(base)
            made = self._merge(handle, staged, message, labels)
        if made.parents != (base,) or made.meta_range_id != staged.meta_range_id:
            raise PublishFenceError(
                f"branch {self.staging.target.branch} moved in the meantime: {made.id} stands on {made.first_parent}, not on "
                f"{base}; run perago doctor {handle.repository}/{self.staging.target.branch}"
            )
        return made

    def _merge(self, handle: Handle, staged: Commit, message: str, labels: Mapping[str, str]) -> Commit:
        lake, target = self.staging.lake, self.staging.target
        try:
            merged = lake.merge(
                handle.repository, handle.branch, target.branch, message=message, metadata=labels, timeout=PUBLISH_SECONDS
            )
        except LakeNotFound as error:
            raise self._left_alone("another attempt or command is about to publish to it; try again") from error
        except (LakeRejected, LakeConflict) as error:
            raise self._left_alone(f"lakeFS refused the merge ({error}); try again") from error
        except LakeUnknown as error:
            found = self.branch.read_head()
            if found.meta_range_id == staged.meta_range_id and labels.items() <= found.metadata.items():
                return found
            raise PublishUnknownError(
                f"the merge into branch {target.branch} broke off and its head does not show the result; look again later"
            ) from error
        return lake.commit(handle.repository, merged)

    def _left_alone(self, why: str) -> PublishFenceError:
        return PublishFenceError(f"branch {self.staging.target.branch} was left alone: {why}")

    def _claim(self) -> str | None:
        """Revoke every rival. Where one goes first, none is revoked, and the result says which."""
        names = self.branch.list_rivals(but=[self.staging.name])
        known = [self.branch.ask_about(name) for name in names]
        live = [str(rival) for rival in known if rivals.is_live(rival, self.staging.attempt)]
        if live:
            return f"{', '.join(live)} is about to publish to it"
        why = self._first_of(names)
        if why is None:
            self.branch.revoke(known)
        return why

    def earlier_command(self) -> str | None:
        """Why another command goes first, if one does."""
        return self._first_of(self.branch.list_rivals(but=[self.staging.name]))

    def _first_of(self, names: Sequence[staging_names.StagingName]) -> str | None:
        name = next(filter(self._goes_first, names), None)
        if name is None:
            return None
        return (
            f"another perago {(name.workflow_id or '').removeprefix(_COMMAND)} is about to publish to it; run the command again "
            f"when that one has ended, or after {human_units.show_seconds(_LONGEST)} if it was killed"
        )

    def _goes_first(self, name: staging_names.StagingName) -> bool:
        """Whether it belongs to another command that has precedence. Two commands that revoked each other would both fail.

        Both sides compare the execution ids, which begin with the time, so only one of them revokes the other.
        """
        is_command = (name.workflow_id or "").startswith(_COMMAND) and name.reference_name == name.workflow_id
        is_recent = name.made_at is not None and time.time() - name.made_at < _LONGEST
        return is_command and is_recent and (name.execution_id or "") < self.staging.execution


def begin(servers: Servers, command: str, target: WorkspaceRef, emit: events.Emit = events.ignore) -> Operation:
    """`command` names the operation in the staging branch, so that one that was left tells its origin."""
    name = f"{_COMMAND}{command}"
    attempt = Attempt(
        WorkflowId(name), TaskId(str(uuid.uuid4())), 0, name, 0, 0, TaskType(name), WorkerId(""), start_time=0, poll_count=0
    )
    recorder = instrumentation.EffectRecorder(emit, time.monotonic)
    execution = staging_names.execution_id(time.time(), urandom(8))
    staging = Staging(servers.lake, recorder, attempt, execution, target)
    fence = DirectFence(servers.conductor, lease=0)
    return Operation(staging, TargetBranch(servers.lake, fence, recorder, attempt, target))


def operator() -> str:
    """For readers of the history; nothing depends on it."""
    return f"{login_name()}@{socket.gethostname()}"


def login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
