"""Why a card is slow: what the driver reports of clocks, errors and rows; whatever it answers, the rest stays."""

from __future__ import annotations

from typing import Any

import pytest

from fakes.clock import FakeClock
from fakes.nvml import NO_PERMISSION, NOT_SUPPORTED, Card, FakeDriver
from gua.core.tick import CardReading
from gua.nvml.driver import RECOVERY_ACTION, load
from gua.nvml.health import MOST_EVENTS, READ_EVERY_MS, RETRY_MS, HealthValues
from gua.nvml.reader import NvmlReader

CALLS = (
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceRegisterEvents",
    "nvmlEventSetWait_v2",
)
UNKNOWN = dict.fromkeys(HealthValues.__annotations__)
NOTHING = {**UNKNOWN, "clock_reasons": 0, "xid_errors": 0, "row_remap": 0, "recovery_action": 0}
UNKNOWN_ERROR = 999


class World:
    """A card, its driver, and an agent's reader that reads it now and then."""

    def __init__(self, **card: Any) -> None:  # noqa: ANN401 - any field of a card
        self.clock = FakeClock()
        self.card = Card("GPU-a", **card)
        self.driver = FakeDriver(self.card)
        self.reader = NvmlReader(self.clock, self.driver)
        self.errors: list[str] = []

    def read(self, after_ms: int = 0) -> CardReading:
        self.clock.advance(after_ms)
        (raw,), errors = self.reader.read()
        self.errors = [f"{error.call} {error.code}" for error in errors]
        return raw.reading

    def tell(self, after_ms: int = 0) -> dict[str, int | None]:
        reading = self.read(after_ms)
        return {name: getattr(reading, name) for name in UNKNOWN}


def test_clocks_are_read_at_each_reading_and_errors_once_a_minute() -> None:
    world = World()
    assert world.tell() == NOTHING
    world.card.reasons, world.card.ecc, world.card.rows = 0x44, 3, (1, 2, 1, 0)
    world.card.xids += [31, 79]
    assert world.tell(30_000) == {**NOTHING, "clock_reasons": 0x44}
    first = {**NOTHING, "clock_reasons": 0x44, "xid_errors": 2, "xid": 79, "ecc_errors": 3, "row_remap": 1}
    assert world.tell(30_000) == first
    assert world.tell(30_000) == {**first, "xid_errors": 0, "xid": None, "ecc_errors": 0}
    world.card.rows = (1, 2, 1, 1)
    assert world.tell(30_000)["row_remap"] == 3
    assert world.errors == []


@pytest.mark.parametrize("code", [NOT_SUPPORTED, 13, NO_PERMISSION, UNKNOWN_ERROR])
def test_a_driver_that_refuses_all_of_it_is_read_as_before(code: int) -> None:
    plain, world = World(), World(faults=dict.fromkeys(CALLS, code))
    whole = plain.read()
    reading = world.read()
    assert {name: getattr(reading, name) for name in UNKNOWN} == UNKNOWN
    others = set(CardReading.__dataclass_fields__) - set(UNKNOWN)
    assert {name: getattr(reading, name) for name in others} == {name: getattr(whole, name) for name in others}
    assert bool(world.errors) == (code in {NO_PERMISSION, UNKNOWN_ERROR})
    assert world.driver.event_sets == 0
    assert world.tell(30_000) == UNKNOWN
    assert world.errors == []  # read again after a minute only
    world.card.faults.clear()
    is_refused = code in {NO_PERMISSION, UNKNOWN_ERROR}
    assert world.tell(30_000) == {**NOTHING, "recovery_action": 0 if is_refused else None}
    assert world.tell(RETRY_MS)["recovery_action"] == 0


@pytest.mark.parametrize(
    ("card", "name"),
    [
        ({"reasons": 2**64 - 1}, "clock_reasons"),
        ({"reasons": 0x10000}, "clock_reasons"),
        ({"rows": (0, 0, 7, 0)}, "row_remap"),
        ({"ecc": 2**64 - 1}, "ecc_errors"),
    ],
)
def test_garbage_is_unknown_with_an_error(card: dict[str, Any], name: str) -> None:
    world = World(**card)
    assert world.tell()[name] is None
    assert len(world.errors) == 1
    assert world.tell(READ_EVERY_MS)[name] is None


def test_a_counter_that_goes_back_is_unknown_once() -> None:
    world = World(ecc=9)
    assert world.tell()["ecc_errors"] is None
    world.card.ecc = 2
    assert world.tell(READ_EVERY_MS)["ecc_errors"] is None
    world.card.ecc = 5
    assert world.tell(READ_EVERY_MS)["ecc_errors"] == 3


