"""Activity of cards and MIG instances, by performance counters: means between two readings, else unknown."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from fakes.clock import FakeClock
from fakes.nvml import DRIVER_NOT_LOADED, FUNCTION_NOT_FOUND, GIB, GPU_IS_LOST, NO_PERMISSION, Card, FakeDriver
from gua.core.ports import Activity, RawCard
from gua.core.tick import ReadError
from gua.nvml.reader import NvmlReader

BUSY = (62.5, 31.0, 44.0, 18.25)
REPORTED = Activity(0.625, 0.31, 0.44, 0.1825)
UNKNOWN = Activity()


def card(uuid: str = "GPU-a", **told: object) -> Card:
    values: dict[str, Any] = {"gpm_supported": True, "activity": BUSY} | told
    return Card(uuid, **values)


class Host:
    def __init__(self, *cards: Card, with_activity: bool = True) -> None:
        self.clock = FakeClock()
        self.driver = FakeDriver(*cards)
        self.reader = NvmlReader(
            self.clock, self.driver, call_limit_seconds=0.5, start_limit_seconds=0.5, with_activity=with_activity
        )
        self.errors: list[ReadError] = []

    def tick(self, milliseconds: int = 30_000) -> dict[str, RawCard]:
        self.clock.advance(milliseconds)
        cards, errors = self.reader.read()
        self.errors = list(errors)
        return {raw.reading.uuid: raw for raw in cards}

    def told(self, milliseconds: int = 30_000, uuid: str = "GPU-a") -> tuple[int, Activity]:
        raw = self.tick(milliseconds)[uuid]
        return raw.activity_ms, activity_of(raw)


def activity_of(raw: RawCard) -> Activity:
    return raw.activity or UNKNOWN


class Hang(threading.Event):
    """Keeps who waits for it; ``calls`` counts them."""

    calls = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.calls += 1
        return super().wait(timeout)


@pytest.fixture
def hang() -> Iterator[Hang]:
    event = Hang()
    yield event
    event.set()


def test_a_card_reports_means_between_two_readings_and_nothing_at_the_first() -> None:
    host = Host(card(), card("GPU-b", activity=(0, 0, 0, 100.0004)))
    assert host.told() == (0, UNKNOWN)
    cards = host.tick(31_000)
    assert [(raw.activity_ms, activity_of(raw)) for raw in cards.values()] == [
        (31_000, REPORTED),
        (31_000, Activity(0.0, 0.0, 0.0, 1.0)),
    ]
    assert host.errors == []


def test_without_activity_no_call_is_made_and_no_sample_taken() -> None:
    host = Host(card(faults={"nvmlGpmSampleGet": NO_PERMISSION}), with_activity=False)
    host.tick()
    assert (host.told(), host.errors, host.driver.samples) == ((0, UNKNOWN), [], [])


def test_a_card_without_counters_reports_no_activity_and_no_error() -> None:
    host = Host(card(gpm_supported=False), card("GPU-b", faults={"nvmlGpmQueryDeviceSupport": FUNCTION_NOT_FOUND}))
    host.tick()
    cards = host.tick()
    assert [activity_of(raw) for raw in cards.values()] == [UNKNOWN, UNKNOWN]
    assert host.errors == []


@pytest.mark.parametrize("garbage", [math.nan, math.inf, -1.0, 100.01, 1e9])
def test_a_value_that_is_no_percentage_is_unknown_and_the_others_are_reported(garbage: float) -> None:
    host = Host(card(activity=(62.5, garbage, 44.0, 18.25)))
    host.tick()
    assert host.told()[1] == REPORTED._replace(sm_occupancy=None)
    assert host.errors == [ReadError(call="nvmlGpmMetricsGet", code="not a percentage", uuid="GPU-a")]


def test_an_unsupported_metric_is_absent_and_a_failing_one_is_an_error() -> None:
    host = Host(card(activity_codes=(0, 3, 999, 0)))
    host.tick()
    assert host.told()[1] == REPORTED._replace(sm_occupancy=None, tensor_utilization=None)
    assert host.errors == [ReadError(call="nvmlGpmMetricsGet", code="UNKNOWN", uuid="GPU-a")]


@pytest.mark.parametrize("call", ["nvmlGpmSampleGet", "nvmlGpmMetricsGet"])
def test_a_call_that_fails_costs_the_activity_alone_until_it_works_again(call: str) -> None:
    bad = card()
    host = Host(bad, card("GPU-b"))
    host.tick()
    bad.faults[call] = 999
    cards = host.tick()
    assert [activity_of(raw) for raw in cards.values()] == [UNKNOWN, REPORTED]
    assert cards["GPU-a"].reading.power_watts == 71.8
    assert host.errors == [ReadError(call=call, code="UNKNOWN", uuid="GPU-a")]
    bad.faults.clear()
    host.tick()
    assert (host.told(), host.errors) == ((30_000, REPORTED), [])


def test_a_refusing_driver_is_called_once_and_the_error_is_in_each_reading() -> None:
    bad = card(faults={"nvmlGpmSampleGet": NO_PERMISSION})
    host = Host(bad)
    refused = [ReadError(call="nvmlGpmSampleGet", code="NO_PERMISSION", uuid="GPU-a")]
    for _ in range(3):
        assert (host.told(), host.errors) == ((0, UNKNOWN), refused)
        bad.faults.clear()  # goes unnoticed: it is not called again


def test_a_call_that_hangs_holds_up_one_reading_and_costs_the_activity_alone(hang: Hang) -> None:
    bad = card()
    host = Host(bad, card("GPU-b"))
    host.tick()
    bad.hangs["nvmlGpmSampleGet"] = hang
    no_answer = [ReadError(call="nvmlGpmSampleGet", code="NO_ANSWER", uuid="GPU-a")]
    seconds = []
    for _ in range(4):
        begun = time.monotonic()
        cards = host.tick()
        seconds.append(time.monotonic() - begun)
        assert [activity_of(raw) for raw in cards.values()] == [UNKNOWN, REPORTED]
        assert [raw.reading.failed for raw in cards.values()] == [False, False]
        assert host.errors == no_answer
    assert hang.calls == 1
    assert min(seconds[1:]) < seconds[0]  # which waited for half of the call's limit
    bad.hangs.clear()
    hang.set()  # it comes back after all
    until = time.monotonic() + 60
    # On a loaded machine a later call may be late, too.
    while (activity := host.told()) != (30_000, REPORTED) and time.monotonic() < until:
        assert activity == (0, UNKNOWN)
    assert (activity, host.errors) == ((30_000, REPORTED), [])


def test_a_call_that_is_late_three_times_is_not_made_again_until_the_driver_is_opened_anew() -> None:
    bad = card()
    host = Host(bad)
    no_answer = [ReadError(call="nvmlGpmSampleGet", code="NO_ANSWER", uuid="GPU-a")]
    for late in (1, 2, 3):
        hang = bad.hangs["nvmlGpmSampleGet"] = Hang()
        assert (host.told(), host.errors) == ((0, UNKNOWN), no_answer)
        bad.hangs.clear()
        hang.set()
        for slept in range(6_000 if late < 3 else 20):  # until the thread has left the call
            time.sleep(0.01 * bool(slept))
            assert host.told() == (0, UNKNOWN)
            if not host.errors:
                break
        assert host.errors == (no_answer if late == 3 else [])
    host.driver.faults["nvmlDeviceGetCount"] = DRIVER_NOT_LOADED
    host.tick(600_000)
    host.driver.faults.clear()
    host.tick(600_000)
    assert (host.told(), host.errors) == ((30_000, REPORTED), [])


def test_a_card_that_hangs_does_not_cost_the_others_their_activity(hang: threading.Event) -> None:
    host = Host(card(), card("GPU-b"))
    host.tick()
    host.driver.cards[0].hangs["nvmlDeviceGetPowerUsage"] = hang
    host.tick()
    assert [error.call for error in host.errors] == ["nvmlDeviceGetPowerUsage"]
    assert host.told(uuid="GPU-b")[1] == REPORTED


def test_a_reloaded_driver_is_called_anew(hang: threading.Event) -> None:
    bad = card()
    host = Host(bad)
    host.tick()
    bad.hangs["nvmlGpmMetricsGet"] = hang
    host.tick()
    hang.set()
    bad.hangs.clear()
    for slept in range(50):  # until the thread has left the driver, which may not be released before
        time.sleep(0.01 * bool(slept))
        host.driver.faults["nvmlDeviceGetCount"] = DRIVER_NOT_LOADED
        host.tick(600_000)
        host.driver.faults.clear()
        if host.told(600_000)[1] == UNKNOWN and not host.errors:
            break
    assert (host.told(), host.errors) == ((30_000, REPORTED), [])


def test_a_card_that_was_lost_starts_anew() -> None:
    bad = card()
    host = Host(bad, card("GPU-b"))
    host.tick()
    bad.faults["nvmlDeviceGetUUID"] = GPU_IS_LOST
    assert host.told()[1] == UNKNOWN
    bad.faults.clear()
    host.tick(600_000)
    assert host.told() == (30_000, REPORTED)


def test_less_than_a_tenth_of_a_second_reports_nothing_and_the_next_reading_covers_it() -> None:
    host = Host(card())
    host.tick()
    assert host.told(99) == (0, UNKNOWN)
    assert host.told(1000) == (1099, REPORTED)


def instance(number: int, uuid: str | None = None, **told: object) -> Card:
    name = uuid or f"MIG-{number}"
    return card(name, total=10 * GIB, used=0, reserved=0, slices=1, gpu_instance=number, gpm_percent=50.0, **told)


def test_an_instance_reports_its_own_activity_and_its_parent_none() -> None:
    host = Host(card(mig=True, instances=[instance(1), instance(2, activity=(0, 0, 0, 0))]))
    host.tick()
    cards = host.tick()
    assert {uuid: activity_of(raw) for uuid, raw in cards.items()} == {
        "GPU-a": UNKNOWN,
        "MIG-1": REPORTED,
        "MIG-2": Activity(0.0, 0.0, 0.0, 0.0),
    }
    assert (cards["MIG-1"].activity_ms, cards["MIG-1"].samples[0].utilization) == (30_000, 0.5)


def test_instances_that_share_counters_know_only_that_nothing_is_nothing() -> None:
    shared = [instance(3, "MIG-x", activity=(5, 5, 0, 5)), instance(3, "MIG-y", activity=(5, 5, 0, 5))]
    host = Host(card(mig=True, instances=shared))
    host.tick()
    cards = host.tick()
    assert [activity_of(cards[uuid]) for uuid in ("MIG-x", "MIG-y")] == [UNKNOWN._replace(tensor_utilization=0)] * 2


def test_a_card_that_is_partitioned_and_whole_again_starts_anew_each_time() -> None:
    changing = card(instances=[instance(1)])
    host = Host(changing)
    host.tick()
    assert host.told()[1] == REPORTED
    changing.mig = True
    cards = host.tick()
    assert [activity_of(raw) for raw in cards.values()] == [UNKNOWN, UNKNOWN]
    assert activity_of(host.tick()["MIG-1"]) == REPORTED
    changing.mig = False
    assert host.told() == (0, UNKNOWN)
    assert host.told() == (30_000, REPORTED)


def test_samples_are_freed_with_the_driver() -> None:
    host = Host(card(), card("GPU-b"))
    for _ in range(3):
        host.tick()
    assert len(host.driver.samples) == 4
    host.reader.close()
    assert (host.driver.samples, host.driver.open) == ([], 0)
