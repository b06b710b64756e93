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
