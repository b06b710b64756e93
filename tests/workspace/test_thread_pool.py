import threading
import time

import pytest

from perago.workspace.transfer import thread_pool


def nothing() -> None:
    pass


def test_every_item_is_done_once_by_no_more_threads_than_allowed() -> None:
    done: list[int] = []
    names: set[str] = set()

    def work(item: int) -> None:
        names.add(f"{threading.get_ident()}")
        done.append(item)

    with thread_pool.TransferPool(work, light=3, heavy=1, name="test") as pool:
        for item in range(500):
            pool.submit(item, heavy=item % 10 == 0)
        pool.wait_below(1, nothing)
    assert sorted(done) == list(range(500))
    assert len(names) <= 4


def test_heavy_items_do_not_hold_up_light_ones() -> None:
    release = threading.Event()
    light_done = threading.Event()

    def work(item: str) -> None:
        if item == "heavy":
            assert release.wait(10)
        else:
            light_done.set()

    with thread_pool.TransferPool(work, light=1, heavy=1, name="test") as pool:
        for _ in range(5):
            pool.submit("heavy", heavy=True)
        pool.submit("light")
        assert light_done.wait(10)
        release.set()
        pool.wait_below(1, nothing)


def test_the_first_error_is_raised_and_the_rest_is_dropped() -> None:
    done: list[int] = []

    def work(item: int) -> None:
        if item == 0:
            raise ValueError("broken")
        done.append(item)

    with thread_pool.TransferPool(work, light=1, heavy=1, name="test") as pool:
        for item in range(100):
            pool.submit(item)
        with pytest.raises(ValueError, match="broken"):
            pool.wait_below(1, nothing)
    assert done == []
    assert not [thread for thread in threading.enumerate() if thread.name == "test"]


def test_running_items_are_waited_for_when_the_block_raises() -> None:
    started, finished = threading.Event(), threading.Event()

    def work(_: int) -> None:
        started.set()
        time.sleep(0.05)
        finished.set()

    def interrupted() -> None:
        with thread_pool.TransferPool(work, light=1, heavy=1, name="test") as pool:
            pool.submit(1)
            pool.submit(2)
            assert started.wait(10)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert finished.is_set()


def test_waiting_calls_tick_and_returns_when_few_enough_items_are_left() -> None:
    release = threading.Semaphore(0)
    ticks: list[int] = []

    def work(_: int) -> None:
        assert release.acquire(timeout=10)

    def tick() -> None:
        ticks.append(1)
        release.release(2)

    with thread_pool.TransferPool(work, light=4, heavy=1, name="test") as pool:
        for item in range(5):
            pool.submit(item)
        pool.wait_below(4, tick)
        assert ticks
        release.release(5)
        pool.wait_below(1, nothing)


def test_one_item_starts_one_thread() -> None:
    seen: list[int] = []

    def work(_: int) -> None:
        seen.append(len([thread for thread in threading.enumerate() if thread.name == "single"]))

    with thread_pool.TransferPool(work, light=8, heavy=8, name="single") as pool:
        pool.submit(1)
        pool.wait_below(1, nothing)
    assert seen == [1]
