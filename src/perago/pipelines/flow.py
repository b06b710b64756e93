"""`@pipeline` and `Flow`: a function that runs once, at import, and records its steps."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar, cast, overload

from pydantic import BaseModel

from perago.declare.workspace_spec import WorkspaceSpec
from perago.pipelines import graph
from perago.pipelines.declaration import each_steps, human_steps, steps, waits
from perago.pipelines.declaration.block_contexts import Branch, ForkLanes, Loop, fork_context, loop_context, when_context
from perago.pipelines.declaration.decorator import pipeline, pipeline_of, pipelines_in
from perago.pipelines.declaration.model_fields import Form
from perago.pipelines.declaration.state import Declaration
from perago.pipelines.declaration.symbols import Known, Symbol

__all__ = ["Flow", "pipeline", "pipeline_of", "pipelines_in"]

Result = TypeVar("Result", bound=BaseModel)
Params = TypeVar("Params", bound=BaseModel)
Returned = TypeVar("Returned")
Keywords = ParamSpec("Keywords")


class Flow:
    """What a pipeline function receives. Each method adds to the pipeline; the workspace goes from step to step by itself."""

    def __init__(self, declaration: Declaration) -> None:
        self._declaration = declaration

    @overload
    def step(
        self,
        task: Callable[[Any, Params], Result],
        params_model: Callable[Keywords, Params],
        /,
        *args: Keywords.args,
        **params: Keywords.kwargs,
    ) -> Result: ...
    @overload
    def step(
        self,
        task: Callable[[Params], Result],
        params_model: Callable[Keywords, Params],
        /,
        *args: Keywords.args,
        **params: Keywords.kwargs,
    ) -> Result: ...
    @overload
    def step(
        self, task: Callable[..., Result], /, *, ref: str | None = None, optional: bool = False, **params: object
    ) -> Result: ...
    def step(self, task: Any, *model: Any, ref: Any = None, optional: Any = False, **params: Any) -> Any:
        """Run a task. With its params model as second argument, a type checker checks the parameters too."""
        return steps.step(self._declaration, task, model, params, ref=ref, optional=optional)

    def fork(self, ref: str | None = None) -> AbstractContextManager[ForkLanes]:
        """Run lanes side by side: `with flow.fork() as fork:`, and in it `with fork.lane("name"):`."""
        return fork_context(self._declaration, ref)

    def each(
        self, items: Iterable[Any], task: Callable[..., Result], /, *, ref: str | None = None, **params: object
    ) -> list[Result]:
        """Run a task for every item of a list, side by side. The item goes to the parameter that is left, or to `flow.item`."""
        return cast("list[Result]", each_steps.each(self._declaration, items, task, params, ref=ref))

    @property
    def item(self) -> Any:
        """The item, in the parameters of `flow.each`."""
        here = self._declaration.here
        return Symbol(Known(self._declaration, graph.Reference(graph.EachItem()), "flow.item", here, Form.READ))

    def when(self, condition: bool, *, ref: str | None = None) -> AbstractContextManager[Branch]:
        """Run a block only if a condition holds: `with flow.when(rows.bad > 0) as branch:`, `with branch.otherwise():`."""
        return when_context(self._declaration, condition, ref)

    def repeat(self, *, at_most: int, ref: str | None = None) -> AbstractContextManager[Loop]:
        """Run a block at least once, and again until `loop.until(...)` holds or `at_most` iterations are done."""
        return loop_context(self._declaration, at_most, ref)

    def call(self, pipeline: Callable[..., Returned], /, *, ref: str | None = None, **inputs: object) -> Returned:
        """Run another pipeline as one step, on the same workspace."""
        return cast("Returned", steps.call(self._declaration, pipeline, inputs, ref=ref))

    def wait(self, *, seconds: int | None = None, until: object = None, ref: str | None = None) -> None:
        """Wait for a number of seconds, or until a moment."""
        waits.wait(self._declaration, seconds, until, ref)

    def human(
        self,
        ref: str,
        question: type[BaseModel],
        decision: type[Result],
        /,
        *,
        workspace: WorkspaceSpec | None = None,
        **params: object,
    ) -> Result:
        """Wait for a person, who answers a question and may edit files: `perago tasks` lists what waits.

        `params` are the fields of the question. Without a workspace there is nothing to edit.
        """
        return cast("Result", human_steps.human(self._declaration, ref, question, decision, workspace, params))
