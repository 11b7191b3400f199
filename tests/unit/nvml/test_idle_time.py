"""How much of a tick lay below active, by the driver's samples, and what those seconds drew."""

from __future__ import annotations

from math import inf, nan

import pytest
from pynvml import c_nvmlSample_t, c_nvmlValue_t

from fakes.clock import FakeClock
from fakes.nvml import FUNCTION_NOT_FOUND, NO_PERMISSION, NOT_SUPPORTED, Card, FakeDriver
from gua.agent.sampler import Covered, cover
from gua.core.ports import UtilizationSample
from gua.core.tick import CardReading
from gua.nvml.reader import NvmlReader

START_MS = 1_700_000_000_000
PERIOD_MS = 200


class Bench:
    """A card with utilization and power samples of the driver every 200 ms, in rings of 100; read every 30 s."""

    def __init__(self, **card: object) -> None:
        self.clock = FakeClock(wall_ms=START_MS)
        self.card = Card("GPU-a")
        for name, value in card.items():
            setattr(self.card, name, value)
        self.driver = FakeDriver(self.card)
        self.reader = NvmlReader(self.clock, self.driver)
        self.last_ms = START_MS
        self.sampled_ms = START_MS
        self.told = True
        self.run(200)
        self.read()

    def run(self, milliseconds: int, percent: int = 0, milliwatts: int | None = None) -> None:
        """Let time go by; without ``milliwatts`` the driver has no power samples of it."""
        for _ in range(milliseconds // PERIOD_MS):
            self.sampled_ms += PERIOD_MS
            if self.told:
                self.card.ring.append((self.sampled_ms * 1000, percent))
            if milliwatts is not None:
                self.card.power_ring.append((self.sampled_ms * 1000, milliwatts))
        self.clock.advance(milliseconds)

    def drained(self, seconds: int, percent: int = 0, milliwatts: int | None = None) -> None:
        """Let seconds go by as the agent does, with a drain every 5 of them."""
        for begun in range(0, seconds, 5):
            self.run(1000 * min(5, seconds - begun), percent, milliwatts)
            self.reader.drain()

    def read(self) -> Covered:
        """Return the values of the tick that ends now."""
        (raw,), _ = self.reader.read()
        since_ms, self.last_ms = self.last_ms, self.clock.wall_ms()
        return cover(raw.samples, raw.reading.utilization, start_ms=since_ms, end_ms=self.last_ms)

    def errors(self) -> list[str]:
        """Return the codes of what failed since the last reading."""
        _, errors = self.reader.read()
        return [error.code for error in errors]


def test_an_active_tick_with_12_idle_seconds_of_30_and_20_covered() -> None:
    bench = Bench()
    bench.drained(8, 100)
    bench.drained(12, 3)
    bench.told = False
    bench.run(10_000, 100)
    told = bench.read()
    # 8 s at 100 %, 12 s at 3 %, and 10 s with only the instant value (0 %) known.
    assert (told.coverage_ms, told.idle_ms) == (20_000, 12_000)
    assert told.mean == pytest.approx((8 * 1.0 + 12 * 0.03) / 30)
    assert told.mean is not None
    assert told.mean >= 0.10
    # The power of those seconds is unknown.
    assert (told.idle_mj, told.powered_ms) == (None, None)


def test_power_samples_yield_the_energy_of_the_idle_seconds_only() -> None:
    bench = Bench()
    bench.drained(8, 100, 640_000)
    bench.drained(12, 3, 120_000)
    bench.drained(10, 100, 640_000)
    told = bench.read()
    assert (told.coverage_ms, told.idle_ms) == (30_000, 12_000)
    # 12 s at 120 W.
    assert (told.powered_ms, told.idle_mj) == (12_000, 12 * 120_000)


def test_power_samples_of_a_part_yield_the_energy_of_that_part() -> None:
    bench = Bench()
    bench.drained(10, 100, 640_000)
    bench.drained(5, 0)
    bench.drained(5, 0, 120_000)
    bench.drained(10, 100, 640_000)
    told = bench.read()
    assert told.idle_ms == 10_000
    # The first of them after the hole covers its own 200 ms.
    assert (told.powered_ms, told.idle_mj) == (5_000, 5 * 120_000)


def test_short_bursts_are_resolved_to_the_sample() -> None:
    bench = Bench()
    for _ in range(30):
        bench.run(400, 100, 600_000)
        bench.run(600, 0, 100_000)
        bench.reader.drain()
    told = bench.read()
    assert told.mean == pytest.approx(0.4)
    assert told.idle_ms == 30 * 600
    assert told.powered_ms == 30 * 600
    assert told.idle_mj == 30 * 60_000


def test_the_threshold_itself_is_active() -> None:
    bench = Bench()
    bench.drained(10, 10)
    bench.drained(10, 9)
    assert bench.read().idle_ms == 10_000


def test_whole_idle_and_whole_active_ticks_read_no_power_samples() -> None:
    bench = Bench()
    bench.drained(30, 0, 71_000)
    assert bench.read().idle_ms == 30_000
    bench.drained(30, 100, 640_000)
    bench.read()
    assert [call for call, _ in bench.driver.asked if call == "power samples"] == []


@pytest.mark.parametrize(
    ("milliwatts", "kind"), [(2**32 - 1, 1), (4_000_000_000, 1)], ids=["all ones", "four megawatts"]
)
def test_an_impossible_power_yields_no_idle_energy(milliwatts: int, kind: int) -> None:
    bench = Bench(power_type=kind)
    bench.drained(10, 100, 640_000)
    bench.drained(10, 0, milliwatts)
    told = bench.read()
    assert (told.idle_ms, told.powered_ms, told.idle_mj) == (10_000, None, None)
    bench.drained(5, 0, milliwatts)
    assert "not a power" in bench.errors()


def test_an_unknown_type_of_power_value_yields_no_idle_energy() -> None:
    bench = Bench(power_type=99)
    bench.drained(10, 100, 640_000)
    bench.drained(10, 0, 120_000)
    told = bench.read()
    assert (told.idle_ms, told.powered_ms) == (10_000, None)


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION])
def test_a_driver_that_refuses_power_samples_still_yields_idle_time(code: int) -> None:
    bench = Bench(faults={"power samples": code})
    bench.drained(10, 100, 640_000)
    bench.drained(10, 0, 120_000)
    told = bench.read()
    assert (told.coverage_ms, told.idle_ms, told.powered_ms) == (20_000, 10_000, None)
    bench.drained(5, 0, 120_000)
    assert bench.errors() == ([] if code == NOT_SUPPORTED else ["NO_PERMISSION"])


