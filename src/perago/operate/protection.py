"""The optional fence inside lakeFS: an action file on a branch, whose hooks refuse what does not follow the protocol."""

import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from perago.lake.port import Lake, Ref, SmallFile
from perago.model import BranchName, Commit, Handle, ObjectPath, Repository, WorkspaceRef
from perago.operate import branch_move, objects
from perago.operate.servers import Servers
from perago.protocol import commit_labels
from perago.workspace import path_mapping

_SHOWN = 16
"""So many characters of a commit id: clients cut long messages of hooks."""


class State(StrEnum):
    INSTALLED = "installed"
    OUTDATED = "outdated"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class HookChange:
    """What `perago protect` is about to do, or did."""

    path: ObjectPath
    before: State
    is_removal: bool

    @property
    def is_needed(self) -> bool:
        return self.before is not (State.ABSENT if self.is_removal else State.INSTALLED)


def path_of(branch: BranchName) -> ObjectPath:
    return ObjectPath(f"{path_mapping.HOOKS_PREFIX}perago_protect_{branch}.yaml")


def action_file(branch: BranchName) -> str:
    """Hooks run inside the update that moves the branch, so the head that they compare is the head that is replaced."""
    return f"""\
# Written by `perago protect`; `perago protect --remove` takes it away.
name: perago_protect_{branch}
on:
  pre-merge:
    branches: ["{branch}"]
  pre-commit:
    branches: ["{branch}"]
  pre-cherry-pick:
    branches: ["{branch}"]
  pre-revert:
    branches: ["{branch}"]
hooks:
  - id: expected_head
    type: lua
    properties:
      script: |
        if action.event_type ~= "pre-merge" then
          error("a branch under perago protect takes merges only")
        end
        local expected = action.commit.metadata["{commit_labels.EXPECTED_HEAD}"]
        local current = action.commit.parents[1]
        if expected ~= current then
          local found = "the head is " .. string.sub(tostring(current), 1, {_SHOWN})
          error(found .. ", {commit_labels.EXPECTED_HEAD} is " .. string.sub(tostring(expected), 1, {_SHOWN}))
        end
"""


def state(lake: Lake, repository: Repository, ref: Ref, branch: BranchName) -> State:
    found = objects.find(lake, repository, ref, path_of(branch))
    if found is None:
        return State.ABSENT
    with tempfile.TemporaryDirectory(prefix="perago-protect-") as directory:
        read = Path(directory) / "action"
        lake.read(repository, ref, found, read)
        return State.INSTALLED if read.read_text(errors="replace") == action_file(branch) else State.OUTDATED


def other_actions(lake: Lake, repository: Repository, ref: Ref) -> list[str]:
    """Action files that Perago did not write."""
    listed = (info.path for info in lake.objects(repository, ref, path_mapping.HOOKS_PREFIX).objects)
    return [path for path in listed if not path.startswith(f"{path_mapping.HOOKS_PREFIX}perago_protect_")]


def change(lake: Lake, repository: Repository, branch: BranchName, *, is_removal: bool) -> HookChange:
    return HookChange(path_of(branch), state(lake, repository, lake.branch(repository, branch), branch), is_removal)


def apply(servers: Servers, repository: Repository, branch: BranchName, wanted: HookChange) -> Commit:
    """Commit the file on a staging branch and merge that one: the branch itself is never written to directly.

    `PublishFenceError` says why the branch was left alone.
    """
    lake = servers.lake
    base = lake.head(repository, branch)
    operation = branch_move.begin(servers, "protect", WorkspaceRef(repository, branch, base.id))
    verb = "remove" if wanted.is_removal else "install"
    labels = commit_labels.write_command(commit_labels.PROTECT, verb, operation.staging.execution, base.id)
    message = f"perago protect: {verb} the hooks of branch {branch}"

    def stage(handle: Handle) -> Commit:
        if wanted.is_removal:
            lake.delete_objects(repository, handle.branch, [wanted.path])
        else:
            file = SmallFile(wanted.path, action_file(branch).encode(), "application/yaml", {})
            list(lake.write_small(repository, handle.branch, [file]))
        return lake.commit_branch(repository, handle.branch, message, labels)

    return operation.publish(stage, message, labels)
