from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gua.agent.sampler import SET_BACK_LIMIT_MS, Outcome, coverage
from gua.core.ports import Mark

INTERVAL_MS = 30_000
MARK = Mark(ts_ms=1_000_000_000, monotonic_ms=500_000, boot_id="a")


def after(wall_ms: int, monotonic_ms: int | None = None, *, boot: str | None = "a", uptime_ms: int = 10**9) -> object:
    now = Mark(
        ts_ms=MARK.ts_ms + wall_ms,
        monotonic_ms=MARK.monotonic_ms + (wall_ms if monotonic_ms is None else monotonic_ms),
        boot_id=boot,
    )
    found = coverage(now, MARK, interval_ms=INTERVAL_MS, uptime_ms=uptime_ms)
    return found.duration_ms, found.outcome


def first(uptime_ms: int) -> tuple[int, Outcome]:
    found = coverage(MARK, None, interval_ms=INTERVAL_MS, uptime_ms=uptime_ms)
    return found.duration_ms, found.outcome


def test_without_a_mark_it_covers_the_agents_age_or_one_interval() -> None:
    assert first(uptime_ms=400) == (400, Outcome.RESUMED)
    assert first(uptime_ms=60_000) == (30_000, Outcome.RESUMED)
    assert first(uptime_ms=0) == (0, Outcome.TOO_SOON)


@pytest.mark.parametrize("passed_ms", [1, 29_990, 30_000, 30_700, 60_000])
def test_it_covers_what_passed_since_the_mark(passed_ms: int) -> None:
    assert after(passed_ms, uptime_ms=50) == (passed_ms, Outcome.CONTINUED)


@pytest.mark.parametrize(
    ("wall_ms", "monotonic_ms", "expected"),
    [
        (30_000, 29_000, 29_000),  # the clock was set forward by a second
        (29_000, 30_000, 29_000),  # and back
        (86_400_000, 30_000, 30_000),  # suspended for a day, or set forward by one
    ],
)
def test_the_smaller_of_both_clocks_counts(wall_ms: int, monotonic_ms: int, expected: int) -> None:
    assert after(wall_ms, monotonic_ms)[0] == expected


def test_after_a_break_it_covers_one_interval_and_no_more_than_the_agents_age() -> None:
    assert after(60_001) == (30_000, Outcome.RESUMED)
    assert after(60_001, uptime_ms=200) == (200, Outcome.RESUMED)


def test_a_break_that_only_the_monotonic_clock_saw_is_a_break_too() -> None:
    assert after(40_000, 70_000) == (30_000, Outcome.RESUMED)


def test_after_another_boot_the_monotonic_clock_says_nothing() -> None:
    assert after(20_000, -400_000, boot="b", uptime_ms=25_000) == (20_000, Outcome.RESUMED)
    assert after(900_000, 10, boot="b", uptime_ms=25_000) == (25_000, Outcome.RESUMED)


@pytest.mark.parametrize("wall_ms", [0, -1, -SET_BACK_LIMIT_MS])
def test_a_clock_at_or_before_the_mark_makes_no_tick(wall_ms: int) -> None:
    assert after(wall_ms, 30_000) == (0, Outcome.WAITING)


def test_a_clock_set_back_by_more_than_ten_minutes_drops_the_mark() -> None:
    assert after(-SET_BACK_LIMIT_MS - 1, 30_000) == (30_000, Outcome.RESTARTED)


def test_the_monotonic_clock_bounds_the_span_even_then() -> None:
    assert after(-SET_BACK_LIMIT_MS - 1, 10_000) == (10_000, Outcome.RESTARTED)


def test_a_system_without_boot_ids_is_judged_by_its_monotonic_clock() -> None:
    mark = Mark(ts_ms=1_000_000, monotonic_ms=500_000, boot_id=None)
    on = Mark(ts_ms=1_030_000, monotonic_ms=530_000, boot_id=None)
    rebooted = Mark(ts_ms=1_030_000, monotonic_ms=20_000, boot_id=None)
    assert coverage(on, mark, interval_ms=INTERVAL_MS, uptime_ms=10**6).outcome is Outcome.CONTINUED
    assert coverage(rebooted, mark, interval_ms=INTERVAL_MS, uptime_ms=5_000).duration_ms == 5_000


