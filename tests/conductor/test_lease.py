"""Lease arithmetic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.conductor import lease

SECONDS = st.floats(min_value=1, max_value=1e6)


@pytest.mark.parametrize(("response", "expected"), [(600, 590), (60, 54), (10, 9), (1, 0.9)])
def test_the_local_deadline_is_a_margin_before_the_servers(response: float, expected: float) -> None:
    assert lease.start(response, polled_at=0).deadline == pytest.approx(expected)


@pytest.mark.parametrize(
    ("response", "heartbeat", "expected"),
    [(600, None, 60), (600, 20, 20), (600, 500, 60), (30, None, 10), (30, 25, 10), (3, None, 1)],
)
def test_extensions_come_early_enough_for_two_failures(response: float, heartbeat: float | None, expected: float) -> None:
    assert lease.start(response, 0, heartbeat).extend_at == pytest.approx(expected)


@given(response=SECONDS, polled_at=SECONDS, heartbeat=st.none() | SECONDS)
def test_two_extensions_always_lie_before_the_deadline(response: float, polled_at: float, heartbeat: float | None) -> None:
    held = lease.start(response, polled_at, heartbeat)
    assert held.renewed_at + 2 * held.interval < held.deadline


def test_a_task_without_a_response_timeout_has_conductors_default() -> None:
    assert lease.start(0, 0).response_timeout == 3600


def test_renewal_moves_the_deadline_and_never_back() -> None:
    held = lease.start(60, 100)
    assert held.renewed(120).deadline == pytest.approx(174)
    assert held.renewed(120).renewed(110).deadline == pytest.approx(174)


def test_lost_exactly_at_the_deadline() -> None:
    held = lease.start(10, 0)
    assert not held.lost(8.99)
    assert held.lost(9.0)
    assert held.left(10) == pytest.approx(-1)


def test_what_lies_between_decision_and_accepted_completion_has_to_fit() -> None:
    worst = lease.needed(extension=1, fence=2, publish=3, completion=2)
    assert lease.start(10, 0).fits(1.0, needed=worst)
    assert not lease.start(10, 0).fits(1.1, needed=worst)
