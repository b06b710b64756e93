"""Step 1: a read-only task that names the days to recompute. Each must have its flights in the workspace."""

from datetime import date, timedelta
from pathlib import Path

from examples.backfill.controls import QUICK_RETRY
from pydantic import BaseModel, Field

from perago import TaskTerminalError, WorkspaceSpec, require_glob, task


class Params(BaseModel):
    first_day: date = date(2013, 1, 1)
    count: int = Field(default=90, ge=1, le=365)


class Output(BaseModel):
    days: list[date]


@task(
    name="backfill.select_days",
    owner_email="data@example.com",
    description="Name the days to recompute.",
    workspace=WorkspaceSpec(prefix="/flights", read_only=True, pre=[require_glob("raw/flights/*.csv")]),
    controls=QUICK_RETRY,
)
def select_days(workspace: Path, params: Params) -> Output:
    days = [params.first_day + timedelta(days=number) for number in range(params.count)]
    missing = [day for day in days if not (workspace / "raw" / "flights" / f"{day}.csv").exists()]
    if missing:
        raise TaskTerminalError(f"{len(missing)} of {len(days)} days have no flights, the first is {missing[0]}")
    return Output(days=days)
