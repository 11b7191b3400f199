"""What the reader makes of the driver's ring of utilization samples between two readings."""

from __future__ import annotations

from itertools import pairwise
from operator import mul
from types import SimpleNamespace

import pytest

from fakes.clock import FakeClock
from fakes.nvml import NO_PERMISSION, NOT_FOUND, Card, FakeDriver, FakeNvmlError
from gua.core.ports import UtilizationSample
from gua.core.tick import ReadError
from gua.nvml import card
from gua.nvml.quirks import LEAST_UNIX_US, DriverClock
from gua.nvml.reader import NvmlReader
from gua.nvml.samples import MOST_SAMPLES

START_MS = 1_700_000_000_000


class Bench:
    """A card whose driver samples it every 200 ms as the clock goes on."""

    def __init__(self, *, stamp_from_us: int = START_MS * 1000) -> None:
        self.clock = FakeClock(wall_ms=START_MS)
        self.card = Card("GPU-a")
        self.driver = FakeDriver(self.card)
        self.reader = NvmlReader(self.clock, self.driver)
        self.sampled_us = stamp_from_us

    def run(self, milliseconds: int, percent: int = 0, *, period_ms: int = 200) -> None:
        for _ in range(milliseconds // period_ms):
            self.sampled_us += period_ms * 1000
            self.card.ring.append((self.sampled_us, percent))
        del self.card.ring[:-100]
        self.clock.advance(milliseconds)

    def read(self) -> tuple[UtilizationSample, ...]:
        (raw,), errors = self.reader.read()
        assert errors == []
        return raw.samples


def spans(samples: tuple[UtilizationSample, ...]) -> list[tuple[int, int]]:
    """Return the covered stretches, joined, in ms since the start."""
    joined: list[tuple[int, int]] = []
    for one in samples:
        start, end = one.start_ms - START_MS, one.end_ms - START_MS
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def mean(samples: tuple[UtilizationSample, ...]) -> float:
    lengths = [one.end_ms - one.start_ms for one in samples]
    return sum(map(mul, lengths, (one.utilization for one in samples))) / sum(lengths)


def test_an_interval_longer_than_the_ring_is_covered_whole_if_it_is_drained_on_the_way() -> None:
    bench = Bench()
    bench.run(200)
    bench.read()
    for percent in (0, 100, 0, 0, 0, 0):
        bench.run(5000, percent)
        bench.reader.drain()
    samples = bench.read()
    assert spans(samples) == [(200, 30_200)]
    assert mean(samples) == pytest.approx(1 / 6)


def test_samples_that_follow_each_other_are_kept_as_their_mean_and_the_largest_of_them() -> None:
    bench = Bench()
    bench.run(200)
    bench.read()
    for percent in (100, 20, 60, 40):
        bench.run(200, percent)
    bench.run(200, 10)
    first, rest = bench.read()
    # A tick's span begins within its first sample, which is therefore not mixed with others.
    assert (first.start_ms - START_MS, first.end_ms - START_MS, first.utilization) == (200, 400, 1.0)
    assert (rest.end_ms - START_MS, rest.utilization, rest.largest) == (1200, pytest.approx(0.325), 0.6)


def test_an_impossible_percentage_is_left_out_of_the_mean_with_an_error() -> None:
    bench = Bench()
    bench.run(200)
    bench.read()
    for percent in (50, 50, 4_000_000, 50):
        bench.run(200, percent)
    (raw,), errors = bench.reader.read()
    assert spans(raw.samples) == [(200, 600), (800, 1000)]
    assert mean(raw.samples) == 0.5
    assert [error.code for error in errors] == ["not a percentage"]


def test_what_the_ring_lost_before_it_was_drained_is_not_made_up() -> None:
    bench = Bench()
    bench.run(1000)
    bench.read()
    bench.run(60_000, 50)
    # 100 samples of 200 ms are left of the minute; the first of them covers its own 200 ms.
    assert spans(bench.read()) == [(41_000, 61_000)]


def asked(bench: Bench, call: str = "nvmlDeviceGetSamples") -> int:
    return sum(name == call for name, _ in bench.driver.asked)


@pytest.mark.parametrize("held", [pytest.param(100, id="20 s"), pytest.param(80, id="16 s")])
def test_a_ring_is_read_at_each_drain_however_far_it_reaches_back(held: int) -> None:
    bench = Bench()
    bench.run(30_000, 10)
    del bench.card.ring[:-held]
    bench.read()
    bench.read()
    for _ in range(2):
        before = asked(bench)
        for percent in (0, 100, 40, 0, 100):
            bench.run(5000, percent)
            bench.reader.drain()
        bench.run(5000, 30)
        assert asked(bench) - before == 5
        samples = bench.read()
        assert (spans(samples)[-1][1] - spans(samples)[0][0], len(spans(samples))) == (30_000, 1)
        assert mean(samples) == pytest.approx(270 / 600)
        assert sum(one.idle_ms or 0 for one in samples) == 10_000


def test_a_reading_that_comes_six_seconds_late_loses_nothing_of_a_ring_that_reaches_back_far() -> None:
    bench = Bench()
    bench.run(16_200, 50)
    bench.read()
    for wait in (5_000, 5_000, 5_000, 5_000 + 6_000):
        bench.run(wait, 50)
        del bench.card.ring[:-81]
        bench.reader.drain()
    assert spans(bench.read()) == [(16_200, 42_200)]


def test_a_ring_that_a_driver_begins_to_fill_sooner_is_read_at_each_drain() -> None:
    bench = Bench()
    bench.run(20_000, 50)
    bench.read()
    bench.run(5_000, 50, period_ms=50)
    bench.read()
    for _ in range(5):
        bench.run(5_000, 50, period_ms=50)
        bench.reader.drain()
    assert spans(bench.read()) == [(25_000, 50_000)]


def test_a_drain_that_failed_is_made_again_at_the_next() -> None:
    bench = Bench()
    bench.run(20_000, 50)
    bench.read()
    bench.run(10_000, 50)
    bench.card.faults["nvmlDeviceGetSamples"] = NO_PERMISSION
    bench.reader.drain()
    del bench.card.faults["nvmlDeviceGetSamples"]
    before = asked(bench)
    bench.run(5_000, 50)
    bench.reader.drain()
    assert asked(bench) - before == 1


def test_samples_are_delivered_once() -> None:
    bench = Bench()
    bench.run(2000)
    bench.reader.read()
    assert bench.read() == ()


def test_an_idle_card_without_samples_is_no_error_and_goes_on_after_the_gap() -> None:
    bench = Bench()
    bench.run(2000)
    bench.read()
    bench.clock.advance(120_000)
    bench.sampled_us += 120_000_000
    bench.reader.drain()
    assert bench.read() == ()
    bench.run(1000, 80)
    assert spans(bench.read()) == [(122_000, 123_000)]


def test_without_a_reader_the_oldest_samples_are_dropped() -> None:
    bench = Bench()
    bench.run(200)
    bench.read()
    for _ in range(MOST_SAMPLES + 10):
        bench.run(200)
        bench.reader.drain()
    samples = bench.read()
    assert len(samples) == MOST_SAMPLES
    assert samples[-1].end_ms == bench.clock.wall


def test_a_clock_that_was_set_back_an_hour_is_followed_at_once() -> None:
    bench = Bench()
    bench.run(5000)
    bench.read()
    bench.run(2000)
    bench.reader.drain()
    bench.clock.wall -= 3_600_000
    bench.sampled_us -= 3_600_000_000
    bench.run(4000, 100)
    samples = bench.read()
    # The ring's first sample on the new clock only starts the next; nothing lies in what is now the future.
    assert spans(samples) == [(-3_592_800, -3_589_000)]
    assert {one.utilization for one in samples} == {1.0}


def test_a_clock_that_was_set_forward_a_day_covers_no_more_than_was_sampled() -> None:
    bench = Bench()
    bench.run(5000)
    bench.read()
    bench.clock.wall += 86_400_000
    bench.sampled_us += 86_400_000_000
    bench.run(4000)
    assert spans(bench.read()) == [(86_405_000, 86_409_000)]


def test_samples_from_the_future_wait_until_their_time_has_come() -> None:
    bench = Bench()
    bench.run(1000)
    bench.read()
    bench.card.ring.append((bench.sampled_us + 200_000, 100))
    assert bench.read() == ()
    bench.clock.advance(200)
    assert spans(bench.read()) == [(1000, 1200)]


def test_samples_stamped_with_the_time_since_boot_are_converted_to_unix_time(monkeypatch: pytest.MonkeyPatch) -> None:
    booted_ms = 5_000_000
    bench = Bench(stamp_from_us=booted_ms * 1000)

    def since_boot_us() -> int:
        return (booted_ms + bench.clock.wall - START_MS) * 1000

    monkeypatch.setattr(card, "DriverClock", lambda clock: DriverClock(clock, since_boot_us))
    assert bench.sampled_us < LEAST_UNIX_US
    bench.run(1000)
    bench.read()
    bench.run(3000, 40)
    assert spans(bench.read()) == [(1000, 4000)]


@pytest.mark.parametrize("percent", [1001, 808_334_905, 2**32 - 1])
def test_a_sample_that_is_no_percentage_is_left_out_with_an_error(percent: int) -> None:
    bench = Bench()
    bench.run(1000)
    bench.read()
    bench.run(200, percent)
    bench.run(200, 30)
    (raw,), errors = bench.reader.read()
    assert [one.utilization for one in raw.samples] == [0.3]
    assert errors == [ReadError(call="nvmlDeviceGetSamples", code="not a percentage", uuid="GPU-a")]


def test_what_failed_in_a_drain_comes_with_the_next_reading_once() -> None:
    bench = Bench()
    bench.read()
    bench.card.faults["nvmlDeviceGetSamples"] = NO_PERMISSION
    for _ in range(5):
        bench.reader.drain()
    bench.card.faults.clear()
    _, errors = bench.reader.read()
    assert errors == [ReadError(call="nvmlDeviceGetSamples", code="NO_PERMISSION", uuid="GPU-a")]
    _, errors = bench.reader.read()
    assert errors == []


def test_a_drain_before_the_first_reading_does_nothing() -> None:
    driver = FakeDriver(Card("GPU-a"))
    NvmlReader(FakeClock(), driver).drain()
    assert (driver.opened, driver.asked) == (0, [])


def test_a_code_that_means_idle_is_no_error() -> None:
    bench = Bench()
    bench.card.faults["nvmlDeviceGetSamples"] = NOT_FOUND
    assert bench.read() == ()


def test_a_clock_that_was_set_back_two_seconds_counts_no_moment_twice() -> None:
    bench = Bench()
    bench.run(5000)
    bench.read()
    bench.run(10_000)
    bench.reader.drain()
    bench.clock.wall -= 2000
    bench.sampled_us -= 2_000_000
    bench.run(4000)
    samples = bench.read()
    assert spans(samples) == [(5000, 17_000)]
    assert all(one.end_ms <= after.start_ms for one, after in pairwise(samples))


def test_a_ring_that_grew_after_its_size_was_read_is_read_again() -> None:
    bench = Bench()
    bench.run(1000)
    bench.read()
    bench.run(1000)
    get_samples = bench.driver.nvmlDeviceGetSamples
    answers = iter([FakeNvmlError(7)])

    def grown(device: object, kind: int, since_us: int, /) -> tuple[int, list[SimpleNamespace]]:
        for error in answers:
            raise error
        return get_samples(device, kind, since_us)

    grown.__name__ = "nvmlDeviceGetSamples"
    bench.driver.nvmlDeviceGetSamples = grown  # type: ignore[method-assign]
    assert spans(bench.read()) == [(1000, 2000)]
