from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gua.agent.loop import due_in_ms, phase_ms, step_ms


@given(
    wall_ms=st.integers(0, 2**42),
    interval_ms=st.integers(1_000, 600_000),
    host=st.text(min_size=1),
)
def test_a_tick_is_due_on_the_grid_and_never_more_than_a_tenth_late(wall_ms: int, interval_ms: int, host: str) -> None:
    phase = phase_ms(host, interval_ms)
    left_ms = due_in_ms(wall_ms, interval_ms, phase)
    assert 0 <= phase < interval_ms
    assert (wall_ms + left_ms - phase) % interval_ms == 0
    assert interval_ms / 10 <= left_ms < interval_ms * 1.1


def test_two_hosts_of_a_fleet_have_their_ticks_at_different_moments() -> None:
    assert len({phase_ms(f"node-{number}", 30_000) for number in range(100)}) > 95
    assert phase_ms("node-1", 30_000) == phase_ms("node-1", 30_000)


@pytest.mark.parametrize(
    ("left_ms", "step"), [(30_000, 5_000), (33_000, 4_715), (5_000, 5_000), (5_001, 2_501), (1_000, 1_000), (1, 1)]
)
def test_the_rings_are_drained_in_equal_steps_of_five_seconds_at_most(left_ms: int, step: int) -> None:
    assert step_ms(left_ms) == step
