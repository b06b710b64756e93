"""Draws a pipeline as a tree of lines: its steps, what they do to the workspace, and where their values come from."""

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from perago.declare.signature import WorkspaceKind
from perago.declare.task import TaskDeclaration
from perago.pipelines import graph

WIDTH = 100
_LONGEST_CONSTANT = 30


@dataclass(frozen=True, slots=True)
class _Entry:
    """A line of the tree, what continues it, and the entries below it."""

    title: str
    details: str = ""
    below: Sequence["_Entry"] = ()


def lines(pipeline: graph.Pipeline) -> list[str]:
    entries = [*_entries(pipeline.nodes)]
    if pipeline.outputs:
        entries.append(_Entry("result", _values(pipeline.outputs)))
    return [pipeline.name, *_drawn(entries, "")]


def _drawn(entries: Sequence[_Entry], prefix: str) -> Iterator[str]:
    for number, entry in enumerate(entries, 1):
        is_last = number == len(entries)
        deeper = prefix + ("   " if is_last else "│  ")
        text = f"{entry.title}: {entry.details}" if entry.details else entry.title
        continued = deeper + ("│    " if entry.below else "     ")
        yield from textwrap.wrap(
            text,
            WIDTH,
            initial_indent=prefix + ("└─ " if is_last else "├─ "),
            subsequent_indent=continued,
            break_on_hyphens=False,
        )
        yield from _drawn(entry.below, deeper)


def _entries(nodes: Sequence[graph.Node]) -> Iterator[_Entry]:
    for node in nodes:
        match node:
            case graph.Step():
                optional = ", optional" if node.optional else ""
                yield _Entry(f"{_task(node.ref, node.task)}{optional}", _values(node.params))
            case graph.Each():
                yield _Entry(f"each {_task(node.ref, node.task)}", f"over {_value(node.items)}; {_values(node.params)}")
            case graph.Call():
                yield _Entry(f"call {node.ref} (pipeline {node.pipeline.name})", _values(node.inputs))
            case graph.Wait():
                until = "" if node.until is None else f"until {_value(node.until)}"
                yield _Entry(f"wait {until or f'{node.seconds} s'}")
            case graph.Human():
                yield _Entry(f"{node.ref} (a person, {_does(node)})", _values(node.params))
            case graph.Fork() | graph.When() | graph.Repeat():
                yield from _block(node)


def _block(node: graph.Fork | graph.When | graph.Repeat) -> Iterator[_Entry]:
    match node:
        case graph.Fork():
            lanes = [
                _Entry(f"lane {lane.name}{' (own branch)' if lane.writes else ''}", below=[*_entries(lane.nodes)])
                for lane in node.lanes
            ]
            yield _Entry(node.ref, "lanes side by side, joined in one commit" if node.writes else "lanes side by side", lanes)
        case graph.When():
            yield _Entry(f"when {condition(node.condition)}", below=[*_entries(node.then)])
            if node.otherwise:
                yield _Entry("otherwise", below=[*_entries(node.otherwise)])
        case graph.Repeat():
            until = "" if node.until is None else f" until {condition(node.until)},"
            yield _Entry(f"{node.ref}:{until} at most {node.at_most} times", below=[*_entries(node.nodes)])


def condition(given: graph.Condition) -> str:
    """A condition as an author would write it."""
    match given:
        case graph.Compare():
            return f"{_value(given.left)} {given.comparison} {_value(given.right)}"
        case graph.IsTrue():
            return _value(given.reference)
        case graph.AllOf():
            return " & ".join(f"({condition(one)})" for one in given.conditions)
        case graph.AnyOf():
            return " | ".join(f"({condition(one)})" for one in given.conditions)


def _task(ref: str, task: TaskDeclaration) -> str:
    does = "no workspace" if task.kind is WorkspaceKind.NONE else "writes" if task.publishes else "reads"
    return f"{ref} (task {task.name}, {does})"


def _does(node: graph.Human) -> str:
    if node.workspace is None:
        return "no workspace"
    return f"may edit {node.workspace.prefix}" if node.writes else f"reads {node.workspace.prefix}"


def _values(values: Mapping[str, graph.Value]) -> str:
    return ", ".join(f"{name} = {_value(value)}" for name, value in values.items())


def _value(value: graph.Value) -> str:
    match value:
        case graph.Reference():
            return ".".join([_source(value.source), *value.path])
        case graph.Constant():
            shown = json.dumps(value.value, ensure_ascii=False)
            return shown if len(shown) <= _LONGEST_CONSTANT else f"{shown[:_LONGEST_CONSTANT]}…"
        case graph.ObjectOf():
            return f"{{{_values(value.fields)}}}"
        case graph.ListOf():
            return f"[{', '.join(map(_value, value.items))}]"


def _source(source: graph.Source) -> str:
    match source:
        case graph.PipelineInput():
            return "inputs"
        case graph.NodeResult(ref):
            return ref
        case graph.LoopIteration(ref):
            return f"{ref}.iteration"
        case graph.EachItem():
            return "item"
