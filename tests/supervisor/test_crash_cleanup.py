"""What a worker removes that killed workers left behind."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest
from tests.support.waiting import eventually

from perago import settings
from perago.conductor.port import Conductor
from perago.supervisor import crash_cleanup
from perago.supervisor.context import BlockingCalls


def test_a_worker_removes_the_driver_directories_of_killed_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERAGO_CACHE_ROOT", str(tmp_path))
    monkeypatch.setenv("PERAGO_WORKSPACE_ROOT", str(tmp_path / "workspaces"))
    left = tmp_path / "spark" / "driver-killed"
    (left / "warehouse").mkdir(parents=True)
    (left / "lock").touch()

    async def work() -> None:
        with ThreadPoolExecutor(1) as pool:
            calls = BlockingCalls(cast("Conductor", None), pool)
            running = asyncio.create_task(crash_cleanup.sweep_at_intervals(calls, settings.load(), logging.getLogger()))
            await asyncio.to_thread(eventually, lambda: not left.exists(), within=20, what="the end of the directory")
            running.cancel()

    asyncio.run(work())
