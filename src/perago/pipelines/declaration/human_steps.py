"""Adds `flow.human`: a step that a person does."""

from collections.abc import Iterator, Mapping
from typing import cast

from pydantic import BaseModel

from perago.declare import contract_builder, signature
from perago.declare.checks import FILE_CHECKS
from perago.declare.controls import nested_problems
from perago.declare.problems import Problem
from perago.declare.signature import Signature, WorkspaceKind
from perago.declare.workspace_spec import WorkspaceSpec
from perago.pipelines import graph
from perago.pipelines.declaration import steps, symbols
from perago.pipelines.declaration.state import Declaration
from perago.pipelines.declaration.symbols import Symbol
from perago.pipelines.declaration.values import Converter

_SHAPE = "write flow.human('review', Question, Decision, workspace=WorkspaceSpec(...), field=...)"
_OTHERS = "use require_file, require_dir, require_glob or forbid_glob, and check the data in the next step"
_TAKEN = ("workspace",)


def human(
    declaration: Declaration,
    ref: object,
    question: object,
    decision: object,
    workspace: object,
    params: Mapping[str, object],
) -> Symbol:
    if not isinstance(ref, str):
        symbols.refuse("flow.human", f"the first argument is the name of the step, such as 'review', not {ref!r}; {_SHAPE}")
    name = declaration.take_ref(ref, "review")
    where = f"human {name}"
    wrong = [*_model_problems(question, "question"), *_model_problems(decision, "decision")]
    if wrong:
        # Nothing else can be checked without the models.
        symbols.refuse(where, f"{'; '.join(map(str, wrong))}; {_SHAPE}")
    asked, answered = cast("type[BaseModel]", question), cast("type[BaseModel]", decision)
    if workspace is not None:
        for problem in nested_problems("workspace", workspace, WorkspaceSpec):
            declaration.problem(where, str(problem))
    spec = workspace if isinstance(workspace, WorkspaceSpec) else None
    for check in () if spec is None else (*spec.pre, *spec.post):
        if not isinstance(check, FILE_CHECKS):
            declaration.problem(where, f"{_shown(check)} looks into the data and cannot travel with the task; {_OTHERS}")
    for problem in contract_builder.from_signature(Signature(_kind(spec), asked, answered)).problems:
        declaration.problem(where, str(problem))
    given = Converter(declaration).model_fields(steps.renamed(params, asked, _TAKEN), asked, f"{where}, question")
    declaration.add(graph.Human(name, asked, answered, spec, given))
    return declaration.result(name, answered)


def _kind(workspace: WorkspaceSpec | None) -> WorkspaceKind:
    return WorkspaceKind.NONE if workspace is None else WorkspaceKind.LOCAL


def _shown(check: object) -> str:
    return str(getattr(check, "__name__", check))


def _model_problems(given: object, name: str) -> Iterator[Problem]:
    yield from signature.model_problems(name, given)
