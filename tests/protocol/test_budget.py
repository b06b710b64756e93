"""Budget arithmetic."""

import pytest

from perago.protocol import budget


def test_the_response_timeout_holds_every_closing_step() -> None:
    assert budget.Budget(30, 10, 20, 5).response_timeout_seconds == 65


@pytest.mark.parametrize("response", [600, 135])
def test_the_default_fits_where_there_is_room(response: float) -> None:
    assert budget.default_for(response) == budget.DEFAULT


@pytest.mark.parametrize("response", [1, 10, 134])
def test_the_default_shrinks_to_a_short_response_timeout(response: float) -> None:
    shrunk = budget.default_for(response)
    assert shrunk.response_timeout_seconds == pytest.approx(response)
    assert shrunk.publish_seconds / shrunk.completion_seconds == pytest.approx(4)


@pytest.mark.parametrize(("timeout", "shortfall"), [(12, 0), (10, 0), (8.5, 1.5)])
def test_a_merge_timeout_below_what_was_observed_falls_short(timeout: float, shortfall: float) -> None:
    assert budget.merge_timeout_shortfall(observed_p99=8, margin=2, merge_timeout=timeout) == shortfall
