"""The folder that `perago checkout` makes: the files of a human step's workspace, and a marker that says which task it is of.

The marker names servers, task and commit, and no credentials. Its lock is held while a process publishes the folder, so that the
next one knows whether an earlier one has ended.
"""

import hashlib
import json
import os
import secrets
import shutil
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from perago import events
from perago.errors import SetupError
from perago.lake import transfer
from perago.model import CHECKOUT_NAME, CommitId, ExecutionId, FilePath, WorkspaceRef
from perago.operate import objects
from perago.operate.human_tasks.waiting import HumanTask
from perago.operate.servers import Servers
from perago.process.lock_file import LockFile
from perago.protocol import staging_names
from perago.workspace import options, path_mapping
from perago.workspace.transfer import download

VERSION = 1
_KEY_LENGTH = 8


@dataclass(frozen=True, slots=True)
class Marker:
    """What a folder was checked out from."""

    task_id: str
    workflow_id: str
    step: str
    pipeline: str
    conductor: str
    """Address of the server."""
    lakefs: str
    repository: str
    branch: str
    ref: str
    prefix: str
    nonce: str
    """Random, made with the folder."""
    digests: Mapping[str, str]
    """The MD5 of the files for which lakeFS has another checksum."""
    version: int = VERSION

    @property
    def workspace(self) -> tuple[str, str, str]:
        return self.repository, self.branch, self.ref


_MARKER: TypeAdapter[Marker] = TypeAdapter(Marker)


@dataclass(frozen=True, slots=True)
class Checkout:
    """A folder whose marker is locked by this process."""

    folder: Path
    marker: Marker
    lock: LockFile

    def execution_id(self, now: float) -> ExecutionId:
        """For a publication of this folder. Begins as all of its publications do, so that later ones recognise it."""
        made = staging_names.execution_id(now, bytes.fromhex(self._key) + secrets.token_bytes(4))
        return ExecutionId(made + staging_names.PERSON)

    def has_ended(self, execution: ExecutionId) -> bool:
        """Whether it is an earlier publication of this folder: this process holds the lock, so its process has ended."""
        return execution[_KEY_LENGTH : 2 * _KEY_LENGTH] == self._key

    @property
    def _key(self) -> str:
        """Of this folder on this machine; a copy of it has another."""
        status = os.fstat(self.lock.descriptor)
        text = f"{self.marker.nonce} {socket.gethostname()} {status.st_dev} {status.st_ino}"
        return hashlib.sha256(text.encode()).hexdigest()[:_KEY_LENGTH]


def make(servers: Servers, task: HumanTask, folder: Path, emit: events.Emit = events.ignore) -> Marker:
    """Download the workspace into a new or empty folder; `SetupError` for any other."""
    given = task.read()
    if given.workspace is None or given.form.workspace is None:
        raise SetupError(f"task {task.id} has no workspace: there is nothing to check out; answer it with perago approve")
    created = _require_empty(folder)
    prefix = path_mapping.listing_prefix(given.form.workspace.prefix)
    try:
        limits = options.WorkspaceOptions(folder, cache_bytes=0)
        source = download.Source(given.workspace.repository, given.workspace.ref, prefix)
        made = download.download(servers.lake, source, folder, limits.make_cache(), limits, emit)
        digests = {str(path): made.manifest[path].md5 or "" for path in _other_checksums(servers, given.workspace, prefix)}
        marker = _marker(servers, task, given.workspace, prefix, digests)
        (folder / CHECKOUT_NAME).write_text(json.dumps(asdict(marker), indent=1), encoding="utf-8")
    except BaseException:
        _empty(folder, remove=created)
        raise
    return marker


def open_folder(folder: Path) -> Checkout:
    """`SetupError` for a folder that was not checked out, and while another process publishes it."""
    path = folder / CHECKOUT_NAME
    try:
        lock = LockFile(path, flags=os.O_NOFOLLOW)
    except BlockingIOError:
        raise SetupError(f"{folder} is being published by another process; wait until it has ended") from None
    except OSError:
        raise SetupError(f"{folder} was not made by perago checkout: it has no {CHECKOUT_NAME}") from None
    try:
        return Checkout(folder, _MARKER.validate_json(path.read_bytes(), strict=True, extra="forbid"), lock)
    except (ValidationError, OSError):
        lock.close()
        raise SetupError(
            f"{path} is not as this version of Perago writes it; check out the task into another folder and copy your files"
        ) from None


def require_of_task(marker: Marker, task: HumanTask) -> None:
    """`SetupError` if the folder's files are not those of the task, as after the marker was edited."""
    workspace, spec = task.read().workspace, task.read().form.workspace
    of_task = None if workspace is None or spec is None else (workspace.repository, workspace.branch, workspace.ref)
    of_step = task.attempt.workflow_id, task.attempt.reference_name
    prefix = "" if spec is None else path_mapping.listing_prefix(spec.prefix)
    ours = (marker.version, marker.workspace, (marker.workflow_id, marker.step), marker.prefix)
    if ours != (VERSION, of_task, of_step, prefix):
        raise SetupError(
            f"the folder is not of task {task.id}: it was checked out for step {marker.step} of run {marker.workflow_id} at "
            f"commit {marker.ref}; check out the task into another folder and copy your files"
        )


def _marker(servers: Servers, task: HumanTask, workspace: WorkspaceRef, prefix: str, digests: Mapping[str, str]) -> Marker:
    return Marker(
        task_id=task.id,
        workflow_id=task.attempt.workflow_id,
        step=task.attempt.reference_name,
        pipeline=task.pipeline,
        conductor=servers.workflows.url,
        lakefs=servers.settings.url,
        repository=workspace.repository,
        branch=workspace.branch,
        ref=workspace.ref,
        prefix=prefix,
        nonce=secrets.token_hex(16),
        digests=digests,
    )


def _other_checksums(servers: Servers, workspace: WorkspaceRef, prefix: str) -> list[FilePath]:
    """The files of objects whose checksum in lakeFS is not an MD5, such as large ones."""
    found = objects.below(servers.lake, workspace.repository, CommitId(workspace.ref), prefix)
    local = (path_mapping.to_local(prefix, info) for info in found if not transfer.is_md5(info.checksum))
    return [path for path in local if path is not None]


def _require_empty(folder: Path) -> bool:
    """Whether it was created here."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        if not folder.is_dir() or any(folder.iterdir()):
            raise SetupError(f"{folder} is not an empty folder; name a new one") from None
        return False
    except OSError as error:
        raise SetupError(f"{folder} cannot be created: {error.strerror}") from error
    return True


def _empty(folder: Path, *, remove: bool) -> None:
    """After a failure: nothing is left that looks like a checkout."""
    if remove:
        shutil.rmtree(folder, ignore_errors=True)
        return
    for one in folder.iterdir():
        if one.is_dir() and not one.is_symlink():
            shutil.rmtree(one, ignore_errors=True)
        else:
            one.unlink(missing_ok=True)
