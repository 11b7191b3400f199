"""The tests here need a card, and only its absence leaves them out: where one is, what is missing is a failure."""

from __future__ import annotations

import pytest

from hardware.here import evidence


@pytest.fixture(autouse=True, scope="session")
def a_card_is_here() -> str:
    """Return what says so."""
    found = evidence()
    if found is None:
        pytest.skip("no NVIDIA card is in this machine")
    return found
