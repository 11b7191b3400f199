"""Utilization of MIG instances, from the performance counters of Hopper and newer chips."""

from __future__ import annotations

import math

import pytest

from fakes.clock import FakeClock
from fakes.nvml import FUNCTION_NOT_FOUND, GIB, NO_PERMISSION, Card, FakeDriver
from gua.core.ports import RawCard, UtilizationSample
from gua.core.tick import ReadError
from gua.nvml.reader import NvmlReader


def instance(number: int, *, uuid: str | None = None, percent: float = 0.0) -> Card:
    name = uuid or f"MIG-{number}"
    return Card(name, total=10 * GIB, used=0, reserved=0, slices=1, gpu_instance=number, gpm_percent=percent)


class Host:
    def __init__(self, *instances: Card | None, gpm: bool = True) -> None:
        self.card = Card("GPU-a", mig=True, gpm_supported=gpm, instances=list(instances))
        self.clock = FakeClock()
        self.driver = FakeDriver(self.card)
        self.reader = NvmlReader(self.clock, self.driver)
        self.errors: list[ReadError] = []

    def tick(self, milliseconds: int = 30_000) -> dict[str, RawCard]:
        self.clock.advance(milliseconds)
        cards, errors = self.reader.read()
        self.errors = list(errors)
        return {raw.reading.uuid: raw for raw in cards}


def test_the_mean_of_an_instance_is_over_the_whole_span_between_two_readings() -> None:
    host = Host(instance(1, percent=37.5), instance(2, percent=0))
    assert host.tick()["MIG-1"].samples == ()
    cards = host.tick()
    end_ms = host.clock.wall
    assert cards["MIG-1"].samples == (
        UtilizationSample(start_ms=end_ms - 30_000, end_ms=end_ms, utilization=0.375, largest=0.375),
    )
    assert cards["MIG-2"].samples[0].utilization == 0.0
    assert cards["GPU-a"].samples == ()
    assert cards["MIG-1"].reading.utilization is None
    assert host.errors == []


def test_an_instance_whose_counters_alone_can_be_read_has_not_failed() -> None:
    one = instance(1, percent=50)
    lists = [f"nvmlDeviceGet{kind}RunningProcesses_v3" for kind in ("Compute", "Graphics", "MPSCompute")]
    one.faults = dict.fromkeys(["nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2", *lists], NO_PERMISSION)
    host = Host(one)
    assert host.tick()["MIG-1"].reading.failed is None
    assert host.tick()["MIG-1"].reading.failed is False


def test_a_chip_without_counters_leaves_utilization_unknown_without_an_error() -> None:
    host = Host(instance(1, percent=50), gpm=False)
    host.tick()
    assert (host.tick()["MIG-1"].samples, host.errors) == ((), [])
    host = Host(instance(1, percent=50))
    host.card.faults["nvmlGpmQueryDeviceSupport"] = FUNCTION_NOT_FOUND
    host.tick()
    assert (host.tick()["MIG-1"].samples, host.errors) == ((), [])


def test_less_than_a_tenth_of_a_second_reports_nothing_and_the_next_reading_covers_it() -> None:
    host = Host(instance(1, percent=50))
    host.tick()
    assert host.tick(99)["MIG-1"].samples == ()
    (sample,) = host.tick(1000)["MIG-1"].samples
    assert sample.end_ms - sample.start_ms == 1099


def test_a_failure_is_unknown_with_an_error_and_the_counters_start_anew() -> None:
    inside = instance(1, percent=50)
    host = Host(inside)
    host.tick()
    inside.faults["nvmlGpmMigSampleGet"] = NO_PERMISSION
    assert host.tick()["MIG-1"].samples == ()
    assert host.errors == [ReadError(call="nvmlGpmMigSampleGet", code="NO_PERMISSION", uuid="MIG-1")]
    inside.faults.clear()
    assert host.tick()["MIG-1"].samples == ()
    assert len(host.tick()["MIG-1"].samples) == 1


def test_metrics_that_fail_are_unknown_with_an_error() -> None:
    host = Host(instance(1, percent=50))
    host.tick()
    host.driver.faults["nvmlGpmMetricsGet"] = NO_PERMISSION
    assert host.tick()["MIG-1"].samples == ()
    assert host.errors == [ReadError(call="nvmlGpmMetricsGet", code="NO_PERMISSION", uuid="MIG-1")]


@pytest.mark.parametrize("value", [math.nan, math.inf, -5.0, 1e6])
def test_what_is_no_percentage_is_not_believed(value: float) -> None:
    host = Host(instance(1, percent=value))
    host.tick()
    assert host.tick()["MIG-1"].samples == ()
    assert host.errors == [ReadError(call="nvmlGpmMetricsGet", code="not a percentage", uuid="MIG-1")]


def test_compute_instances_of_one_gpu_instance_are_idle_together_and_busy_ones_are_unknown() -> None:
    one, other = instance(3, uuid="MIG-x"), instance(3, uuid="MIG-y")
    host = Host(one, other)
    host.tick()
    cards = host.tick()
    assert [cards[uuid].samples[0].utilization for uuid in ("MIG-x", "MIG-y")] == [0.0, 0.0]
    one.gpm_percent = other.gpm_percent = 40
    cards = host.tick()
    assert [cards[uuid].samples for uuid in ("MIG-x", "MIG-y")] == [(), ()]
    assert host.errors == []


def test_a_new_instance_with_an_old_number_starts_anew() -> None:
    host = Host(instance(1, percent=50))
    host.tick()
    host.card.instances = [instance(1, uuid="MIG-new", percent=70)]
    assert host.tick()["MIG-new"].samples == ()
    assert host.tick()["MIG-new"].samples[0].utilization == 0.7


def test_samples_are_freed_with_their_instance_and_with_the_driver() -> None:
    host = Host(instance(1), instance(2))
    for _ in range(5):
        host.tick()
    assert len(host.driver.samples) == 4
    host.card.instances = [instance(1)]
    host.tick()
    assert len(host.driver.samples) == 2
    host.reader.close()
    assert host.driver.samples == []
    assert host.driver.open == 0
