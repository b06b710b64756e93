"""Workspaces of human steps: the files of a checkout, and the objects of a commit that stay as they are."""

from pathlib import Path
from typing import NoReturn

from perago import events
from perago.declare.human_form import HumanForm
from perago.errors import WorkspaceError
from perago.lake import port, transfer
from perago.model import BranchName, ChangeCounts, FilePath, Listing, WorkspaceRef
from perago.operate import objects
from perago.operate.human_tasks.checkout import Checkout
from perago.workspace import diff, options, path_mapping, scan
from perago.workspace.transfer import upload


class _HumanWorkspace:
    """What both have in common: nothing runs in them, and nothing is removed."""

    needs_branch_before_body = False

    def attach(self, branch: BranchName) -> None:
        """Nothing to do: a person edits files, not the branch."""

    def argument(self) -> None:
        """There is no body that could get something."""

    def blame(self, error: Exception) -> Exception:
        return error

    def inspection(self) -> NoReturn:
        raise AssertionError("the form of a human step has checks of files only")

    def verify_input(self) -> None:
        """The files were verified when they were checked out."""

    def fill_unchecked(self, branch: BranchName, emit: events.Emit) -> NoReturn:
        """Nothing is kept on a branch: the folder is there to look at."""
        raise AssertionError((branch, emit))

    def published(self) -> None:
        """Nothing is left behind."""

    def close(self) -> None:
        """The folder is the person's."""


class CheckoutWorkspace(_HumanWorkspace):
    """Implements `perago.attempt.port.AttemptWorkspace` on a folder that `perago checkout` made. The folder is only read."""

    def __init__(self, lake: port.Lake, ref: WorkspaceRef, checkout: Checkout, emit: events.Emit) -> None:
        self._lake = lake
        self._ref = ref
        self._checkout = checkout
        self._emit = emit
        self._before: diff.Manifest = {}
        self._is_edited = False
        self._change = diff.FileChanges()

    def open(self) -> None:
        marker, found = self._checkout.marker, dict[FilePath, diff.FileEntry]()
        for info in objects.below(self._lake, self._ref.repository, self._ref.ref, marker.prefix):
            local = path_mapping.to_local(marker.prefix, info)
            if local is not None:
                md5 = info.checksum if transfer.is_md5(info.checksum) else marker.digests.get(local)
                executable = diff.is_executable(info.metadata)
                found[local] = diff.FileEntry(info.size, md5, None, executable, info.content_type, info.metadata)
        self._before = found

    def listing(self) -> Listing:
        return scan.scan(self._folder).listing() if self._is_edited else Listing(sorted(self._before))

    def settle(self) -> None:
        """From here on the folder counts."""
        self._is_edited = True

    def changed(self) -> diff.FileChanges:
        found = scan.scan(self._folder)
        scan.require_publishable(found)
        after = diff.build_manifest(self._before, found, lambda path, status: scan.digest(self._folder, path, status))
        self._change = diff.diff(self._before, after)
        upload.require_names(self._checkout.marker.prefix, self._change)
        return self._change

    def fill(self, branch: BranchName) -> None:
        limits = options.WorkspaceOptions(Path(self._folder), cache_bytes=0)
        target = upload.Target(self._ref.repository, branch, self._checkout.marker.prefix)
        upload.upload_changes(self._lake, target, Path(self._folder), self._change, limits.make_cache(), limits, self._emit)

    @property
    def _folder(self) -> str:
        return str(self._checkout.folder)


class NoChange:
    """Implements `perago.attempt.port.Change`."""

    is_empty = True
    counts = ChangeCounts()


class UnchangedWorkspace(_HumanWorkspace):
    """Implements `perago.attempt.port.AttemptWorkspace` for an answer that leaves all objects as they are."""

    def __init__(self, lake: port.Lake, ref: WorkspaceRef, form: HumanForm) -> None:
        self._lake = lake
        self._ref = ref
        self._form = form
        self._listing: Listing | None = None

    def open(self) -> None:
        """Nothing is downloaded."""

    def listing(self) -> Listing:
        if self._listing is None:
            self._listing = self._listed()
        return self._listing

    def _listed(self) -> Listing:
        spec = self._form.workspace
        if spec is None or not (spec.pre or spec.post):
            return Listing(())
        prefix = path_mapping.listing_prefix(spec.prefix)
        found = objects.below(self._lake, self._ref.repository, self._ref.ref, prefix)
        return Listing(sorted(path for info in found if (path := path_mapping.to_local(prefix, info)) is not None))

    def settle(self) -> None:
        """Nothing runs."""

    def changed(self) -> NoChange:
        return NoChange()

    def fill(self, branch: BranchName) -> None:
        raise WorkspaceError(f"nothing was changed, so nothing can be brought onto {branch}")