def test_of_a_storm_of_a_million_events_a_bounded_number_is_taken_and_the_rest_is_gone() -> None:
    world = World()
    world.tell()
    world.card.xids += [13] * 1_000_000
    world.driver.asked.clear()
    assert world.tell(READ_EVERY_MS) == {**NOTHING, "xid_errors": MOST_EVENTS, "xid": 13, "ecc_errors": 0}
    assert len(world.driver.asked) < MOST_EVENTS + 10
    assert world.tell(READ_EVERY_MS)["xid_errors"] == 0
    assert world.driver.event_sets == 1


def test_an_event_with_a_number_that_cannot_be_counts_without_one() -> None:
    world = World()
    world.tell()
    world.card.xids += [2**40, 0]
    values = world.tell(READ_EVERY_MS)
    assert (values["xid_errors"], values["xid"]) == (2, None)


def test_a_lost_card_reports_the_preceding_event_once() -> None:
    world = World()
    world.tell()
    world.card.xids.append(79)
    world.card.faults |= dict.fromkeys(("nvmlDeviceGetUUID", "nvmlDeviceGetMemoryInfo_v2", CALLS[0]), 15)
    reading = world.read(30_000)
    assert (reading.failed, reading.xid_errors, reading.xid) == (True, 1, 79)
    reading = world.read(30_000)
    assert (reading.failed, reading.xid_errors, reading.xid) == (True, None, None)


def test_an_event_set_that_fails_is_made_anew_a_minute_later() -> None:
    world = World()
    world.tell()
    world.card.faults["nvmlEventSetWait_v2"] = UNKNOWN_ERROR
    assert world.tell(READ_EVERY_MS)["xid_errors"] is None
    assert world.driver.event_sets == 0
    del world.card.faults["nvmlEventSetWait_v2"]
    assert world.tell(READ_EVERY_MS)["xid_errors"] == 0
    world.card.xids.append(43)
    assert world.tell(READ_EVERY_MS)["xid"] == 43


@pytest.mark.parametrize("action", [0, 1, 2, 3, 4, 5, 99, 2**32 - 1])
def test_any_recovery_action_is_read_once_a_minute_as_the_driver_numbers_it(action: int) -> None:
    world = World()
    assert world.tell()["recovery_action"] == 0
    world.card.recovery = (action, 0, 1)
    assert world.tell(READ_EVERY_MS - 1)["recovery_action"] == 0
    assert world.tell(1)["recovery_action"] == action
    assert world.errors == []


@pytest.mark.parametrize("answer", [(1, NOT_SUPPORTED, 1), (1, 2, 1), (1, 13, 1), (0, 0, 0)])
def test_a_driver_without_recovery_actions_is_asked_once_an_hour_and_none_is_never_assumed(
    answer: tuple[int, int, int],
) -> None:
    world = World(recovery=answer)
    for after_ms in (0, READ_EVERY_MS, RETRY_MS - 2 * READ_EVERY_MS):
        assert world.tell(after_ms)["recovery_action"] is None
        assert world.errors == []
    assert [call for call, _ in world.driver.asked].count("nvmlDeviceGetFieldValues") == 1
    world.card.recovery = (2, 0, 1)
    assert world.tell(READ_EVERY_MS)["recovery_action"] == 2


def test_a_recovery_action_that_cannot_be_read_is_unknown_with_an_error_until_it_can() -> None:
    world = World(recovery=(4, 0, 1))
    assert world.tell()["recovery_action"] == 4
    world.card.recovery = (4, UNKNOWN_ERROR, 1)
    assert world.tell(READ_EVERY_MS)["recovery_action"] is None
    assert world.errors == ["nvmlDeviceGetFieldValues UNKNOWN"]
    world.card.recovery = (4, 0, 1)
    assert world.tell(READ_EVERY_MS)["recovery_action"] == 4


def test_a_lost_card_reports_its_last_recovery_action_once() -> None:
    world = World(recovery=(1, 0, 1))
    world.tell()
    world.card.faults |= dict.fromkeys(("nvmlDeviceGetUUID", "nvmlDeviceGetMemoryInfo_v2", CALLS[0]), 15)
    assert [world.tell(30_000)["recovery_action"] for _ in range(2)] == [1, None]


def test_the_recovery_action_of_a_partitioned_card_is_that_of_its_gpu() -> None:
    world = World(recovery=(1, 0, 1), mig=True, instances=[Card("MIG-1", slices=3, recovery=(2, 0, 1))])
    readings, _ = world.reader.read()
    assert [raw.reading.recovery_action for raw in readings] == [1, None]


def test_the_number_of_the_field_is_that_of_nvidia_ml_py() -> None:
    assert load().NVML_FI_DEV_GET_GPU_RECOVERY_ACTION == RECOVERY_ACTION
