"""Cards and drivers that go and come back: what a reading says meanwhile, and when the driver is opened anew."""

from __future__ import annotations

import pytest

from fakes.clock import FakeClock
from fakes.nvml import (
    DRIVER_NOT_LOADED,
    GIB,
    GPU_IS_LOST,
    INVALID_ARGUMENT,
    NO_PERMISSION,
    RESET_REQUIRED,
    UNINITIALIZED,
    Card,
    FakeDriver,
    Process,
)
from gua.core.ports import RawCard
from gua.core.tick import CardReading, ReadError
from gua.core.words import ProcessList
from gua.nvml.reader import NvmlReader


class Host:
    def __init__(self, *cards: Card) -> None:
        self.clock = FakeClock()
        self.driver = FakeDriver(*cards)
        self.reader = NvmlReader(self.clock, self.driver)
        self.errors: list[ReadError] = []

    def tick(self, seconds: float = 30) -> dict[str, CardReading]:
        return {raw.reading.uuid: raw.reading for raw in self.raw(seconds)}

    def raw(self, seconds: float = 30) -> list[RawCard]:
        self.clock.advance(int(seconds * 1000))
        cards, errors = self.reader.read()
        self.errors = list(errors)
        assert len({raw.reading.uuid for raw in cards}) == len(cards)
        return list(cards)


def failed(cards: dict[str, CardReading]) -> dict[str, bool | None]:
    return {uuid: card.failed for uuid, card in cards.items()}


def test_handles_live_as_long_as_the_driver_is_open() -> None:
    host = Host(Card("GPU-a"), Card("GPU-b"))
    for _ in range(5):
        host.tick()
    assert host.driver.opened == 1


def test_a_card_that_is_plugged_in_is_there_in_the_next_tick() -> None:
    host = Host(Card("GPU-a"))
    host.tick()
    host.driver.cards.append(Card("GPU-b", name="new"))
    cards = host.tick()
    assert failed(cards) == {"GPU-a": False, "GPU-b": False}
    assert (cards["GPU-b"].name, cards["GPU-b"].index) == ("new", 1)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_card_that_was_taken_out_in_order_is_gone_and_the_others_keep_their_names(index: int) -> None:
    host = Host(Card("GPU-a"), Card("GPU-b"), Card("GPU-c"))
    host.tick()
    out = host.driver.cards.pop(index)
    assert failed(host.tick()) == {uuid: False for uuid in ("GPU-a", "GPU-b", "GPU-c") if uuid != out.uuid}
    assert host.errors == []
    assert host.driver.opened == 1


def test_cards_that_changed_their_index_are_each_reported_once_with_their_own_samples() -> None:
    first, second = Card("GPU-a", gpu=10), Card("GPU-b", gpu=20)
    host = Host(first, second)
    host.tick()
    host.driver.cards.reverse()
    cards = host.tick()
    assert {uuid: card.utilization for uuid, card in cards.items()} == {"GPU-a": 0.1, "GPU-b": 0.2}
    assert [card.index for card in cards.values()] == [0, 1]


def test_the_last_card_taken_out_leaves_none_and_says_so() -> None:
    host = Host(Card("GPU-a"))
    host.tick()
    host.driver.cards.clear()
    assert host.tick() == {}
    assert host.errors == [ReadError(call="nvmlDeviceGetCount", code="no card")]
    host.driver.cards.append(Card("GPU-a"))
    assert failed(host.tick()) == {"GPU-a": False}


@pytest.mark.parametrize("code", [GPU_IS_LOST, RESET_REQUIRED])
def test_a_lost_card_stays_in_every_tick_until_it_is_back(code: int) -> None:
    lost = Card("GPU-a")
    host = Host(lost, Card("GPU-b"))
    host.tick()
    lost.faults = {"nvmlDeviceGetUUID": code, "nvmlDeviceGetHandleByIndex": code}
    for _ in range(10):
        assert failed(host.tick()) == {"GPU-a": True, "GPU-b": False}
        assert [error.uuid for error in host.errors] == ["GPU-a"]
    lost.faults = {}
    host.clock.advance(300_000)
    assert failed(host.tick()) == {"GPU-a": False, "GPU-b": False}


