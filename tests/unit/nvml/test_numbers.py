"""By which numbers others may name a card: the minor number of its device file, the ids of its instances."""

# ruff: noqa: N802 - NVML's names

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fakes.clock import FakeClock
from fakes.nvml import GPU_IS_LOST, NO_PERMISSION, NOT_SUPPORTED, Card, FakeDriver
from gua.core.ports import RawCard
from gua.nvml.reader import NvmlReader


class CountingDriver(FakeDriver):
    """Counts how often a number is read."""

    def __init__(self, *cards: Card) -> None:
        super().__init__(*cards)
        self.counted: list[str] = []

    def nvmlDeviceGetMinorNumber(self, handle: object, /) -> int:
        self.counted.append("minor")
        return super().nvmlDeviceGetMinorNumber(handle)

    def nvmlDeviceGetGpuInstanceId(self, device: object, /) -> int:
        self.counted.append("instance")
        return super().nvmlDeviceGetGpuInstanceId(device)

    def nvmlDeviceGetComputeInstanceId(self, device: object, /) -> int:
        self.counted.append("compute")
        return super().nvmlDeviceGetComputeInstanceId(device)


def test_a_minor_number_is_read_once_and_cached() -> None:
    driver = CountingDriver(Card("GPU-a", minor=3), Card("GPU-b", minor=0))
    reader = NvmlReader(FakeClock(), driver)
    for _ in range(3):
        cards, errors = reader.read()
        assert [card.minor for card in cards] == [3, 0]
        assert errors == []
    assert driver.counted == ["minor", "minor"]


def numbers(cards: Sequence[RawCard]) -> list[tuple[int | None, int | None, int | None]]:
    return [(card.minor, card.gpu_instance_id, card.compute_instance_id) for card in cards]


def test_instances_have_their_cards_minor_number_and_own_ids_that_are_read_once() -> None:
    small, large = Card("MIG-1", slices=1, gpu_instance=7, compute_instance=1), Card("MIG-3", slices=3, gpu_instance=2)
    driver = CountingDriver(Card("GPU-a", minor=5, mig=True, instances=[large, None, small]))
    reader = NvmlReader(FakeClock(), driver)
    for _ in range(3):
        cards, _ = reader.read()
        assert numbers(cards) == [(5, None, None), (5, 2, 0), (5, 7, 1)]
    assert sorted(driver.counted) == ["compute", "compute", "instance", "instance", "minor"]


def test_the_numbers_stay_known_while_a_card_cannot_be_read() -> None:
    card = Card("GPU-a", minor=5, mig=True, instances=[Card("MIG-1", slices=1, gpu_instance=7, compute_instance=1)])
    driver = FakeDriver(card)
    reader = NvmlReader(FakeClock(), driver)
    reader.read()
    card.faults["nvmlDeviceGetMemoryInfo_v2"] = GPU_IS_LOST
    cards, _ = reader.read()
    assert numbers(cards) == [(5, None, None), (5, 7, 1)]


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION])
def test_an_instance_id_that_the_driver_does_not_report_is_unknown(code: int) -> None:
    instance = Card("MIG-1", slices=1, gpu_instance=7, faults={"nvmlDeviceGetComputeInstanceId": code})
    cards, _ = NvmlReader(FakeClock(), FakeDriver(Card("GPU-a", minor=5, mig=True, instances=[instance]))).read()
    assert numbers(cards) == [(5, None, None), (5, 7, None)]


@pytest.mark.parametrize(("code", "errors"), [(NOT_SUPPORTED, []), (NO_PERMISSION, ["nvmlDeviceGetMinorNumber"])])
def test_a_minor_number_that_the_driver_does_not_report_is_unknown(code: int, errors: list[str]) -> None:
    [card], found = NvmlReader(FakeClock(), FakeDriver(Card("GPU-a", faults={"nvmlDeviceGetMinorNumber": code}))).read()
    assert card.minor is None
    assert [error.call for error in found] == errors
