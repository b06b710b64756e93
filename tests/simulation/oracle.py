"""What has to hold after every step: the lake and what Conductor accepted come in; the first rule that is broken leaves."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from perago.errors import TaskStatus
from perago.model import Attempt, BranchName, Commit, CommitId, ObjectPath, Outcome, Repository, WorkspaceRef
from perago.protocol import names
from perago.testing.lake import MemoryLake
from perago.testing.repositories import Record, Store

_REFUSALS = ("Conductor no longer", "took this one's right", "neither the input commit", "moved while this attempt")


class Broken(BaseException):
    """A rule that does not hold, and what was seen instead. No spine and no server may take it for a fault of its own."""

    def __init__(self, rule: str, seen: str) -> None:
        super().__init__(f"{rule}: {seen}")
        self.rule = rule


class Author(Protocol):
    """An execution, as far as it can be judged. `place` orders workflows and their steps by time."""

    @property
    def name(self) -> str: ...
    @property
    def attempt(self) -> Attempt: ...
    @property
    def place(self) -> tuple[int, int]: ...
    @property
    def source(self) -> WorkspaceRef: ...
    @property
    def staging(self) -> BranchName: ...
    @property
    def faults(self) -> set[str]: ...
    @property
    def outcome(self) -> Outcome | None: ...
    def expected(self, given: dict[ObjectPath, bytes]) -> dict[ObjectPath, bytes]: ...


@dataclass(frozen=True, slots=True)
class Accepted:
    """An output that Conductor took. `is_exact`: a publication; a no-op may still get one abandoned child."""

    commit: CommitId
    place: tuple[int, int]
    workflow: int
    is_exact: bool


@dataclass(frozen=True, slots=True)
class Move:
    """The target's head went from one commit to another, by a request of `author`."""

    author: str
    before: CommitId
    after: CommitId


@dataclass
class Oracle:
    lake: MemoryLake
    repository: Repository
    branch: BranchName
    prefix: str
    author_of: Callable[[Commit], Author | None]
    line: list[Accepted] = field(default_factory=list[Accepted])
    moves: list[Move] = field(default_factory=list[Move])

    def __post_init__(self) -> None:
        self._store: Store = self.lake._repositories[self.repository]
        self._record = self._now()
        self._outside = self._foreign(self._record.head)

    @property
    def head(self) -> CommitId:
        return self._record.head

    @property
    def base(self) -> CommitId | None:
        return self.line[-1].commit if self.line else None

    def _now(self) -> Record:
        return self._store.branches[self.branch].record

    # what happens

    def accepted(self, author: Author, commit: CommitId) -> None:
        """Directly on its input (or the input itself), with exactly the content that this execution made of it."""
        source = author.source.ref
        made = self._store.commits[commit]
        if commit != source and made.parents != (source,):
            raise Broken(
                "an accepted publication is directly on its input", f"{author.name}'s {commit[:8]} is not on {source[:8]}"
            )
        wanted = author.expected(self.lake.content(self.repository, source))
        if self.lake.content(self.repository, commit) != wanted:
            raise Broken("an accepted publication has exactly its content", f"{author.name}'s {commit[:8]} has another")
        if self.line and self.line[-1].commit != source:
            raise Broken("the next step builds on what was accepted", f"{author.name} built on {source[:8]}")
        self.line.append(Accepted(commit, author.place, author.place[0], commit != source))

    def handed_out(self, author: Author) -> None:
        if self.line and author.source.ref != self.line[-1].commit:
            raise Broken("the next step builds on what was accepted", f"{author.name} got {author.source.ref[:8]}")

    def taken_back(self, workflow: int, step: int) -> None:
        """Somebody reran the workflow from this step on: what it had accepted is for the rerun to replace."""
        self.line = [entry for entry in self.line if entry.place < (workflow, step)]

    def step(self, mover: str) -> None:
        """After every step of the simulation; looks at more only if the target moved or something was accepted."""
        record = self._now()
        if record.head != self._record.head:
            self.moves.append(Move(mover, self._record.head, record.head))
            if self._foreign(record.head) != self._outside:
                raise Broken("nothing outside the prefix changed", f"{mover} changed it")
        self._record = record
        if self.line:
            self._line_is_visible()

    def ended(self, author: Author) -> None:
        """An execution that came to its end by itself."""
        if not author.faults & {"create_branch", "delete_branch"} and author.staging in self._store.branches:
            raise Broken("a finished execution leaves no staging branch", f"{author.name} left {author.staging}")
        if author.outcome is not None and author.outcome.status is not TaskStatus.COMPLETED:
            self._refused(author, author.outcome.reason or "")

    def collected(self, is_over: Callable[[names.StagingName], bool]) -> None:
        for branch in self._store.branches:
            name = names.parse(branch)
            if name is not None and is_over(name):
                raise Broken("no staging branch of a finished attempt survives a collection", branch)

    # how it is judged

    def commit(self, commit: CommitId) -> Commit:
        return self._store.commits[commit]

    def history(self, head: CommitId) -> Iterator[CommitId]:
        commit = self._store.commits[head]
        while True:
            yield commit.id
            if commit.first_parent is None:
                return
            commit = self._store.commits[commit.first_parent]

    def _line_is_visible(self) -> None:
        shown = list(self.history(self.head))
        for entry in self.line:
            if entry.commit not in shown:
                raise Broken("an accepted publication stays visible", f"{entry.commit[:8]} is lost")
        last = self.line[-1]
        above = shown[: shown.index(last.commit)]
        leftovers = [commit for commit in above if self._is_left_over(commit, last)]
        if last.is_exact and leftovers:
            raise Broken("an accepted publication stays visible", f"{last.commit[:8]} is buried by {leftovers[0][:8]}")
        if len(leftovers) > 1 or any(self._store.commits[left].first_parent != last.commit for left in leftovers):
            raise Broken("after a no-op there is at most one abandoned publication", ", ".join(left[:8] for left in leftovers))

    def _is_left_over(self, commit: CommitId, last: Accepted) -> bool:
        """Made for a step that is over, and on top of what was accepted since."""
        author = self.author_of(self._store.commits[commit])
        return author is not None and author.place <= last.place

    def _refused(self, author: Author, reason: str) -> None:
        """It moved nothing, unless another's request slipped in between or came right after: then it stood in that one's way."""
        if not any(words in reason for words in _REFUSALS):
            return
        for number, move in enumerate(self.moves):
            if move.author != author.name:
                continue
            slipped = move.before != author.source.ref and self._store.commits[move.after].first_parent == move.before
            overtaken = any(later.author != author.name for later in self.moves[number + 1 :])
            if not slipped and not overtaken:
                raise Broken("a refused attempt changed nothing visible", f"{author.name}: {reason}")

    def _foreign(self, head: CommitId) -> dict[ObjectPath, object]:
        entries = self._store.committed_tree(head).entries
        return {path: entry for path, entry in entries.items() if not path.startswith(self.prefix)}