def test_power_stamped_later_than_now_waits_until_its_time_has_come() -> None:
    bench = Bench()
    bench.drained(10, 100, 640_000)
    bench.card.power_ring.append(((bench.sampled_ms + 3_600_000) * 1000, 1_000))
    bench.drained(5, 0, 120_000)
    told = bench.read()
    assert told.idle_ms == 5_000
    assert told.idle_mj == pytest.approx(5 * 120_000, abs=120 * 1000)


@pytest.mark.parametrize("value", [nan, inf, -1.0, 1e9])
def test_garbage_among_utilization_samples_is_neither_idle_nor_active(value: float) -> None:
    bench = Bench()
    bench.drained(10, 100)
    bench.run(5_000, 0)
    ring = [
        c_nvmlSample_t(at_us, c_nvmlValue_t(dVal=value if place == 10 else float(percent)))
        for place, (at_us, percent) in enumerate(bench.card.ring[-25:])
    ]
    bench.driver.nvmlDeviceGetSamples = lambda *_: (0, ring)  # type: ignore[method-assign]
    bench.reader.drain()
    del bench.driver.nvmlDeviceGetSamples
    told = bench.read()
    assert (told.coverage_ms, told.idle_ms) == (14_800, 4_800)


def test_an_overflown_ring_covers_what_it_still_has() -> None:
    bench = Bench()
    bench.run(10_000, 100)
    bench.run(50_000, 0)
    told = bench.read()
    assert (told.coverage_ms, told.idle_ms) == (20_000, 20_000)


def test_without_samples_nothing_is_known_of_seconds() -> None:
    bench = Bench()
    bench.told = False
    bench.run(30_000, 0)
    told = bench.read()
    assert (told.coverage_ms, told.idle_ms) == (0, None)


def test_a_sample_as_long_as_the_tick_yields_no_idle_seconds() -> None:
    whole = UtilizationSample(0, 30_000, 0.6, 0.6)
    told = cover([whole], None, start_ms=0, end_ms=30_000)
    assert (told.mean, told.coverage_ms, told.idle_ms) == (0.6, 30_000, None)


def test_a_sample_cut_by_the_ticks_edge_counts_with_its_part() -> None:
    sample = UtilizationSample(0, 10_000, 0.5, 1.0, 5_000, 4_000, 400_000.0)
    told = cover([sample], None, start_ms=2_500, end_ms=10_000)
    assert (told.coverage_ms, told.idle_ms, told.powered_ms, told.idle_mj) == (7_500, 3_750, 3_000, 300_000)


def test_idle_time_never_exceeds_what_samples_cover() -> None:
    samples = [UtilizationSample(at, at + 167, 0.0, 0.0, 167, 167, 20.0) for at in range(0, 30_000, 150)]
    told = cover(samples, 0.0, start_ms=1_000, end_ms=29_000)
    assert told.idle_ms is not None
    assert told.coverage_ms is not None
    assert told.idle_ms <= told.coverage_ms <= 28_000


