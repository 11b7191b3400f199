"""Idle time as it is told: in steps of a tick, so that it can be stored in little room."""

from __future__ import annotations

import pytest

from gua.core.idle_time import in_steps


@pytest.mark.parametrize(
    ("measured", "told"),
    [
        ((12_000, 1_080_000, 9_000), (12_000, 1_080_000, 9_000)),
        # To the nearest 125 ms and 7.5 J.
        ((12_062, 1_083_749, 9_063), (12_000, 1_080_000, 9_125)),
        ((12_063, 1_083_751, 9_062), (12_125, 1_087_500, 9_000)),
        # Of all of it: said by the energy alone, also where less than a step is missing.
        ((12_000, 1_440_000, 12_000), (12_000, 1_440_000, None)),
        ((12_040, 1_440_000, 11_980), (12_000, 1_440_000, None)),
        # Idle for the whole tick, of which samples cover 29,987 ms.
        ((29_987, None, None), (30_000, None, None)),
        ((0, None, None), (0, None, None)),
        # Less than half a step is none, and has no energy.
        ((62, 7_000, 62), (0, None, None)),
        ((200, 9_000, 62), (250, None, None)),
        ((12_000, 0, 12_000), (12_000, 0, None)),
    ],
)
def test_a_tick_of_30_s_tells_eighths_of_a_second_and_quarters_of_a_watt(
    measured: tuple[int, int | None, int | None], told: tuple[int, int | None, int | None]
) -> None:
    assert in_steps(*measured, interval_ms=30_000) == told


def test_steps_are_as_fine_in_a_tick_of_a_second() -> None:
    assert in_steps(499, 35_100, 300, interval_ms=1_000) == (500, 35_000, 300)
    assert in_steps(7, 300, 7, interval_ms=100) == (7, 300, None)
