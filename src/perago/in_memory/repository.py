"""One repository of the fake lake: commits, branches, tags and protection rules, and what refs resolve to."""

import hashlib
import heapq
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from perago.errors import LakeConflict, LakeNotFound
from perago.in_memory import trees
from perago.in_memory.trees import Tree, TreeEntry
from perago.lake import url_parts
from perago.model import BranchName, Commit, CommitId, MetaRangeId, ObjectPath


@dataclass(frozen=True, slots=True)
class Record:
    """What a branch update compares by value before it sets: the head, and a token that commits and merges renew."""

    head: CommitId
    token: int


@dataclass(slots=True)
class Branch:
    record: Record
    hidden: bool
    staged: dict[ObjectPath, TreeEntry | None] = field(default_factory=dict[ObjectPath, TreeEntry | None])


class Store:
    """Commits are kept for ever, as in lakeFS; everything else is what it is now."""

    def __init__(self, default_branch: BranchName) -> None:
        self.default_branch = default_branch
        self.commits: dict[CommitId, Commit] = {}
        self.branches: dict[BranchName, Branch] = {}
        self.tags: dict[str, CommitId] = {}
        self.protected: set[str] = set()
        self._trees: dict[MetaRangeId, Tree] = {}
        self._generations: dict[CommitId, int] = {}
        self._tokens = itertools.count(1)

    def record(self, head: CommitId) -> Record:
        return Record(head, next(self._tokens))

    def add_commit(
        self, parents: tuple[CommitId, ...], tree: Tree, message: str, metadata: Mapping[str, str], time: int
    ) -> Commit:
        identity = json.dumps([parents, tree.id, message, sorted(metadata.items()), time])
        commit = Commit(
            CommitId(hashlib.sha256(identity.encode()).hexdigest()), parents, tree.id, message, metadata, created=time
        )
        self.commits[commit.id] = commit
        self._trees.setdefault(tree.id, tree)
        self._generations[commit.id] = 1 + max((self._generations[parent] for parent in parents), default=0)
        return commit

    def branch(self, name: BranchName) -> Branch:
        if (branch := self.branches.get(BranchName(url_parts.branch(name)))) is None:
            raise LakeNotFound(f"branch {name} does not exist")
        return branch

    def seal(self, target: BranchName) -> None:
        """A merge first writes the branch record anew, in an update of its own, and refuses a branch with uncommitted changes."""
        branch = self.branch(target)
        if self.committed_tree(branch.record.head).differences(branch.staged):
            raise LakeConflict(f"merge into {target}: uncommitted changes (dirty branch)")
        branch.record = self.record(branch.record.head)

    def is_protected(self, branch: BranchName) -> bool:
        return any(fnmatchcase(branch, pattern) for pattern in self.protected)

    def resolve(self, ref: str) -> CommitId:
        """A commit id, a branch, a tag, or the unambiguous beginning of a commit id."""
        if ref in self.commits:
            return CommitId(ref)
        if (branch := self.branches.get(BranchName(ref))) is not None:
            return branch.record.head
        if ref in self.tags:
            return self.tags[ref]
        url_parts.ref(CommitId(ref))
        matches = [commit for commit in self.commits if commit.startswith(ref)]
        if len(matches) != 1:
            raise LakeNotFound(f"ref {ref!r} does not exist")
        return matches[0]

    def committed_tree(self, commit: CommitId) -> Tree:
        return self._trees[self.commits[commit].meta_range_id]

    def tree(self, ref: str) -> Tree:
        """What a reader of `ref` sees: a branch shows its uncommitted changes too."""
        tree = self.committed_tree(self.resolve(ref))
        branch = None if ref in self.commits else self.branches.get(BranchName(ref))
        return tree if branch is None or not branch.staged else tree.apply(branch.staged)

    def merged(self, source: CommitId, target: CommitId, *, with_defects: bool = False) -> Tree:
        base = self._merge_base(source, target)
        base_tree = trees.EMPTY if base is None else self.committed_tree(base)
        merge = trees.merge_with_defects if with_defects else trees.merge
        return merge(base_tree, self.committed_tree(source), self.committed_tree(target))

    def reverted(self, commit: CommitId, onto: CommitId) -> Tree:
        """The tree of `onto` without what `commit` changed compared with its first parent."""
        parent = self.commits[commit].first_parent
        before = trees.EMPTY if parent is None else self.committed_tree(parent)
        return trees.merge(self.committed_tree(commit), before, self.committed_tree(onto))

    def _merge_base(self, left: CommitId, right: CommitId) -> CommitId | None:
        """Walk both histories from the young end; the first commit met from both sides is the youngest common one."""
        if left == right:
            return left
        sides = {left: 1, right: 2}
        queue = [(-self._generations[commit], commit) for commit in sides]
        heapq.heapify(queue)
        while queue:
            _, commit = heapq.heappop(queue)
            if sides[commit] == 1 | 2:
                return commit
            for parent in self.commits[commit].parents:
                if parent not in sides:
                    heapq.heappush(queue, (-self._generations[parent], parent))
                sides[parent] = sides.get(parent, 0) | sides[commit]
        return None
