from itertools import pairwise
from random import Random

import pytest

from gua.sim.calendar import MINUTE_MS, MON, NEXT_WEEK, THU, TUE, Absence, Stretch, TickSpan, clock, spans
from gua.sim.host import END_MS

MONDAY_MS = 1_774_224_000_000  # 2026-03-23 00:00 UTC
FIVE_MINUTES_MS = 5 * MINUTE_MS


def ticking(*absences: Absence, ticks: int = 2016, interval_ms: int = FIVE_MINUTES_MS, seed: int = 1) -> list[TickSpan]:
    return list(spans(end_ms=END_MS, ticks=ticks, interval_ms=interval_ms, absences=absences, rng=Random(seed)))  # noqa: S311 - no secret


def test_a_stretch_returns_when_the_current_one_began() -> None:
    stretch = Stretch(MON + clock(9), MON + clock(10))

    assert stretch.begun_ms(MONDAY_MS + 9 * 60 * MINUTE_MS) == MONDAY_MS + 9 * 60 * MINUTE_MS
    assert stretch.begun_ms(MONDAY_MS + 10 * 60 * MINUTE_MS - 1) == MONDAY_MS + 9 * 60 * MINUTE_MS
    assert stretch.begun_ms(MONDAY_MS + 10 * 60 * MINUTE_MS) is None
    assert stretch.begun_ms(MONDAY_MS + 9 * 60 * MINUTE_MS - 1) is None


def test_a_stretch_may_run_over_the_week_s_end() -> None:
    stretch = Stretch(THU, NEXT_WEEK + TUE)

    assert stretch.begun_ms(MONDAY_MS) == MONDAY_MS - 4 * 24 * 60 * MINUTE_MS
    assert stretch.begun_ms(MONDAY_MS + TUE * MINUTE_MS) is None


@pytest.mark.parametrize("interval_ms", [1_000, 30_000, FIVE_MINUTES_MS, 10 * MINUTE_MS])
@pytest.mark.parametrize("seed", range(5))
def test_spans_never_overlap_and_end_before_the_end(interval_ms: int, seed: int) -> None:
    made = ticking(ticks=500, interval_ms=interval_ms, seed=seed)

    assert len(made) == 500
    assert made[-1].ts_ms <= END_MS
    assert all(late.ts_ms - late.duration_ms >= early.ts_ms for early, late in pairwise(made))


def test_the_first_span_is_no_longer_than_the_agent_is_old() -> None:
    first = ticking()[0]

    assert first.duration_ms == first.ts_ms - first.started_ms < FIVE_MINUTES_MS
    assert not first.continued


def test_ticks_follow_each_other_without_a_hole() -> None:
    made = ticking()

    assert all(late.continued and late.duration_ms == late.ts_ms - early.ts_ms for early, late in pairwise(made))
    assert len({span.duration_ms for span in made}) > 10, "some ms of jitter"


def test_after_a_restart_a_span_covers_only_what_the_new_agent_saw() -> None:
    stretch = Stretch(TUE + clock(10, 42), TUE + clock(10, 53))
    made = ticking(Absence(stretch, restarts=True))
    back = next(late for early, late in pairwise(made) if late.started_ms != early.started_ms)

    assert not back.continued
    assert back.started_ms == MONDAY_MS + (TUE + clock(10, 53)) * MINUTE_MS
    assert back.duration_ms == back.ts_ms - back.started_ms < 2 * MINUTE_MS


def test_after_a_silent_hour_a_span_covers_one_interval() -> None:
    made = ticking(Absence(Stretch(THU + clock(2), THU + clock(3)), restarts=False))
    early, late = next(pair for pair in pairwise(made) if not pair[1].continued)

    assert late.duration_ms == FIVE_MINUTES_MS
    assert late.started_ms == early.started_ms
    assert abs((late.ts_ms - late.duration_ms) - early.ts_ms - 60 * MINUTE_MS) < 100