def test_a_lost_card_that_the_driver_no_longer_counts_stays_too() -> None:
    lost = Card("GPU-a")
    host = Host(lost, Card("GPU-b"))
    host.tick()
    lost.faults["nvmlDeviceGetMemoryInfo_v2"] = GPU_IS_LOST
    host.tick()
    host.driver.cards.remove(lost)
    for _ in range(3):
        cards = host.tick()
        assert failed(cards) == {"GPU-a": True, "GPU-b": False}
        assert cards["GPU-a"].name == "NVIDIA H100 80GB HBM3"
    lost.faults.clear()
    host.driver.cards.insert(0, lost)
    assert failed(host.tick()) == {"GPU-a": False, "GPU-b": False}


def test_a_lost_card_lets_the_driver_be_opened_anew_with_growing_waits() -> None:
    lost = Card("GPU-a")
    host = Host(lost)
    host.tick()
    lost.faults["nvmlDeviceGetUUID"] = GPU_IS_LOST
    host.tick()
    begun = host.clock.monotonic
    tries: list[int] = []
    for _ in range(20 * 60):
        host.clock.advance(1000)
        before = host.driver.opened
        host.reader.drain()
        if host.driver.opened != before:
            tries.append((host.clock.monotonic - begun) // 1000)
    assert tries == [1, 3, 7, 15, 31, 63, 127, 255, 511, 811, 1111]


def test_opening_anew_for_one_card_does_not_disturb_the_samples_of_another() -> None:
    lost, good = Card("GPU-a"), Card("GPU-b")
    host = Host(lost, good)
    now_us = host.clock.wall * 1000
    good.ring = [(now_us + step * 200_000, 50) for step in range(91)]
    host.tick(2)
    lost.faults["nvmlDeviceGetUUID"] = GPU_IS_LOST
    host.tick(2)
    host.clock.advance(4000)
    host.reader.drain()
    assert host.driver.opened == 2
    (_, raw) = host.raw(2)
    assert raw.samples[0].start_ms == now_us // 1000 + 4000
    assert sum(one.end_ms - one.start_ms for one in raw.samples) == 6000


def test_drains_go_on_where_the_driver_was_opened_anew_since_the_last_reading() -> None:
    lost, good = Card("GPU-a"), Card("GPU-b")
    host = Host(lost, good)
    now_us = host.clock.wall * 1000
    good.ring = [(now_us + step * 200_000, 50) for step in range(16)]
    host.tick(3)
    lost.faults["nvmlDeviceGetUUID"] = GPU_IS_LOST
    host.tick(0)
    for _ in range(12):  # the ring keeps 14 s
        host.clock.advance(5000)
        good.ring = [(host.clock.wall * 1000 - step * 200_000, 50) for step in range(70, -1, -1)]
        host.reader.drain()
    assert host.driver.opened > 2
    (_, raw) = host.raw(0)
    assert sum(one.end_ms - one.start_ms for one in raw.samples) == 60_000


@pytest.mark.parametrize("code", [UNINITIALIZED, DRIVER_NOT_LOADED, 18])
def test_a_driver_that_is_gone_leaves_every_card_unknown_and_not_failed(code: int) -> None:
    host = Host(Card("GPU-a", compute=[Process(7)]), Card("GPU-b"))
    host.tick()
    host.driver.faults = {"nvmlDeviceGetCount": code, "nvmlInit": DRIVER_NOT_LOADED}
    for _ in range(4):
        cards = host.tick()
        assert failed(cards) == {"GPU-a": None, "GPU-b": None}
        for card in cards.values():
            assert card.process_list is ProcessList.FAILED
            assert (card.utilization, card.memory_used_bytes, card.power_watts) == (None, None, None)
            assert card.name == "NVIDIA H100 80GB HBM3"
        assert ReadError(call="nvmlInit", code="DRIVER_NOT_LOADED") in host.errors
    host.driver.faults = {}
    host.clock.advance(300_000)
    assert failed(host.tick()) == {"GPU-a": False, "GPU-b": False}
    assert host.errors == []
    assert host.driver.open == 1


def test_instances_of_a_card_without_a_driver_are_unknown_and_keep_their_shares() -> None:
    inside = Card("MIG-1", name="MIG 3g", slices=3, total=20 * GIB, used=0, reserved=0)
    host = Host(Card("GPU-a", mig=True, instances=[inside]))
    host.tick()
    host.driver.faults = {"nvmlDeviceGetCount": DRIVER_NOT_LOADED, "nvmlInit": DRIVER_NOT_LOADED}
    parent, instance = host.raw()
    assert (parent.gpu_fraction, instance.gpu_fraction) == ((4, 7), (3, 7))
    assert (instance.reading.uuid, instance.reading.parent, instance.reading.name) == ("MIG-1", "GPU-a", "MIG 3g")
    assert (instance.reading.failed, instance.reading.process_list) == (None, ProcessList.FAILED)


def test_a_lost_card_takes_its_instances_along() -> None:
    inside = Card("MIG-1", slices=3, total=20 * GIB, used=0, reserved=0)
    parent = Card("GPU-a", mig=True, instances=[inside])
    host = Host(parent)
    host.tick()
    parent.faults["nvmlDeviceGetMigMode"] = GPU_IS_LOST
    assert [(raw.reading.failed, raw.gpu_fraction) for raw in host.raw()] == [(True, (4, 7)), (True, (3, 7))]


def test_a_driver_that_was_reloaded_between_two_ticks_costs_no_tick() -> None:
    host = Host(Card("GPU-a"))
    host.tick()
    # As after a reload: nothing is open, and old handles mean nothing.
    host.driver.open = 0
    card = host.driver.cards[0]
    card.faults["nvmlDeviceGetUUID"] = UNINITIALIZED

    def init() -> None:
        host.driver.open += 1
        host.driver.opened += 1
        card.faults.clear()

    host.driver.nvmlInit = init  # type: ignore[method-assign]
    host.driver.nvmlShutdown = lambda: None  # type: ignore[method-assign]
    assert failed(host.tick()) == {"GPU-a": False}
    assert host.errors == [ReadError(call="nvmlDeviceGetUUID", code="UNINITIALIZED", uuid="GPU-a")]


def test_a_handle_that_became_invalid_is_renewed_without_opening_the_driver() -> None:
    host = Host(Card("GPU-a"), Card("GPU-b"))
    host.tick()
    old = host.driver.opened
    host.driver.opened = 7
    assert failed(host.tick()) == {"GPU-a": False, "GPU-b": False}
    assert (host.errors, host.driver.opened, old) == ([], 7, 1)


def test_a_card_without_permission_is_unknown_and_not_gone() -> None:
    card = Card("GPU-a")
    host = Host(card, Card("GPU-b"))
    host.tick()
    card.faults = {"nvmlDeviceGetUUID": INVALID_ARGUMENT, "nvmlDeviceGetHandleByIndex": NO_PERMISSION}
    assert failed(host.tick()) == {"GPU-a": None, "GPU-b": False}
    assert host.errors == [ReadError(call="nvmlDeviceGetHandleByIndex", code="NO_PERMISSION", uuid="GPU-a")]


def test_a_name_that_failed_once_is_read_again() -> None:
    card = Card("GPU-a", faults={"nvmlDeviceGetName": NO_PERMISSION})
    host = Host(card)
    assert host.tick()["GPU-a"].name is None
    card.faults.clear()
    assert host.tick()["GPU-a"].name == "NVIDIA H100 80GB HBM3"


def test_a_name_that_is_not_text_is_unknown_and_an_error() -> None:
    host = Host(Card("GPU-a"))

    def name(handle: object, /) -> str:
        return b"\xff".decode() + str(handle)

    name.__name__ = "nvmlDeviceGetName"
    host.driver.nvmlDeviceGetName = name  # type: ignore[method-assign]
    assert host.tick()["GPU-a"].name is None
    assert host.errors == [ReadError(call="nvmlDeviceGetName", code="text that is not UTF-8", uuid="GPU-a")]