def test_a_long_ring_of_power_covers_all_idle_time() -> None:
    bench = Bench()
    bench.drained(30, 100, 640_000)
    bench.read()
    for _ in range(3):
        for _ in range(6):
            bench.run(2_000, 100, 640_000)
            bench.run(3_000, 0, 120_000)
            bench.reader.drain()
        told = bench.read()
        assert (told.idle_ms, told.powered_ms, told.idle_mj) == (18_000, 18_000, 18 * 120_000)


def test_a_power_ring_of_six_seconds_is_read_after_each_drain() -> None:
    bench = Bench()
    bench.drained(30, 100, 640_000)
    bench.read()
    for _ in range(6):
        bench.run(2_000, 100, 640_000)
        bench.run(3_000, 0, 120_000)
        del bench.card.power_ring[:-30]
        bench.reader.drain()
    told = bench.read()
    assert (told.idle_ms, told.powered_ms, told.idle_mj) == (18_000, 18_000, 18 * 120_000)


@pytest.mark.parametrize("held", [100, 30])
def test_an_agent_that_starts_with_full_power_rings_covers_all_idle_time(held: int) -> None:
    bench = Bench()
    bench.run(20_000, 100, 640_000)
    bench.reader.close()  # an agent that begins only now finds full rings
    bench.reader = NvmlReader(bench.clock, bench.driver)
    bench.read()
    for number in range(3):
        for _ in range(6):
            bench.run(2_000, 100, 640_000)
            bench.run(3_000, 0, 120_000)
            del bench.card.power_ring[:-held]
            bench.reader.drain()
        told = bench.read()
        if number:
            assert (told.idle_ms, told.powered_ms, told.idle_mj) == (18_000, 18_000, 18 * 120_000)


def test_power_from_before_a_clock_was_set_back_covers_the_retained_samples() -> None:
    bench = Bench()
    bench.drained(20, 100, 640_000)
    bench.drained(10, 0, 120_000)  # from here on it is known how far the ring reaches back
    bench.read()
    bench.drained(5, 100, 640_000)
    bench.drained(5, 0, 120_000)
    bench.drained(5, 100, 640_000)
    bench.clock.wall -= 1_000
    told = bench.read()
    assert (told.idle_ms, told.powered_ms) == (5_000, 5_000)


def test_a_clock_set_forward_a_day_yields_no_power_for_the_time_between() -> None:
    bench = Bench()
    bench.drained(10, 100, 640_000)
    bench.drained(5, 0, 120_000)
    day_ms = 86_400_000
    bench.clock.wall += day_ms
    bench.sampled_ms += day_ms
    bench.drained(5, 0, 120_000)
    told = bench.read()
    assert told.idle_ms is not None
    assert told.powered_ms is not None
    assert told.powered_ms <= told.idle_ms <= 10_000
    assert told.idle_mj == pytest.approx(told.powered_ms * 120)


@pytest.mark.parametrize("code", [NOT_SUPPORTED, FUNCTION_NOT_FOUND])
def test_a_driver_without_any_of_it_is_read_as_before(code: int) -> None:
    calls = ("nvmlDeviceGetSamples", "power samples", "nvmlDeviceGetCurrentClocksEventReasons")
    calls += ("nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetRemappedRows", "nvmlDeviceRegisterEvents")
    calls += ("nvmlGpmQueryDeviceSupport", "nvmlDeviceGetFieldValues")
    clock = FakeClock(wall_ms=START_MS)
    driver = FakeDriver(
        Card("GPU-a", gpu=70, gpm_supported=True, faults=dict.fromkeys(calls, code)), Card("GPU-b", gpu=70)
    )
    reader = NvmlReader(clock, driver, with_activity=True)
    for _ in range(2):
        (without, whole), errors = reader.read()
        clock.advance(30_000)
        reader.drain()
    # The samples are older than any driver: a driver without any samples is reported.
    assert {error.call for error in errors} <= ({"nvmlDeviceGetSamples"} if code == FUNCTION_NOT_FOUND else set())
    health = ("clock_reasons", "xid_errors", "xid", "ecc_errors", "row_remap", "recovery_action")
    assert {getattr(without.reading, name) for name in health} == {None}
    names = set(CardReading.__dataclass_fields__) - {*health, "uuid", "index", "pci"}
    assert {name: getattr(without.reading, name) for name in names} == {
        name: getattr(whole.reading, name) for name in names
    }
    assert (without.samples, without.activity) == ((), None)
    told = cover(without.samples, without.reading.utilization, start_ms=START_MS, end_ms=START_MS + 30_000)
    assert told == Covered(mean=0.7, largest=0.7, coverage_ms=0)
