"""Random pipelines as plans: hypothesis draws a plan, and `declare` makes a pipeline of it with `Flow`, as an author would.

A plan has numbers in the places of references: each picks one of the values that are known where it stands.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st
from pydantic import BaseModel
from tests.support.tasks.chain.add import add
from tests.support.tasks.chain.collect import collect
from tests.support.tasks.chain.read import read
from tests.support.tasks.chain.write import write
from tests.support.tasks.chain.write_inner import write_inner

from perago import Flow, pipeline

TASKS: dict[str, Any] = {"write": write, "write_inner": write_inner, "read": read, "add": add}
MODULES = tuple(f"tests.support.tasks.chain.{name}" for name in (*TASKS, "collect"))
FILES = {"a.txt": "one\n", "inner/b.txt": "two\nthree\n", "kept/c.txt": "four\n"}
SHARED_FILES = ("a.txt", "b.txt", "d/e.txt")
WORDS = ("line", "keep", "delete", "ümlaut ${x}", "")
NUMBERS = (0, 1, 2, -3)
_DEPTH = 3
_MOST_STEPS = 12


class Inputs(BaseModel):
    number: int = 2
    word: str = "given"
    flag: bool = False
    maybe: int | None = None
    items: list[int] = [3, 1]


class Result(BaseModel):
    number: int
    word: str
    flag: bool


@dataclass(frozen=True)
class StepPlan:
    task: str
    picks: tuple[int, ...]
    optional: bool = False


@dataclass(frozen=True)
class EachPlan:
    task: str
    picks: tuple[int, ...]


@dataclass(frozen=True)
class ForkPlan:
    lanes: tuple["Block", ...]


@dataclass(frozen=True)
class WhenPlan:
    condition: tuple[int, ...]
    then: "Block"
    otherwise: "Block"
    """Empty for none."""


@dataclass(frozen=True)
class RepeatPlan:
    at_most: int
    body: "Block"
    until: tuple[int, ...]
    """Empty for none."""


@dataclass(frozen=True)
class CallPlan:
    body: "Block"
    picks: tuple[int, ...]


Node = StepPlan | EachPlan | ForkPlan | WhenPlan | RepeatPlan | CallPlan
Block = tuple[Node, ...]


@dataclass(frozen=True)
class Plan:
    body: Block
    inputs: dict[str, Any]
    fail_at: int | None
    """The number of the step that is asked to fail, modulo the number of steps."""
    fail_word: str


# declaration


@dataclass
class Scope:
    """The values that may be used at one place, by their type."""

    numbers: list[Any]
    words: list[Any]
    flags: list[Any]
    maybes: list[Any]
    lists: list[Any]

    def inner(self) -> "Scope":
        return Scope([*self.numbers], [*self.words], [*self.flags], [*self.maybes], [*self.lists])

    def adopt(self, before: "Scope", after: "Scope") -> None:
        """What a block that has surely run has made."""
        for ours, known, theirs in zip(vars(self).values(), vars(before).values(), vars(after).values(), strict=True):
            ours.extend(theirs[len(known) :])


def picked(known: Sequence[Any], pick: int) -> Any:
    return known[pick % len(known)]


def steps_of(block: Block) -> int:
    """How many steps a block declares, those of its calls included."""
    count = 0
    for node in block:
        match node:
            case StepPlan() | EachPlan():
                count += 1
            case ForkPlan(lanes):
                count += sum(map(steps_of, lanes))
            case WhenPlan(_, then, otherwise):
                count += steps_of(then) + steps_of(otherwise)
            case RepeatPlan(_, body) | CallPlan(body):
                count += steps_of(body)
    return count


@dataclass
class Declaring:
    """Declares the pipelines of one plan; all have names that begin with `name`."""

    plan: Plan
    name: str
    step_numbers: Iterator[int] = field(default_factory=itertools.count)
    names: Iterator[int] = field(default_factory=itertools.count)

    def pipeline(self, body: Block) -> Callable[..., Result]:
        # Called pipelines are declared before the one that calls them, in the order of their calls.
        calls = iter([self.pipeline(node.body) for node in _calls(body)])

        @pipeline(name=f"{self.name}_{next(self.names)}", owner_email="tests@example.com")
        def declared(flow: Flow, inputs: Inputs) -> Result:
            scope = Scope([inputs.number, *NUMBERS], [inputs.word, *WORDS], [inputs.flag], [inputs.maybe], [inputs.items, [4, 5]])
            Declarer(self, flow, scope, calls).block(body)
            return Result(number=scope.numbers[-1], word=scope.words[-1], flag=scope.flags[-1])

        return declared

    def word_of_failure(self) -> str:
        """For the next step."""
        number = next(self.step_numbers)
        fail_at = self.plan.fail_at
        return self.plan.fail_word if fail_at is not None and number == fail_at % steps_of(self.plan.body) else ""


def _calls(body: Block) -> Iterator[CallPlan]:
    for node in body:
        match node:
            case CallPlan():
                yield node
            case ForkPlan(lanes):
                for lane in lanes:
                    yield from _calls(lane)
            case WhenPlan(_, then, otherwise):
                yield from _calls(then)
                yield from _calls(otherwise)
            case RepeatPlan(_, inner):
                yield from _calls(inner)
            case StepPlan() | EachPlan():
                pass


@dataclass
class Declarer:
    """Declares the nodes of one pipeline."""

    whole: Declaring
    flow: Flow
    scope: Scope
    calls: Iterator[Callable[..., Result]]
    refs: Iterator[int] = field(default_factory=itertools.count)

    def block(self, block: Block) -> None:
        for node in block:
            match node:
                case StepPlan():
                    self._step(node)
                case EachPlan():
                    self._each(node)
                case ForkPlan():
                    self._fork(node)
                case WhenPlan():
                    self._when(node)
                case RepeatPlan():
                    self._repeat(node)
                case CallPlan():
                    self._call(node)

    def _step(self, plan: StepPlan) -> None:
        ref = f"s{next(self.refs)}"
        done = self.flow.step(TASKS[plan.task], ref=ref, optional=plan.optional, **self._params(plan, ref))
        if not plan.optional:
            self._made(plan.task, done)

    def _made(self, task: str, done: Any) -> None:
        match task:
            case "add":
                self.scope.numbers.append(done.total)
                self.scope.words.append(done.text)
                self.scope.flags.append(done.negative)
                self.scope.maybes.append(done.nothing)
                self.scope.lists.append(done.items)
            case "read":
                self.scope.numbers += [done.files, done.number]
                self.scope.words.append(done.digest)
            case _:
                self.scope.numbers += [done.files, done.lines]
                self.scope.words.append(done.text)
                self.scope.flags.append(done.even)
                self.scope.maybes.append(done.last)

    def _params(self, plan: StepPlan | EachPlan, ref: str) -> dict[str, Any]:
        scope, (one, two, three, four) = self.scope, plan.picks
        fail = self.whole.word_of_failure()
        if plan.task == "add":
            words = [None, *scope.words]
            return {
                "left": picked(scope.numbers, one),
                "right": picked(scope.numbers, two),
                "text": picked(words, three),
                "flag": picked([False, True, *scope.flags], four),
                "fail": fail,
            }
        if plan.task == "read":
            return {"number": picked(scope.numbers, one), "fail": fail}
        # A file of its own in most cases, so that not all lanes are in conflict.
        file = picked([*SHARED_FILES, *[f"{ref}.txt"] * 6], three)
        return {"file": file, "text": picked(scope.words, two), "number": picked(scope.numbers, one), "fail": fail}

    def _each(self, plan: EachPlan) -> None:
        ref = f"s{next(self.refs)}"
        params = self._params(plan, ref)
        params["left" if plan.task == "add" else "number"] = self.flow.item
        if "file" in params:
            params["file"] = f"{ref}/"
        done = self.flow.each(picked(self.scope.lists, plan.picks[0]), TASKS[plan.task], ref=ref, **params)
        collected = self.flow.step(collect, ref=f"{ref}c", given=done)
        self.scope.numbers.append(collected.count)
        self.scope.words.append(collected.text)

    def _fork(self, plan: ForkPlan) -> None:
        outer, ended = self.scope, list[Scope]()
        with self.flow.fork(ref=f"s{next(self.refs)}") as fork:
            for number, lane in enumerate(plan.lanes):
                self.scope = outer.inner()
                with fork.lane(f"lane{number}"):
                    self.block(lane)
                ended.append(self.scope)
        before = outer.inner()
        for scope in ended:
            outer.adopt(before, scope)
        self.scope = outer

    def _when(self, plan: WhenPlan) -> None:
        outer = self.scope
        with self.flow.when(self._condition(plan.condition), ref=f"s{next(self.refs)}") as branch:
            self.scope = outer.inner()
            self.block(plan.then)
        if plan.otherwise:
            with branch.otherwise():
                self.scope = outer.inner()
                self.block(plan.otherwise)
        self.scope = outer

    def _repeat(self, plan: RepeatPlan) -> None:
        outer = self.scope
        with self.flow.repeat(at_most=plan.at_most, ref=f"s{next(self.refs)}") as loop:
            self.scope = outer.inner()
            known = len(outer.numbers)
            self.scope.numbers.append(loop.iteration)
            self.block(plan.body)
            if plan.until:
                loop.until(self._condition(plan.until))
            del self.scope.numbers[known]  # is known inside the loop only
        outer.adopt(outer.inner(), self.scope)
        self.scope = outer

    def _call(self, plan: CallPlan) -> None:
        scope, (one, two, three, four) = self.scope, plan.picks
        given: dict[str, Any] = {"number": picked(scope.numbers, one), "items": picked(scope.lists, two)}
        if three % 2:
            given["maybe"] = picked([None, *scope.maybes], four)
        if four % 2:
            given["flag"] = picked([True, *scope.flags], three)
        done = self.flow.call(next(self.calls), ref=f"s{next(self.refs)}", **given)
        self.scope.numbers.append(done.number)
        self.scope.words.append(done.word)
        self.scope.flags.append(done.flag)

    def _condition(self, picks: tuple[int, ...]) -> Any:
        kind, one, two, three, four = picks
        first = self._comparison(one, two, three)
        if kind % 3 == 0:
            return first
        second = self._comparison(two, three, four)
        return first & second if kind % 3 == 1 else first | second

    def _comparison(self, kind: int, one: int, two: int) -> Any:
        scope = self.scope
        references = [number for number in scope.numbers if not isinstance(number, int)]
        words = [word for word in scope.words if not isinstance(word, str)]
        match kind % 6:
            case 0:
                return picked(references, one) < picked(scope.numbers, two)
            case 1:
                return picked(references, one) >= picked(scope.numbers, two)
            case 2:
                return picked(references, one) == picked(scope.numbers, two)
            case 3:
                return picked(words, one) != picked(scope.words, two)
            case 4:
                return picked(scope.flags, one) == picked([True, False, *scope.flags], two)
            case _:
                return picked(scope.maybes, one) == picked([None, 1], two)


def declare(plan: Plan, name: str) -> Callable[..., Result]:
    """The function with the pipeline of the plan."""
    return Declaring(plan, name).pipeline(plan.body)


# strategies

_picks = st.tuples(*[st.integers(0, 11)] * 4)
_condition = st.tuples(*[st.integers(0, 23)] * 5)
_names = st.sampled_from(["write", "write", "write_inner", "read", "add"])
_steps = st.builds(StepPlan, _names, _picks, st.sampled_from([False] * 4 + [True]))
_each = st.builds(EachPlan, st.sampled_from([*TASKS]), _picks)
_inputs = st.fixed_dictionaries(
    {},
    optional={
        "number": st.integers(-2, 5),
        "word": st.sampled_from(WORDS),
        "flag": st.booleans(),
        "maybe": st.none() | st.integers(0, 1),
        "items": st.lists(st.integers(0, 9), max_size=3, unique=True),
    },
)


@cache  # hypothesis examines every new strategy, which takes longer than an example
def _blocks(depth: int, *, in_loop: bool) -> st.SearchStrategy[Block]:
    return st.lists(_nodes(depth, in_loop=in_loop), min_size=1, max_size=3).map(tuple)


@cache
def _nodes(depth: int, *, in_loop: bool) -> st.SearchStrategy[Node]:
    if depth == 0:
        return _steps
    inner = st.deferred(lambda: _blocks(depth - 1, in_loop=in_loop))
    in_a_loop = st.deferred(lambda: _blocks(depth - 1, in_loop=True))
    called = st.deferred(lambda: _blocks(depth - 1, in_loop=False))
    kinds: list[st.SearchStrategy[Node]] = [
        _steps,
        _steps,
        _each,
        st.builds(ForkPlan, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(WhenPlan, _condition, inner, st.just(()) | inner),
        st.builds(CallPlan, called, _picks),
    ]
    if not in_loop:
        # Conductor does not support a loop inside a loop.
        kinds.append(st.builds(RepeatPlan, st.integers(1, 3), in_a_loop, st.just(()) | _condition))
    return st.one_of(kinds)


_bodies = st.lists(_nodes(_DEPTH, in_loop=False), min_size=2, max_size=4).map(tuple)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    body = draw(_bodies)
    assume(steps_of(body) <= _MOST_STEPS)
    return Plan(
        body, draw(_inputs), draw(st.none() | st.none() | st.integers(0, 30)), draw(st.sampled_from(["fail", "terminal"]))
    )
