"""The check that a merge under way can be stopped: a hook of lakeFS keeps it under way meanwhile."""

import contextlib
import threading
import time
from dataclasses import dataclass

from perago.errors import LakeError, LakeNotFound, LakeRejected
from perago.model import BranchName
from perago.operate.protocol_check.assertions import Unobservable, require
from perago.operate.protocol_check.dict_task import upload
from perago.operate.protocol_check.scene import SECONDS, Scene

_HOOK_SECONDS = 1.5
"""How long the hook keeps a merge under way."""
_PATIENCE_SECONDS = 10.0
_SIGNAL = "-signal"


def interruption(scene: Scene) -> None:
    """A merge under way is not applied once its branch was deleted and the target's updates were interrupted"""
    require(not _is_applied(scene, "interrupted", interrupts=True), "it was applied")
    require(scene.head().id == scene.a, "the target moved")
    if not _is_applied(scene, "deleted", interrupts=False):
        raise Unobservable("here lakeFS refuses a merge under way whose branch is deleted even if updates are not interrupted")


def _is_applied(scene: Scene, name: str, *, interrupts: bool) -> bool:
    source = _waiting_merge(scene, name)
    request = _Request(scene, source)
    thread = threading.Thread(target=request.send, daemon=True)
    thread.start()
    try:
        _wait_for_hook(scene, source, thread)
        scene.lake.delete_branch(scene.repository, source)
        if interrupts:
            scene.lake.interrupt_updates(scene.repository, scene.branch)
        if not thread.is_alive():
            raise Unobservable("the merge ended before it could be interrupted; try again")
    finally:
        thread.join(SECONDS)
    if request.error is not None:
        raise request.error
    return not request.was_refused


@dataclass(slots=True)
class _Request:
    """A merge in a thread of its own."""

    scene: Scene
    source: BranchName
    was_refused: bool = False
    error: LakeError | None = None

    def send(self) -> None:
        try:
            self.scene.merge(self.source)
        except LakeNotFound:
            self.was_refused = True
        except LakeError as error:
            self.error = error


def _waiting_merge(scene: Scene, name: str) -> BranchName:
    """A branch whose merge takes a while: its own action file makes lakeFS make a tag, as a signal, and then wait."""
    source = BranchName(f"{scene.branch}-{name}")
    scene.lake.create_branch(scene.repository, source, scene.a)
    upload(scene.lake, scene.repository, source, f"_lakefs_actions/{source}.yaml", _waiting_hook(scene.branch, source).encode())
    try:
        scene.lake.commit_branch(scene.repository, source, "a merge that waits", {})
    except LakeRejected as error:
        raise Unobservable(f"a hook that keeps a merge under way cannot be installed: {error}") from error
    return source


def _waiting_hook(target: BranchName, source: BranchName) -> str:
    return f"""\
name: {source}
on:
  pre-merge:
    branches: ["{target}"]
hooks:
  - id: keep_under_way
    type: lua
    properties:
      script: |
        local time = require("time")
        local lakefs = require("lakefs")
        lakefs.create_tag(action.repository_id, action.commit.parents[1], "{source}{_SIGNAL}")
        time.sleep({int(_HOOK_SECONDS * 1e9)})
"""


def _wait_for_hook(scene: Scene, source: BranchName, thread: threading.Thread) -> None:
    """Until the tag is there that the hook makes."""
    tag = BranchName(f"{source}{_SIGNAL}")
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while thread.is_alive() and time.monotonic() < deadline:
        with contextlib.suppress(LakeNotFound):
            scene.lake.commit(scene.repository, tag)
            return
        time.sleep(0.02)
    raise Unobservable("lakeFS does not run Lua hooks (actions.enabled), so no merge can be kept under way")
