"""Answers to the human steps of a pipeline that runs without servers, each as the body of a task with the step's contract."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from perago.declare import contract_builder, human_form
from perago.declare.controls import TaskControls
from perago.declare.signature import Signature, WorkspaceKind
from perago.declare.task import TaskDeclaration
from perago.errors import SetupError, TaskTerminalError
from perago.pipelines import graph

Answer = Mapping[str, Any] | BaseModel | Callable[..., Any]
"""The result, or a function that edits the files and returns it: `(workspace, question)`, or `(question)` without a workspace."""

TASK_NAME = "human"


@dataclass(frozen=True, slots=True)
class Answers:
    """By the reference name of the step: `review`, `review__2` in the second iteration of a loop, `nightly/review` in a call."""

    given: Mapping[str, Answer] = field(default_factory=dict[str, Answer])

    def require_for(self, pipeline: graph.Pipeline) -> None:
        """`SetupError` for a human step without an answer, and for an answer without a step, before anything runs."""
        steps = {node.ref: node for node in pipeline.humans()}
        for name in self.given:
            if _plain(name) not in steps:
                known = f"its human steps are {', '.join(steps)}" if steps else "it has no human steps"
                raise SetupError(f"the answer {name!r} is for no human step of pipeline {pipeline.name!r}: {known}")
        answered = {_plain(name) for name in self.given}
        missing = [node for ref, node in steps.items() if ref not in answered]
        if missing:
            raise SetupError(f"pipeline {pipeline.name!r} has {_unanswered(missing)}")

    def declaration(self, node: graph.Human, names: Sequence[str], module: str) -> TaskDeclaration:
        """The step as a task. `names` are those under which its answer is looked up, in their order."""
        found = next((self.given[name] for name in names if name in self.given), None)

        def body(*arguments: object) -> object:
            if found is None:
                raise TaskTerminalError(f"there is no answer for {names[0]}; give one for {node.ref}")
            return found(*arguments) if callable(found) else found

        kind = WorkspaceKind.NONE if node.workspace is None else WorkspaceKind.LOCAL
        contract = contract_builder.from_signature(Signature(kind, node.question, node.decision)).contract
        if contract is None:
            raise AssertionError(f"the models of {node.ref} were checked when it was declared")
        return TaskDeclaration(TASK_NAME, "", None, node.workspace, TaskControls(), contract, body, module)


def _plain(name: str) -> str:
    """Without the calls around a step and without the number of an iteration."""
    return re.sub(r"__\d+\Z", "", name.rpartition("/")[2])


def _unanswered(missing: Sequence[graph.Human]) -> str:
    names = ", ".join(node.ref for node in missing)
    first = missing[0]
    expected = human_form.of(first.decision, first.workspace).expected()
    how = f"--answer {first.ref}=JSON, or in a test answers={{{first.ref!r}: ...}}"
    return f"steps for which a person answers ({names}); give each an answer: {how}; {expected}"
