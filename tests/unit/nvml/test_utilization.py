from __future__ import annotations

import pytest

from fakes.clock import FakeClock
from fakes.nvml import NOT_SUPPORTED, Card, FakeDriver
from gua.agent.sampler import Covered, cover
from gua.core.ports import UtilizationSample
from gua.nvml.reader import NvmlReader

SECOND_US = 1_000_000
T = 1_700_000_000 * SECOND_US


def sample(start_ms: int, end_ms: int, utilization: float, idle_ms: int | None = 0) -> UtilizationSample:
    return UtilizationSample(start_ms, end_ms, utilization, utilization, idle_ms)


def test_a_sample_covers_the_time_since_the_one_before_and_a_second_at_most() -> None:
    card = Card("GPU-a", ring=[(T, 10), (T + 200_000, 50), (T + 5 * SECOND_US, 130)])
    (raw,), errors = NvmlReader(FakeClock(wall_ms=T // 1000 + 5000), FakeDriver(card)).read()
    start_ms = T // 1000
    assert raw.samples == (
        sample(start_ms, start_ms + 200, 0.5),
        sample(start_ms + 4000, start_ms + 5000, 1.0),
    )
    assert errors == []


def test_the_next_reading_goes_on_where_the_last_one_ended() -> None:
    card = Card("GPU-a", ring=[(T, 10), (T + 200_000, 50)])
    driver = FakeDriver(card)
    reader = NvmlReader(FakeClock(wall_ms=T // 1000 + 400), driver)
    reader.read()
    card.ring.append((T + 400_000, 70))
    (raw,), _ = reader.read()
    start_ms = T // 1000
    assert raw.samples == (sample(start_ms + 200, start_ms + 400, 0.7),)
    assert [since for call, since in driver.asked if call == "nvmlDeviceGetSamples"] == [0, T + 200_000]


def test_a_card_without_samples_has_none_and_that_is_no_error() -> None:
    for card in (Card("GPU-a"), Card("GPU-a", faults={"nvmlDeviceGetSamples": NOT_SUPPORTED})):
        (raw,), errors = NvmlReader(FakeClock(), FakeDriver(card)).read()
        assert (raw.samples, list(errors)) == ((), [])


def test_the_mean_weighs_samples_by_time_and_the_rest_at_the_instant_value() -> None:
    samples = [sample(0, 1000, 0.0), sample(1000, 2000, 1.0), sample(3000, 4000, 0.5)]
    covered = cover(samples, 0.2, start_ms=1500, end_ms=5500)
    assert covered.coverage_ms == 1500
    assert covered.mean == pytest.approx((500 * 1.0 + 1000 * 0.5 + 2500 * 0.2) / 4000)
    assert covered.largest == 1.0


def test_without_samples_the_instant_value_stands_and_the_coverage_says_so() -> None:
    assert cover([], 0.0, start_ms=0, end_ms=1000) == Covered(mean=0.0, largest=0.0, coverage_ms=0)


def test_without_an_instant_value_only_what_samples_cover_counts() -> None:
    assert cover([sample(0, 400, 0.5)], None, start_ms=0, end_ms=1000) == Covered(
        mean=0.5, largest=0.5, coverage_ms=400, idle_ms=0
    )


def test_nothing_known_is_nothing_known() -> None:
    assert cover([sample(5000, 6000, 1.0)], None, start_ms=0, end_ms=1000) == Covered(
        mean=None, largest=None, coverage_ms=None
    )


def test_samples_that_overlap_count_their_common_time_once() -> None:
    covered = cover([sample(0, 600, 1.0), sample(400, 1000, 0.0)], 0.5, start_ms=0, end_ms=1000)
    assert covered == Covered(mean=0.6, largest=1.0, coverage_ms=1000, idle_ms=0)


def test_a_span_full_of_samples_needs_no_instant_value() -> None:
    samples = [sample(at, at + 166, float(at % 332 == 0)) for at in range(0, 600_000, 166)]
    covered = cover(samples, 0.5, start_ms=0, end_ms=600_000)
    assert covered.coverage_ms == 600_000
    assert covered.mean == pytest.approx(0.5, abs=0.001)
