"""Checks the invariants after every move: compares the lake with what Conductor accepted, and raises the first violation."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

from perago.errors import TaskStatus
from perago.in_memory.lake import MemoryLake
from perago.in_memory.repository import Record, Store
from perago.model import Attempt, BranchName, Commit, CommitId, ExecutionId, ObjectPath, Outcome, Repository, TaskId, WorkspaceRef
from perago.protocol import staging_names
from perago.protocol.decision import UnlabelledHead
from simulation.setup import Setting

LOST = "an accepted publication stays visible"
NOT_ON_INPUT = "an accepted publication is directly on its input"
NOT_OWN = "an accepted publication was made by the execution that reports it"
NOT_RESTORED = "what Conductor accepted late is put back"
NO_WINNER = "without failures one of several rivals is accepted"
BY_HAND_LOST = "a commit made by hand is removed only by the setting, or unseen"
_NOT_REFUSED = ("broke off", "no connection", "no answer", "moved right after")


class RuleBroken(BaseException):
    """A violated rule, and what was seen. A `BaseException`, so that neither the transaction nor a server handles it."""

    def __init__(self, rule: str, seen: str) -> None:
        super().__init__(f"{rule}: {seen}")
        self.rule = rule


class Author(Protocol):
    """The part of an execution that the checks need. `place` is its workflow and step."""

    @property
    def name(self) -> str: ...
    @property
    def attempt(self) -> Attempt: ...
    @property
    def place(self) -> tuple[int, int]: ...
    @property
    def source(self) -> WorkspaceRef: ...
    @property
    def execution(self) -> ExecutionId: ...
    @property
    def faults(self) -> set[str]: ...
    @property
    def outcome(self) -> Outcome | None: ...
    def expected(self, given: dict[ObjectPath, bytes]) -> dict[ObjectPath, bytes]: ...


@dataclass(frozen=True, slots=True)
class AcceptedResult:
    """An output that Conductor accepted. `is_exact`: it is a publication; a no-op may still get one abandoned child."""

    commit: CommitId
    source: CommitId
    task_id: TaskId
    place: tuple[int, int]
    is_late: bool = False
    """Conductor had handed out the task again: until a restoration, another result of the task may be in its place."""

    @property
    def is_exact(self) -> bool:
        return self.commit != self.source


@dataclass(frozen=True, slots=True)
class BranchMove:
    """A request of `author` moved the head of the target branch from one commit to another."""

    author: str
    before: CommitId
    after: CommitId


@dataclass
class Oracle:
    lake: MemoryLake
    repository: Repository
    branch: BranchName
    prefix: str
    setting: Setting
    author_of: Callable[[Commit], Author | None]
    accepted_results: list[AcceptedResult] = field(default_factory=list[AcceptedResult])
    moves: list[BranchMove] = field(default_factory=list[BranchMove])
    by_hand: dict[CommitId, set[str]] = field(default_factory=dict[CommitId, set[str]])
    """Commits made by hand, each with the actors that have read the head since, without an update of their own in progress."""
    last_read: dict[str, CommitId] = field(default_factory=dict[str, CommitId])
    """The head that each actor last read."""

    def __post_init__(self) -> None:
        self._store: Store = self.lake._repositories[self.repository]
        self._record = self._now()
        self._outside = self._foreign(self._record.head)

    @property
    def head(self) -> CommitId:
        return self._record.head

    def _now(self) -> Record:
        return self._store.branches[self.branch].record

    # events

    def accepted(self, author: Author, commit: CommitId, *, is_late: bool) -> None:
        """Check that an accepted commit is its input or directly on it, and has exactly the content that the execution made."""
        source = author.source.ref
        made = self._store.commits[commit]
        if commit != source and made.parents != (source,):
            raise RuleBroken(NOT_ON_INPUT, f"{author.name}'s {commit[:8]} is not on {source[:8]}")
        if commit != source and self.author_of(made) is not author:
            raise RuleBroken(NOT_OWN, f"{author.name} reports {commit[:8]}")
        wanted = author.expected(self.lake.content(self.repository, source))
        if self.lake.content(self.repository, commit) != wanted:
            raise RuleBroken("an accepted publication has exactly its content", f"{author.name}'s {commit[:8]} has another")
        self.accepted_results.append(AcceptedResult(commit, source, author.attempt.task_id, author.place, is_late))

    def taken_back(self, is_completed: Callable[[TaskId], bool]) -> None:
        """Forget results whose tasks a rerun or a restart has reset: the new run may replace them."""
        self.accepted_results = [entry for entry in self.accepted_results if is_completed(entry.task_id)]

    def read_head(self, reader: str) -> None:
        self.last_read[reader] = self.head
        for readers in self.by_hand.values():
            readers.add(reader)

    def step(self, mover: str) -> None:
        """Check the branch after a move of the simulation, as far as the head moved or a result was accepted."""
        record = self._now()
        if record.head != self._record.head:
            self.moves.append(BranchMove(mover, self._record.head, record.head))
            if self._foreign(record.head) != self._outside:
                raise RuleBroken("nothing outside the prefix changed", f"{mover} changed it")
            self._check_by_hand_kept(mover, self._record.head, record.head)
        self._record = record
        if self.accepted_results:
            self._check_accepted_is_visible()

    def ended(self, author: Author) -> None:
        """Check an execution that ended without a crash: no staging branch is left, and a refused one moved nothing."""
        if not author.faults & {"create_branch", "delete_branch"}:
            for branch in self._store.branches:
                name = staging_names.parse(branch)
                if (
                    name is not None
                    and (name.execution_id or "").rstrip(staging_names.UNDO + staging_names.RESTORE) == author.execution
                ):
                    raise RuleBroken("a finished execution leaves no staging branch", f"{author.name} left {branch}")
        if author.outcome is not None and author.outcome.status is not TaskStatus.COMPLETED:
            self._check_refused(author, author.outcome.reason or "")

    def settled(self, *, is_calm: bool) -> None:
        """Check the end of a schedule in which all executions ended without a fault."""
        if is_calm and not self.accepted_results:
            raise RuleBroken(NO_WINNER, "none was accepted")
        self.restored()

    def restored(self) -> None:
        """Check that late results are visible, unless another workflow has published on the other result: a documented limit."""
        shown = list(self.history(self.head))
        for entry in self.accepted_results:
            if entry.is_exact and entry.commit not in shown and not self._has_gone_on(entry, shown):
                raise RuleBroken(NOT_RESTORED, f"{entry.commit[:8]} is not on the branch")

    def collected(self, is_over: Callable[[staging_names.StagingName], bool]) -> None:
        for branch in self._store.branches:
            name = staging_names.parse(branch)
            if name is not None and is_over(name):
                raise RuleBroken("no staging branch of a finished attempt survives a collection", branch)

    # checks

    def commit(self, commit: CommitId) -> Commit:
        return self._store.commits[commit]

    def history(self, head: CommitId) -> Iterator[CommitId]:
        commit = self._store.commits[head]
        while True:
            yield commit.id
            if commit.first_parent is None:
                return
            commit = self._store.commits[commit.first_parent]

    def _check_accepted_is_visible(self) -> None:
        shown = list(self.history(self.head))
        for entry in self.accepted_results:
            if entry.is_exact and entry.commit not in shown and not (entry.is_late and self._is_excused(entry, shown)):
                raise RuleBroken(LOST, f"{entry.commit[:8]} is lost")
        self.accepted_results = [self._protected(entry, shown) for entry in self.accepted_results]
        if self.setting.is_single_chain and not self.setting.takes_late_reports:
            self._check_nothing_on_top(shown)

    def _is_excused(self, entry: AcceptedResult, shown: list[CommitId]) -> bool:
        """A late result may be missing: the branch is where a restoration can put it back, or another workflow has continued."""
        return self.head == entry.source or self._other_result(entry, shown) == 0 or self._has_gone_on(entry, shown)

    def _has_gone_on(self, entry: AcceptedResult, shown: list[CommitId]) -> bool:
        """Another workflow was started from another result of the same task and has published on it, accepted or not."""
        place = self._other_result(entry, shown)
        on_it = self.author_of(self.commit(shown[place - 1])) if place else None
        return place is not None and on_it is not None and on_it.source.ref == shown[place] and on_it.place[0] != entry.place[0]

    def _other_result(self, entry: AcceptedResult, shown: list[CommitId]) -> int | None:
        """The index in the history of another result of the same task on the same input, if there is one."""
        place = next((at for at, commit in enumerate(shown) if self.commit(commit).first_parent == entry.source), None)
        other = None if place is None else self.author_of(self.commit(shown[place]))
        return place if other is not None and other.attempt.task_id == entry.task_id else None

    def _protected(self, entry: AcceptedResult, shown: list[CommitId]) -> AcceptedResult:
        """A late result counts as any other one as soon as another accepted publication is on top of it."""
        if not entry.is_late or entry.commit not in shown:
            return entry
        above = shown[: shown.index(entry.commit)]
        return replace(entry, is_late=not any(other.commit in above for other in self.accepted_results))

    def _check_nothing_on_top(self, shown: list[CommitId]) -> None:
        last = self.accepted_results[-1]
        if last.commit not in shown:
            return
        above = shown[: shown.index(last.commit)]
        leftovers = [commit for commit in above if self._is_left_over(commit, last)]
        if last.is_exact and leftovers:
            raise RuleBroken(LOST, f"{last.commit[:8]} is below the unaccepted {leftovers[0][:8]}")
        if len(leftovers) > 1 or any(self._store.commits[left].first_parent != last.commit for left in leftovers):
            raise RuleBroken(
                "after a no-op there is at most one abandoned publication", ", ".join(left[:8] for left in leftovers)
            )

    def _is_left_over(self, commit: CommitId, last: AcceptedResult) -> bool:
        """The commit was made for a step that has already been accepted, or for an earlier one."""
        author = self.author_of(self._store.commits[commit])
        return author is not None and author.place <= last.place

    def _check_by_hand_kept(self, mover: str, before: CommitId, after: CommitId) -> None:
        """A commit by hand that the mover has seen may only be removed if it was the head and the setting allows it (rule 1)."""
        if not self.by_hand:
            return
        gone = set(self.history(before)) - set(self.history(after))
        for commit in gone & self.by_hand.keys():
            is_replaced = commit == self.last_read.get(mover) and self.setting.unlabelled is UnlabelledHead.REPLACE
            if mover in self.by_hand[commit] and not is_replaced:
                raise RuleBroken(BY_HAND_LOST, f"{mover} removed {commit[:8]}")

    def _check_refused(self, author: Author, reason: str) -> None:
        """A refused execution moved nothing, unless the request of another one was applied directly before or after its own."""
        own = [move for move in self.moves if move.author == author.name]
        if not own or any(words in reason for words in _NOT_REFUSED) or own[-1].after == own[0].before:
            return
        for number, move in enumerate(self.moves):
            if move.author != author.name:
                continue
            slipped = move.before != author.source.ref and self._store.commits[move.after].first_parent == move.before
            overtaken = any(later.author != author.name for later in self.moves[number + 1 :])
            if not slipped and not overtaken:
                raise RuleBroken("a refused attempt changed nothing visible", f"{author.name}: {reason}")

    def _foreign(self, head: CommitId) -> dict[ObjectPath, object]:
        entries = self._store.committed_tree(head).entries
        return {path: entry for path, entry in entries.items() if not path.startswith(self.prefix)}
