"""The state of one pipeline declaration: its blocks, the reference names in use, and the problems found so far."""

import re
from typing import Any

from perago.declare.problems import Problem
from perago.pipelines import graph, reference_names
from perago.pipelines.declaration import blocks
from perago.pipelines.declaration.blocks import Block, BlockKind
from perago.pipelines.declaration.model_fields import Form
from perago.pipelines.declaration.symbols import ConditionSymbol, Known, Symbol, known

_WELL_FORMED = re.compile(r"[A-Za-z0-9_]+")


class Declaration:
    def __init__(self, name: str) -> None:
        self.name = name
        self.problems: list[Problem] = []
        self.top = Block(BlockKind.PIPELINE, name)
        self.here = self.top
        self._refs: set[str] = set()
        self._lanes: dict[str, set[str]] = {}

    def problem(self, field: str, what: str) -> None:
        found = Problem(field, what)
        if found not in self.problems:
            self.problems.append(found)

    # reference names

    def take_ref(self, given: object, default: str) -> str:
        """The reference name of a step; a problem if it is ill-formed or in use."""
        ref = default if given is None else given
        if not isinstance(ref, str):
            self.problem("ref", f"must be text such as 'clean_orders', not {ref!r}")
            return default
        self._check_name(f"step {ref}", ref)
        if ref in self._refs:
            self.problem(f"step {ref}", "the reference name is used twice; give one of them another with ref='...'")
        self._refs.add(ref)
        return ref

    def numbered_ref(self, given: object, kind: str) -> str:
        """As `take_ref`, for a block: `fork`, `fork_2`, …"""
        ref, number = kind, 1
        while ref in self._refs:
            number += 1
            ref = f"{kind}_{number}"
        return self.take_ref(given, ref)

    def _check_name(self, where: str, name: str) -> None:
        if not _WELL_FORMED.fullmatch(name):
            self.problem(where, f"{name!r} is not a reference name; use letters, digits and _")
        elif "__" in name:
            self.problem(where, f"{name!r} contains '__', by which Conductor separates the number of an iteration; use one _")
        elif name in reference_names.RESERVED:
            self.problem(where, f"{name!r} is reserved by Conductor; give another name with ref='...'")

    def take_lane(self, fork: str, name: object) -> str:
        lanes = self._lanes.setdefault(fork, set())
        if not isinstance(name, str):
            self.problem(fork, f"a lane's name must be text, not {name!r}")
            return str(name)
        self._check_name(f"{fork}, lane {name}", name)
        if name in lanes:
            self.problem(f"{fork}, lane {name}", "the name is used twice")
        lanes.add(name)
        return name

    # blocks

    def enter(self, kind: BlockKind, ref: str) -> Block:
        self.here = Block(kind, ref, self.here)
        return self.here

    def leave(self, block: Block) -> None:
        block.closed = True
        if block.parent is not None:
            self.here = block.parent

    def add(self, node: graph.Node) -> None:
        if self.here.kind is BlockKind.FORK:
            self.problem(f"step {node.ref}", f"stands in {self.here.ref} outside its lanes; put it into a lane or after the fork")
        self.here.nodes.append(node)

    # references

    def result(self, ref: str, annotation: Any, *, optional: bool = False) -> Symbol:
        reference = graph.Reference(graph.NodeResult(ref), (), annotation)
        return Symbol(Known(self, reference, ref, self.here, Form.WRITTEN, leaves_block=not optional))

    def may_use(self, what: Known, where: str) -> bool:
        """A problem, and False, if a value may be missing where it is used."""
        if what.declaration is not self:
            self.problem(where, f"{what.label} belongs to the pipeline {what.declaration.name!r}; pass it as an input")
            return False
        missing = blocks.why_unavailable(what.home, self.here, leaves_block=what.leaves_block)
        if missing is not None:
            self.problem(where, f"{what.label} cannot be used here: {missing}")
        return missing is None

    def check_condition(self, condition: ConditionSymbol, where: str) -> None:
        for symbol in condition.symbols:
            what = known(symbol)
            if isinstance(what.reference.source, graph.EachItem):
                self.problem(where, "flow.item is the item of flow.each and has no meaning elsewhere")
            else:
                self.may_use(what, where)

    def check_helper_names(self) -> None:
        """After the function ran: no name may be one that the compiler adds for another node."""
        for node in graph.walk(self.top.nodes):
            for taken in sorted(reference_names.helpers(node) & self._refs):
                self.problem(f"step {taken}", f"the name is needed for a part of {node.ref}; give another with ref='...'")
