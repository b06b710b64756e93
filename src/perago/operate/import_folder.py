"""Bring a branch up to a folder: the difference is planned against the head, then published like an operator's command."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perago import events
from perago.errors import LakeConflict, LakeNotFound, LakeUnknown, PublishFenceError, SetupError, WorkspaceError
from perago.lake import existence, transfer
from perago.model import BranchName, Commit, CommitId, FilePath, Handle, Repository, WorkspaceRef
from perago.operate import branch_move, evidence, objects, undo
from perago.operate.servers import Servers
from perago.protocol import commit_labels
from perago.workspace import diff, options, path_mapping, scan
from perago.workspace.transfer import upload

DEFAULT_BRANCH = BranchName("main")


@dataclass(frozen=True, slots=True)
class ImportTarget:
    repository: Repository
    branch: BranchName
    prefix: str
    """As `path_mapping.listing_prefix` returns it."""

    def __str__(self) -> str:
        return f"{self.repository}/{self.branch}"


@dataclass(frozen=True, slots=True)
class ImportPlan:
    target: ImportTarget
    folder: Path
    head: Commit
    changes: diff.FileChanges
    kept: int
    """Objects that the folder does not have and that stay."""


# make what is missing


def require_repository(servers: Servers, repository: Repository, *, create: bool, branch: BranchName, namespace: str) -> bool:
    """Whether it was created; `SetupError` if it is missing and is not to be created."""
    if existence.repository_exists(servers.lake, repository):
        return False
    if not create:
        raise SetupError(f"repository {repository} does not exist in lakeFS at {servers.settings.url}; --create makes it")
    where = namespace or default_namespace(servers, repository)
    try:
        servers.settings.create_repository(repository, where, branch)
    except (LakeConflict, LakeUnknown):
        # Created by another command in the meantime, or by this one, whose reply was lost.
        if not existence.repository_exists(servers.lake, repository):
            raise
    return True


def default_namespace(servers: Servers, repository: Repository) -> str:
    """A place of the repository's own below lakeFS's default, as its local store has it; `SetupError` where there is none."""
    storage: Mapping[str, str] = servers.settings.configuration().get("storage_config") or {}
    prefix = str(storage.get("default_namespace_prefix") or "")
    if not prefix:
        example = str(storage.get("blockstore_namespace_example") or "s3://bucket/").rstrip("/")
        raise SetupError(
            f"lakeFS does not say where new repositories keep their objects; pass --storage-namespace with an empty place in its "
            f"{storage.get('blockstore_type') or 'object'} store, such as {example}/{repository}"
        )
    return f"{prefix}{repository}" if prefix.endswith("/") else f"{prefix}/{repository}"


def require_branch(servers: Servers, repository: Repository, branch: BranchName, *, create: bool) -> bool:
    """Whether it was created, at the head of the default branch; `SetupError` if it is missing and is not to be created."""
    try:
        servers.lake.branch(repository, branch)
    except LakeNotFound as error:
        if not create:
            raise SetupError(f"branch {branch} does not exist in repository {repository}; --create makes it") from error
    else:
        return False
    default = servers.settings.repository(repository).default_branch
    source = servers.lake.head(repository, default)
    if (why := undo.unfit(evidence.of(servers, source), f"{repository}/{default}")) is not None:
        raise PublishFenceError(f"branch {branch} was not made from {default}: {why}")
    try:
        servers.settings.create_branch(repository, branch, source.id)
    except LakeUnknown:
        servers.lake.branch(repository, branch)
    return True


# plan


def plan(servers: Servers, target: ImportTarget, folder: Path, *, delete: bool) -> ImportPlan:
    """`WorkspaceError` for files that cannot be objects, `PublishFenceError` for a head on which nothing may be built."""
    found = scan.scan(str(folder))
    scan.require_publishable(found)
    head = servers.lake.head(target.repository, target.branch)
    if (why := undo.unfit(evidence.of(servers, head), str(target))) is not None:
        raise PublishFenceError(f"branch {target.branch} was left alone: {why}")
    before = _manifest(servers, target, head.id)
    after = diff.build_manifest(before, found, lambda path, status: scan.digest(str(folder), path, status))
    changes = diff.diff(before, after)
    gone = changes.deletes
    if not delete:
        changes = diff.FileChanges(changes.uploads)
    upload.require_names(target.prefix, changes)
    _require_no_collision(after, () if delete else gone)
    return ImportPlan(target, folder, head, changes, 0 if delete else len(gone))


def _manifest(servers: Servers, target: ImportTarget, head: CommitId) -> diff.Manifest:
    found: dict[FilePath, diff.FileEntry] = {}
    for info in objects.below(servers.lake, target.repository, head, target.prefix):
        try:
            local = path_mapping.to_local(target.prefix, info)
        except WorkspaceError:
            # No folder can have it, so it is neither replaced nor deleted.
            continue
        if local is not None:
            md5 = info.checksum if transfer.is_md5(info.checksum) else None
            executable = diff.is_executable(info.metadata)
            found[local] = diff.FileEntry(info.size, md5, None, executable, info.content_type, info.metadata)
    return found


def _require_no_collision(after: diff.Manifest, kept: Sequence[FilePath]) -> None:
    """`WorkspaceError` if what is left on the branch has `a` and `a/b`, which no task could download."""
    detector = path_mapping.CollisionDetector(folds=False)
    for path in (*kept, *after):
        detector.add(path)


# apply


def apply(servers: Servers, wanted: ImportPlan, message: str, emit: events.Emit = events.ignore) -> Commit:
    """Through a staging branch, like every publication; `Operation.publish` names the errors."""
    target, head = wanted.target, wanted.head
    operation = branch_move.begin(servers, "import", WorkspaceRef(target.repository, target.branch, head.id))
    made_by = {commit_labels.IMPORT_BY: branch_move.operator(), **commit_labels.write_counts(wanted.changes.counts)}
    labels = commit_labels.write_command(commit_labels.IMPORT, wanted.folder.name, operation.staging.execution, head.id) | made_by

    def stage(handle: Handle) -> Commit:
        limits = options.WorkspaceOptions(wanted.folder, cache_bytes=0)
        place = upload.Target(target.repository, handle.branch, target.prefix)
        try:
            upload.upload_changes(servers.lake, place, wanted.folder, wanted.changes, limits.make_cache(), limits, emit)
            return servers.lake.commit_branch(target.repository, handle.branch, message, labels)
        except LakeNotFound as error:
            raise PublishFenceError(
                f"branch {target.branch} was left alone: an attempt publishes to it and deleted this import's staging branch; "
                "run the command again"
            ) from error

    def outdated() -> str | None:
        return undo.unfit(evidence.of(servers, head), str(target))

    return operation.publish(stage, message, labels, outdated)
