"""The blocks of `flow.fork`, `flow.when` and `flow.repeat`, as context managers."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import cast

from perago.declare.problems import whole
from perago.pipelines import graph
from perago.pipelines.declaration import symbols
from perago.pipelines.declaration.blocks import Block, BlockKind
from perago.pipelines.declaration.model_fields import Form
from perago.pipelines.declaration.state import Declaration
from perago.pipelines.declaration.symbols import Known, Symbol

MOST_ITERATIONS = 10_000


class ForkLanes:
    """What `with flow.fork() as fork` gives."""

    def __init__(self, declaration: Declaration, block: Block) -> None:
        self._declaration = declaration
        self._block = block
        self.lanes: list[graph.Lane] = []

    @contextmanager
    def lane(self, name: str) -> Generator[None]:
        """One of the blocks that run side by side."""
        declaration, ref = self._declaration, self._block.ref
        if declaration.here is not self._block:
            declaration.problem(f"{ref}, lane {name}", "a lane stands directly inside its fork")
        taken = declaration.take_lane(ref, name)
        block = declaration.enter(BlockKind.LANE, ref)
        yield
        declaration.leave(block)
        if not block.nodes:
            declaration.problem(f"{ref}, lane {taken}", "has no steps; remove it")
        self.lanes.append(graph.Lane(taken, tuple(block.nodes)))


@contextmanager
def fork_context(declaration: Declaration, ref: object) -> Generator[ForkLanes]:
    taken = declaration.numbered_ref(ref, "fork")
    block = declaration.enter(BlockKind.FORK, taken)
    fork = ForkLanes(declaration, block)
    yield fork
    declaration.leave(block)
    if not fork.lanes:
        declaration.problem(taken, "the fork has no lanes; write with fork.lane('name'):")
    declaration.add(graph.Fork(taken, tuple(fork.lanes)))


class Branch:
    """What `with flow.when(...) as branch` gives."""

    def __init__(self, declaration: Declaration, ref: str) -> None:
        self._declaration = declaration
        self.ref = ref
        self.node: graph.When | None = None

    @contextmanager
    def otherwise(self) -> Generator[None]:
        """The block that runs if the condition does not hold. Follows the block of `flow.when` directly."""
        declaration, nodes = self._declaration, self._declaration.here.nodes
        if self.node is None or not nodes or nodes[-1] is not self.node:
            what = "has two of them" if self.node and self.node.otherwise else "must directly follow the block of its flow.when"
            declaration.problem(self.ref, f"otherwise() {what}")
        block = declaration.enter(BlockKind.WHEN, self.ref)
        yield
        declaration.leave(block)
        if not block.nodes:
            declaration.problem(self.ref, "the block of otherwise() has no steps; remove it")
        if self.node is not None and nodes and nodes[-1] is self.node:
            nodes[-1] = graph.When(self.ref, self.node.condition, self.node.then, tuple(block.nodes))
            self.node = nodes[-1] if not block.nodes else None


@contextmanager
def when_context(declaration: Declaration, condition: object, ref: object) -> Generator[Branch]:
    taken = declaration.numbered_ref(ref, "when")
    recorded = symbols.condition(condition)
    declaration.check_condition(recorded, taken)
    block = declaration.enter(BlockKind.WHEN, taken)
    branch = Branch(declaration, taken)
    yield branch
    declaration.leave(block)
    if not block.nodes:
        declaration.problem(taken, "the block of flow.when has no steps")
    branch.node = graph.When(taken, recorded.condition, tuple(block.nodes))
    declaration.add(branch.node)


class Loop:
    """What `with flow.repeat(...) as loop` gives."""

    def __init__(self, declaration: Declaration, block: Block) -> None:
        self._declaration = declaration
        self._block = block
        self.condition: graph.Condition | None = None

    @property
    def iteration(self) -> int:
        """The number of the present iteration, from 1."""
        ref = self._block.ref
        reference = graph.Reference(graph.LoopIteration(ref), (), int)
        what = Known(self._declaration, reference, f"{ref}.iteration", self._block, Form.WRITTEN, leaves_block=False)
        return cast("int", Symbol(what))

    def until(self, condition: bool) -> None:
        """End the loop when the condition holds after an iteration."""
        declaration, ref = self._declaration, self._block.ref
        recorded = symbols.condition(condition)
        if declaration.here is not self._block:
            declaration.problem(ref, "until() stands directly inside the block of its flow.repeat")
        elif self.condition is not None:
            declaration.problem(ref, "until() is given twice; combine the conditions with & or |")
        else:
            declaration.check_condition(recorded, f"{ref}, until")
        self.condition = recorded.condition


@contextmanager
def loop_context(declaration: Declaration, at_most: object, ref: object) -> Generator[Loop]:
    taken = declaration.numbered_ref(ref, "repeat")
    for wrong in whole("at_most", at_most, least=1, most=MOST_ITERATIONS):
        declaration.problem(taken, str(wrong))
    if declaration.here.inside(BlockKind.LOOP) is not None:
        what = "is a loop inside a loop, which Conductor does not support"
        declaration.problem(taken, f"{what}; put the inner loop into a pipeline of its own and flow.call it")
    block = declaration.enter(BlockKind.LOOP, taken)
    loop = Loop(declaration, block)
    yield loop
    declaration.leave(block)
    if not block.nodes:
        declaration.problem(taken, "the block of flow.repeat has no steps")
    limit = at_most if isinstance(at_most, int) else 1
    declaration.add(graph.Repeat(taken, tuple(block.nodes), limit, loop.condition))