@pytest.mark.parametrize(("passed_ms", "wall_ms"), [(0, 30_000), (10_000, 20_000), (0, -SET_BACK_LIMIT_MS - 1)])
def test_a_mark_of_a_time_that_its_boot_has_not_reached_is_dropped(passed_ms: int, wall_ms: int) -> None:
    # Its monotonic time lies 400 s ahead: waited for, it would be no tick for 400 s, after a damaged one for ever.
    expected = 25_000 if wall_ms < 0 else min(25_000, wall_ms)
    outcome = Outcome.RESTARTED if wall_ms < 0 else Outcome.MARK_AHEAD
    assert after(wall_ms, passed_ms - 400_000, uptime_ms=25_000) == (expected, outcome)


def test_such_a_mark_still_keeps_spans_apart() -> None:
    assert after(-1, -400_000) == (0, Outcome.WAITING)
    assert after(7, -400_000) == (7, Outcome.MARK_AHEAD)


@dataclass
class Host:
    """Real time passes; the clocks show it as the events below make them."""

    interval_ms: int
    real_ms: int = 0
    wall_ms: int = 10**12
    monotonic_ms: int = 1_000
    boots: int = 0
    agent_since_ms: int = 1_000
    mark: Mark | None = None
    spans: list[tuple[int, int]] = field(default_factory=list)
    marked_at_real_ms: int = 0

    def run(self, milliseconds: int) -> None:
        self.real_ms += milliseconds
        self.wall_ms += milliseconds
        self.monotonic_ms += milliseconds

    def suspend(self, milliseconds: int) -> None:
        self.real_ms += milliseconds
        self.wall_ms += milliseconds

    def step(self, milliseconds: int) -> None:
        self.wall_ms += milliseconds

    def restart(self, milliseconds: int) -> None:
        self.run(milliseconds)
        self.agent_since_ms = self.monotonic_ms

    def reboot(self, milliseconds: int) -> None:
        self.suspend(milliseconds)
        self.boots += 1
        self.monotonic_ms = 0
        self.agent_since_ms = 0

    def tick(self, milliseconds: int) -> None:
        self.run(milliseconds)
        now = Mark(ts_ms=self.wall_ms, monotonic_ms=self.monotonic_ms, boot_id=f"boot {self.boots}")
        found = coverage(
            now, self.mark, interval_ms=self.interval_ms, uptime_ms=self.monotonic_ms - self.agent_since_ms
        )
        assert (found.duration_ms == 0) == (found.outcome in {Outcome.WAITING, Outcome.TOO_SOON})
        if found.duration_ms == 0:
            return
        if found.outcome is Outcome.RESTARTED:
            # Counted and shown: from here on the wall clock passes a second time.
            self.spans.clear()
        self.mark = now
        self.spans.append((now.ts_ms - found.duration_ms, now.ts_ms))
        # Tick by tick, so that no unobserved time makes room for a span that is too long.
        assert found.duration_ms <= self.real_ms - self.marked_at_real_ms
        self.marked_at_real_ms = self.real_ms
        if len(self.spans) > 1:
            assert self.spans[-2][1] <= self.spans[-1][0]


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("tick"), st.integers(0, 40_000)),
        st.tuples(st.just("tick"), st.just(30_000)),
        st.tuples(st.sampled_from(["run", "suspend", "restart", "reboot"]), st.integers(0, 200_000)),
        st.tuples(st.just("step"), st.just(-SET_BACK_LIMIT_MS - 50_000)),
        st.tuples(st.just("step"), st.integers(-2 * SET_BACK_LIMIT_MS, 2 * SET_BACK_LIMIT_MS)),
        st.tuples(st.just("step"), st.integers(-200_000, 200_000)),
        st.tuples(st.just("step"), st.integers(-2_000, 2_000)),
    ),
    max_size=60,
)


@given(events=EVENTS, interval_ms=st.sampled_from([1_000, 30_000, 600_000]))
def test_spans_never_overlap_and_never_sum_to_more_than_the_time_that_passed(
    events: list[tuple[str, int]], interval_ms: int
) -> None:
    host = Host(interval_ms=interval_ms)
    for name, milliseconds in events:
        getattr(host, name)(milliseconds)
