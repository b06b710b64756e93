"""A versioned store in memory with the port, the rules and the races of lakeFS. A gate sees every call and may cut it anywhere.

A branch update (merge, relocate) is two steps, as on the server: read the branch record and resolve the source's name, then set
it if unchanged, else start over. The gate stands before, between and after them.
"""

import itertools
import threading
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from perago.errors import LakeConflict, LakeCorrupt, LakeForbidden, LakeNotFound, LakeRejected, LakeUnavailable
from perago.in_memory import trees
from perago.in_memory.gate import Gate, RequestStep, open_gate
from perago.in_memory.repository import Branch, Record, Store
from perago.in_memory.stored_bytes import BytesInMemory, StoredBytes
from perago.lake import object_headers, object_part, transfer, url_parts
from perago.lake.decode import DEFAULT_CONTENT_TYPE
from perago.lake.port import PAGE, BranchHead, Capabilities, ObjectChange, ObjectDifference, ObjectPage, Ref, SmallFile
from perago.model import BranchName, Commit, CommitId, ObjectInfo, ObjectPath, Repository

UPDATE_TRIES = 10
"""How often lakeFS starts a branch update over before it answers 429."""
MAIN = BranchName("main")


class MemoryLake:
    """Implements `perago.lake.port.Lake`. `calls` counts requests by verb. `clock` gives commit times in whole seconds."""

    def __init__(self, gate: Gate = open_gate, clock: Callable[[], int] | None = None, stored: StoredBytes | None = None) -> None:
        self.gate = gate
        self.calls: Counter[str] = Counter()
        self.merges_with_defects = False
        """Whether merges lose or keep objects wrongly where those of lakeFS do."""
        self._clock = clock or itertools.count(1).__next__
        self._repositories: dict[Repository, Store] = {}
        self._bytes = stored or BytesInMemory()
        self._uploads = itertools.count(1)
        self._lock = threading.RLock()

    # what tests and authors use beside the port

    def create_repository(self, repository: Repository, branch: BranchName = MAIN) -> Commit:
        """A new repository with one branch at an empty first commit."""
        if repository in self._repositories:
            raise LakeConflict(f"create repository {repository}: exists already")
        store = self._repositories[repository] = Store(branch)
        first = store.add_commit((), trees.EMPTY, "Repository created", {}, self._clock())
        store.branches[branch] = Branch(store.record(first.id), hidden=False)
        return first

    def put(
        self,
        repository: Repository,
        branch: BranchName,
        path: ObjectPath,
        data: bytes,
        *,
        content_type: str = DEFAULT_CONTENT_TYPE,
        metadata: Mapping[str, str] | None = None,
    ) -> ObjectInfo:
        """Write bytes to a branch; uncommitted, like any upload."""
        info = ObjectInfo(path, len(data), self._bytes.keep(data), content_type, metadata or {})
        return self._upload(repository, branch, info)

    def publish(self, repository: Repository, branch: BranchName, files: Mapping[str, bytes], message: str = "publish") -> Commit:
        """Put files and commit them, without the gate: a change by another writer."""
        for path, data in files.items():
            self.put(repository, branch, ObjectPath(path), data)
        return self._commit_staged(repository, branch, message, {})

    def get(self, repository: Repository, ref: Ref, path: ObjectPath) -> bytes:
        return self._bytes.load(self._entry(repository, ref, path).checksum)

    def content(self, repository: Repository, ref: Ref) -> dict[ObjectPath, bytes]:
        """Every object at `ref`, uncommitted ones of a branch included."""
        with self._lock:
            entries = self._store(repository).tree(ref).entries
            return {path: self._bytes.load(entry.checksum) for path, entry in entries.items()}

    # the port

    def capabilities(self) -> Capabilities:
        self._enter("capabilities")
        self.gate("capabilities", RequestStep.AFTER)
        return Capabilities()

    def commit(self, repository: Repository, ref: Ref) -> Commit:
        self._enter("commit")
        with self._lock:
            store = self._store(repository)
            found = store.commits[store.resolve(ref)]
        self.gate("commit", RequestStep.AFTER)
        return found

    def head(self, repository: Repository, branch: BranchName) -> Commit:
        self._enter("head")
        with self._lock:
            store = self._store(repository)
            found = store.commits[store.resolve(url_parts.branch(branch))]
        self.gate("head", RequestStep.AFTER)
        return found

    def branch(self, repository: Repository, branch: BranchName) -> CommitId:
        self._enter("branch")
        with self._lock:
            found = self._store(repository).branch(branch).record.head
        self.gate("branch", RequestStep.AFTER)
        return found

    def create_branch(self, repository: Repository, branch: BranchName, source: CommitId) -> None:
        self._enter("create_branch")
        with self._lock:
            store = self._store(repository)
            url_parts.branch(branch)
            head = store.resolve(source)
            if branch in store.branches or branch in store.commits:
                raise LakeConflict(f"create branch {branch} in {repository}: exists already")
            store.branches[branch] = Branch(store.record(head), hidden=True)
        self.gate("create_branch", RequestStep.AFTER)

    def delete_branch(self, repository: Repository, branch: BranchName) -> None:
        self._enter("delete_branch")
        with self._lock:
            store = self._store(repository)
            store.branch(branch)
            if branch == store.default_branch:
                raise LakeForbidden(f"delete branch {branch} of {repository}: it is the default branch")
            del store.branches[branch]
        self.gate("delete_branch", RequestStep.AFTER)

    def branches(self, repository: Repository, prefix: str, *, page: int = PAGE) -> Iterable[BranchHead]:
        after = ""
        while True:
            self._enter("branches")
            with self._lock:
                known = self._store(repository).branches
                names = sorted(name for name in known if name.startswith(prefix) and name > after)
                found = [BranchHead(name, known[name].record.head) for name in names[:page]]
            self.gate("branches", RequestStep.AFTER)
            yield from found
            if len(names) <= page:
                return
            after = names[page - 1]

    def commit_branch(
        self, repository: Repository, branch: BranchName, message: str, metadata: Mapping[str, str], *, allow_empty: bool = False
    ) -> Commit:
        self._enter("commit_branch")
        made = self._commit_staged(repository, branch, message, metadata, allow_empty=allow_empty)
        self.gate("commit_branch", RequestStep.AFTER)
        return made

    def merge(
        self,
        repository: Repository,
        source: Ref,
        target: BranchName,
        *,
        message: str,
        metadata: Mapping[str, str],
        timeout: float,  # noqa: ARG002  memory answers at once; a gate plays the time
    ) -> CommitId:
        self._enter("merge")
        marked = {**metadata, ".lakefs.merge.strategy": "default"}

        def squash(store: Store, record: Record) -> Record:
            tree = store.merged(store.resolve(source), record.head, with_defects=self.merges_with_defects)
            return store.record(store.add_commit((record.head,), tree, message, marked, self._clock()).id)

        with self._lock:
            store = self._store(repository)
            store.seal(target)
        merged = self._update("merge", store, target, squash).head
        self.gate("merge", RequestStep.AFTER)
        return merged

    def revert(self, repository: Repository, branch: BranchName, commit: Commit, message: str) -> Commit:
        self._enter("revert")
        with self._lock:
            store = self._store(repository)
            reverted = self._writable(repository, branch, "revert")
            store.seal(branch)
            head = reverted.record.head
            tree = store.reverted(store.resolve(commit.id), head)
            if not trees.compare(store.committed_tree(head), tree):
                raise LakeConflict(f"revert {commit.id} on {repository}/{branch}: no changes")
            made = store.add_commit((head,), tree, message, {}, self._clock())
            reverted.record = store.record(made.id)
        self.gate("revert", RequestStep.AFTER)
        return made

    def relocate(self, repository: Repository, target: BranchName, to: BranchName, *, timeout: float) -> None:  # noqa: ARG002  as in merge
        self._enter("relocate")

        def reset(store: Store, record: Record) -> Record:
            return Record(store.branch(to).record.head, record.token)

        with self._lock:
            store = self._store(repository)
            if store.is_protected(target):
                raise LakeForbidden(f"relocate {repository}/{target}: the branch is protected")
        self._update("relocate", store, target, reset)
        self.gate("relocate", RequestStep.AFTER)

    def interrupt_updates(self, repository: Repository, branch: BranchName) -> None:
        self._enter("interrupt_updates")
        with self._lock:
            self._store(repository).seal(branch)
        self.gate("interrupt_updates", RequestStep.AFTER)

    def differences(
        self, repository: Repository, left: CommitId, right: CommitId, *, page: int = PAGE
    ) -> Iterable[ObjectDifference]:
        del page
        self._enter("differences")
        with self._lock:
            store = self._store(repository)
            found = trees.compare(store.committed_tree(store.resolve(left)), store.committed_tree(store.resolve(right)))
        self.gate("differences", RequestStep.AFTER)
        yield from found

    def objects(
        self, repository: Repository, ref: Ref, prefix: str, after: ObjectPath | None = None, *, presign: bool = False
    ) -> ObjectPage:
        del presign
        self._enter("objects")
        with self._lock:
            tree = self._store(repository).tree(ref)
        start = max(bisect_left(tree.paths, prefix), 0 if after is None else bisect_right(tree.paths, after))
        candidates = itertools.islice(tree.paths, start, start + PAGE + 1)
        found = list(itertools.takewhile(lambda path: path.startswith(prefix), candidates))
        self.gate("objects", RequestStep.AFTER)
        page = [tree.entries[path].info(path) for path in found[:PAGE]]
        return ObjectPage(page, page[-1].path if len(found) > PAGE else None)

    def read(self, repository: Repository, ref: Ref, info: ObjectInfo, into: Path) -> str:
        self._enter("read")
        checksum = self._entry(repository, ref, info.path).checksum
        self.gate("read", RequestStep.AFTER)
        return self._bytes.save(f"read {info.path!r} of {repository}@{ref}", checksum, info, into)

    def read_part(
        self, repository: Repository, ref: Ref, info: ObjectInfo, start: int, length: int, write: object_part.Write
    ) -> bool:
        self._enter("read")
        data = self.get(repository, ref, info.path)[start : start + length]
        self.gate("read", RequestStep.AFTER)
        if len(data) != length:
            raise LakeCorrupt(
                f"read {info.path!r} of {repository}@{ref}: {len(data)} bytes from {start}, {length} were asked for"
            )
        write(memoryview(data), start)
        return True

    def read_small(self, repository: Repository, ref: Ref, infos: Sequence[ObjectInfo]) -> Iterator[tuple[str, bytes]]:
        for info in infos:
            self._enter("read")
            data = self.get(repository, ref, info.path)
            self.gate("read", RequestStep.AFTER)
            yield transfer.checked(f"read {info.path!r} of {repository}@{ref}", info, data), data

    def write(
        self,
        repository: Repository,
        branch: BranchName,
        path: ObjectPath,
        source: Path,
        *,
        content_type: str,
        metadata: Mapping[str, str],
        md5: str | None = None,
    ) -> ObjectInfo:
        self._enter("write")
        what = f"write {path!r} to {repository}/{branch}"
        object_headers.headers(what, content_type, metadata)
        size, checksum = self._bytes.keep_file(what, path, source)
        if md5 not in (None, checksum):
            raise LakeCorrupt(f"{what}: the file has MD5 {checksum}, not {md5}")
        info = self._upload(repository, branch, ObjectInfo(path, size, checksum, content_type, metadata))
        self.gate("write", RequestStep.AFTER)
        return info

    def write_small(self, repository: Repository, branch: BranchName, files: Sequence[SmallFile]) -> Iterator[ObjectInfo]:
        for file in files:
            self._enter("write")
            object_headers.headers(f"write {file.path!r} to {repository}/{branch}", file.content_type, file.metadata)
            info = self.put(repository, branch, file.path, file.data, content_type=file.content_type, metadata=file.metadata)
            self.gate("write", RequestStep.AFTER)
            yield info

    def copy_object(self, repository: Repository, branch: BranchName, path: ObjectPath, source: CommitId) -> None:
        self._enter("copy_object")
        with self._lock:
            entry = self._entry(repository, source, path)
            copied = replace(entry, mtime=self._clock(), upload=next(self._uploads))
            self._writable(repository, branch, f"copy {path!r}").staged[path] = copied
        self.gate("copy_object", RequestStep.AFTER)

    def delete_objects(self, repository: Repository, branch: BranchName, paths: Sequence[ObjectPath]) -> None:
        self._enter("delete_objects")
        if len(paths) > PAGE:
            raise LakeRejected(f"delete {len(paths)} objects of {repository}/{branch}: at most {PAGE} at a time")
        with self._lock:
            store = self._store(repository)
            if branch in store.branches:  # lakeFS answers 200 where there is no such branch
                self._writable(repository, branch, "delete objects").staged.update(dict.fromkeys(paths))
        self.gate("delete_objects", RequestStep.AFTER)

    def uncommitted(self, repository: Repository, branch: BranchName) -> Iterable[ObjectChange]:
        changes: Iterator[ObjectChange] | None = None
        while True:
            self._enter("uncommitted")
            if changes is None:
                with self._lock:
                    store = self._store(repository)
                    staged = store.branch(branch)
                    changes = iter(store.committed_tree(staged.record.head).differences(staged.staged))
            page = list(itertools.islice(changes, PAGE))
            self.gate("uncommitted", RequestStep.AFTER)
            yield from page
            if len(page) < PAGE:
                return

    # inside

    def _enter(self, verb: str) -> None:
        self.calls[verb] += 1
        self.gate(verb, RequestStep.BEFORE)

    def _store(self, repository: Repository) -> Store:
        if (store := self._repositories.get(Repository(url_parts.repository(repository)))) is None:
            raise LakeNotFound(f"repository {repository} does not exist")
        return store

    def _entry(self, repository: Repository, ref: Ref, path: ObjectPath) -> trees.TreeEntry:
        with self._lock:
            entry = self._store(repository).tree(ref).entries.get(path)
        if entry is None:
            raise LakeNotFound(f"object {path!r} does not exist in {repository}@{ref}")
        return entry

    def _writable(self, repository: Repository, branch: BranchName, action: str) -> Branch:
        store = self._store(repository)
        if store.is_protected(branch):
            raise LakeForbidden(f"{action} in {repository}/{branch}: the branch is protected")
        return store.branch(branch)

    def _upload(self, repository: Repository, branch: BranchName, info: ObjectInfo) -> ObjectInfo:
        """Bytes that are kept already become an object on the branch."""
        with self._lock:
            staged = self._writable(repository, branch, f"write {info.path!r}").staged
            url_parts.path(info.path)
            kind = info.content_type or DEFAULT_CONTENT_TYPE
            described = tuple(sorted(info.metadata.items()))
            entry = staged[info.path] = trees.TreeEntry(
                info.size, info.checksum, kind, described, self._clock(), next(self._uploads)
            )
            return entry.info(info.path)

    def _commit_staged(
        self, repository: Repository, name: BranchName, message: str, metadata: Mapping[str, str], *, allow_empty: bool = False
    ) -> Commit:
        with self._lock:
            store = self._store(repository)
            branch = self._writable(repository, name, "commit")
            tree = store.committed_tree(branch.record.head)
            if not allow_empty and not tree.differences(branch.staged):
                raise LakeConflict(f"commit {repository}/{name}: no changes")
            made = store.add_commit((branch.record.head,), tree.apply(branch.staged), message, dict(metadata), self._clock())
            branch.record, branch.staged = store.record(made.id), {}
            return made

    def _update(self, verb: str, store: Store, target: BranchName, change: Callable[[Store, Record], Record]) -> Record:
        for _ in range(UPDATE_TRIES):
            with self._lock:
                seen = store.branch(target).record
                wanted = change(store, seen)
            self.gate(verb, RequestStep.BETWEEN)
            with self._lock:
                branch = store.branches.get(target)
                if branch is not None and branch.record == seen:
                    branch.record = wanted
                    return wanted
        raise LakeUnavailable(f"{verb} {target}: too many concurrent updates of the branch")
