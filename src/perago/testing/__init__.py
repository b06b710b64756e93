"""Tests of tasks and pipelines without servers.

    from perago.testing import run_pipeline, run_task

    run = run_task(my_module, files={"raw/a.txt": "hello"}, params={"word": "x"})
    assert run.ok, run.report()
    assert run.result == {"lines": 1} and run.added == ["out/words.txt"]

`run_task` performs the same steps as the worker: validate, download, pre checks, body, post checks, diff, publish.
`run_pipeline` does so for every step of a pipeline.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perago.local_run.table_changes import TableChange, TableSide
    from perago.testing.pipeline_runs import PipelineRun, run_pipeline
    from perago.testing.runs import TaskRun, run_task

__all__ = ["PipelineRun", "TableChange", "TableSide", "TaskRun", "run_pipeline", "run_task"]


def __getattr__(name: str) -> Any:
    """Loaded on first use, because it imports Pydantic and the worker's transaction."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from perago.local_run import table_changes  # noqa: PLC0415
    from perago.testing import pipeline_runs, runs  # noqa: PLC0415

    return next(getattr(module, name) for module in (runs, pipeline_runs, table_changes) if hasattr(module, name))
