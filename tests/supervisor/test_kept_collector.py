"""Kept attempts are deleted when their time is over, in the repositories that the tasks of the worker use."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from tests.support.attempts import AttemptScene, memory_scene
from tests.support.waiting import eventually

from perago.attempt import kept_gc
from perago.conductor.port import Polled
from perago.errors import LakeUnavailable
from perago.model import Repository
from perago.protocol import kept_names, staging_names
from perago.settings import Settings
from perago.supervisor import kept_collector
from perago.supervisor.context import BlockingCalls
from perago.supervisor.kept_collector import KeptCollector


def keep(scene: AttemptScene, polled: Polled, until: float) -> None:
    name = kept_names.kept_branch(polled.attempt, staging_names.execution_id(0, bytes(8)), until)
    scene.lake.create_branch(scene.repository, name, scene.a)


def left(scene: AttemptScene) -> list[int]:
    return [name.until for name in kept_gc.names(scene.lake, scene.repository)]


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_collector, "SHORTEST_SECONDS", 0.01)


def test_what_is_due_is_deleted_and_the_next_one_when_it_is() -> None:
    scene, now, logged = memory_scene(), [100.0], list[dict[str, object]]()
    polled = scene.start()
    for until in (50, 100, 200):
        keep(scene, polled, until)

    async def work() -> None:
        with ThreadPoolExecutor(1) as pool:
            calls = BlockingCalls(scene.conductor, pool)
            log = logged.append
            collector = KeptCollector(calls, scene.lake, lambda _text, **fields: log(fields), 3600, now=lambda: now[-1])
            running = asyncio.create_task(collector.run())
            collector.watch(polled)
            await asyncio.to_thread(eventually, lambda: left(scene) == [200], within=10, what="the end of two")
            # It comes back when the last one is due, not after an hour.
            now.append(199.999)
            collector.watch(replace(polled, input={"workspace": {"repository": scene.repository}}))
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert await collector._collect(scene.repository) <= kept_collector.SHORTEST_SECONDS
            now.append(200.0)
            assert await collector._collect(scene.repository) == 3600

    asyncio.run(work())
    assert left(scene) == []
    assert logged == [{"repository": scene.repository, "count": 2}, {"repository": scene.repository, "count": 1}]


def test_an_outage_of_lakefs_is_waited_for() -> None:
    scene = memory_scene()
    keep(scene, scene.start(), 1)
    tap = scene.tap

    def away() -> None:
        raise LakeUnavailable("lakeFS cannot be reached")

    async def collected() -> float:
        with ThreadPoolExecutor(1) as pool:
            calls = BlockingCalls(scene.conductor, pool)
            return await KeptCollector(calls, tap, lambda *_args, **_fields: None, 7)._collect(scene.repository)  # pyright: ignore[reportArgumentType]  a tap is any lake

    tap.before["branches"] = away
    assert asyncio.run(collected()) == 7
    assert left(scene) == [1]


@pytest.mark.parametrize("workspace", [None, "text", {}, {"repository": 1}, {"repository": ""}])
def test_tasks_without_a_repository_are_not_remembered(workspace: object) -> None:
    scene = memory_scene()
    polled = replace(scene.start(), input={"workspace": workspace})
    with ThreadPoolExecutor(1) as pool:
        collector = KeptCollector(BlockingCalls(scene.conductor, pool), scene.lake, lambda *_args, **_fields: None, 7)
        collector.watch(polled)
        assert Repository("") not in collector._watched
        assert scene.repository not in collector._watched
        collector.watch(scene.start())
        assert scene.repository in collector._watched


def test_a_worker_looks_at_least_as_often_as_it_keeps_attempts() -> None:
    def seconds(**variables: str) -> float:
        return kept_collector.interval(Settings.model_validate(variables))

    assert seconds() == 3600
    assert seconds(PERAGO_KEEP_FAILED="5m") == 300
    assert seconds(PERAGO_KEEP_FAILED="2d") == 3600
    assert seconds(PERAGO_KEEP_FAILED="0", PERAGO_WORKSPACE_GC_INTERVAL="10m") == 600
