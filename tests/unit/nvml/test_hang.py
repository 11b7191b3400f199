"""Calls that do not return: what they delay, for how long, what is reported meanwhile, and how a stop ends the wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from fakes.clock import FakeClock
from fakes.nvml import GIB, GPU_IS_LOST, Card, FakeDriver
from gua.core.errors import UnavailableError
from gua.core.tick import ReadError
from gua.core.words import ProcessList
from gua.nvml.reader import NvmlReader

LIMIT = 0.5


@pytest.fixture
def hang() -> Iterator[threading.Event]:
    """An event that no test leaves unset, so that no thread outlives it."""
    event = threading.Event()
    yield event
    event.set()


def reader(driver: FakeDriver, clock: FakeClock | None = None) -> NvmlReader:
    return NvmlReader(clock or FakeClock(), driver, call_limit_seconds=LIMIT, start_limit_seconds=LIMIT)


def settle(ready: threading.Event) -> None:
    ready.set()
    time.sleep(0.15)


def test_a_card_that_hangs_is_unknown_the_others_are_read_and_the_call_is_named(hang: threading.Event) -> None:
    bad = Card("GPU-a")
    cards = reader(FakeDriver(bad, Card("GPU-b"), Card("GPU-c")))
    cards.read()
    bad.hangs["nvmlDeviceGetPowerUsage"] = hang
    begun = time.monotonic()
    readings, errors = cards.read()
    assert time.monotonic() - begun < LIMIT * 4
    assert [(raw.reading.uuid, raw.reading.failed) for raw in readings] == [
        ("GPU-a", None),
        ("GPU-b", False),
        ("GPU-c", False),
    ]
    assert (readings[0].reading.process_list, readings[0].reading.power_watts) == (ProcessList.FAILED, None)
    assert readings[0].reading.name == "NVIDIA H100 80GB HBM3"
    assert errors == [ReadError(call="nvmlDeviceGetPowerUsage", code="NO_ANSWER", uuid="GPU-a")]


def test_a_hanging_call_is_not_waited_for_again_and_each_tick_counts_it_once(hang: threading.Event) -> None:
    bad = Card("GPU-a", hangs={"nvmlDeviceGetPowerUsage": hang})
    cards = reader(FakeDriver(bad, Card("GPU-b")))
    cards.read()
    took: list[float] = []
    for _ in range(5):
        begun = time.monotonic()
        cards.drain()
        readings, errors = cards.read()
        took.append(time.monotonic() - begun)
        assert [raw.reading.failed for raw in readings] == [None, False]
        assert errors == [ReadError(call="nvmlDeviceGetPowerUsage", code="NO_ANSWER", uuid="GPU-a")]
    assert min(took) < LIMIT  # a busy machine may hold up one, who waits again is held up each time


def test_when_it_comes_back_its_late_answer_is_thrown_away_and_the_card_is_read_anew(hang: threading.Event) -> None:
    bad = Card("GPU-a", power_mw=1000)
    cards = reader(FakeDriver(bad))
    cards.read()
    bad.hangs["nvmlDeviceGetTemperature"] = hang
    cards.read()
    bad.power_mw = 2000
    bad.hangs.clear()
    settle(hang)
    (back,), errors = cards.read()
    assert (back.reading.power_watts, back.reading.failed, errors) == (2.0, False, [])


SPARE = (
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetRemappedRows",
    "nvmlEventSetWait_v2",
    "nvmlDeviceGetFieldValues",
)


@pytest.mark.parametrize("call", SPARE)
@pytest.mark.parametrize("mig", [False, True])
def test_a_call_that_a_card_can_do_without_costs_its_own_answer_alone(
    hang: threading.Event, call: str, *, mig: bool
) -> None:
    bad = Card("GPU-a", hangs={call: hang}, mig=mig, instances=[Card("MIG-1", slices=3)] if mig else [])
    clock = FakeClock()
    cards = reader(FakeDriver(bad, Card("GPU-b")), clock)
    for after_ms in (0, 1000, 60_000):
        clock.advance(after_ms)
        begun = time.monotonic()
        readings, errors = cards.read()
        assert time.monotonic() - begun < (LIMIT if after_ms else LIMIT * 4)
        assert [raw.reading.failed for raw in readings] == [False] * len(readings)
        assert [raw.reading.process_list for raw in readings] == [ProcessList.KNOWN] * len(readings)
        assert readings[0].reading.power_watts == 71.8
        assert errors == [ReadError(call=call, code="NO_ANSWER", uuid="GPU-a")]
    first, last = readings[0].reading, readings[-1].reading
    health = (last.clock_reasons, last.xid_errors, last.ecc_errors, last.row_remap, last.recovery_action)
    assert health == (0, 0, 0, 0, 0)
    known = {SPARE[0]: first.clock_reasons, SPARE[1]: first.ecc_errors, SPARE[2]: first.row_remap}
    known |= {SPARE[3]: first.xid_errors, SPARE[4]: first.recovery_action}
    assert known.pop(call) is None
    assert None not in known.values()
    assert mig is False or readings[1].reading.clock_reasons is None


def test_a_call_that_returned_late_is_made_again_and_not_after_three_times() -> None:
    card = Card("GPU-a")
    cards = reader(FakeDriver(card))
    for late in (1, 2, 3):
        back = card.hangs["nvmlDeviceGetCurrentClocksEventReasons"] = threading.Event()
        readings, errors = cards.read()
        assert (readings[0].reading.clock_reasons, len(errors)) == (None, 1)
        card.hangs.clear()
        settle(back)
        readings, errors = cards.read()
        assert (readings[0].reading.clock_reasons, len(errors)) == ((0, 0) if late < 3 else (None, 1))
        assert readings[0].reading.failed is False


def test_a_card_that_is_lost_is_so_though_its_last_event_cannot_be_had(hang: threading.Event) -> None:
    card = Card("GPU-a")
    cards = reader(FakeDriver(card))
    cards.read()
    card.hangs["nvmlEventSetWait_v2"] = hang
    card.faults["nvmlDeviceGetUUID"] = GPU_IS_LOST
    readings, errors = cards.read()
    assert readings[0].reading.failed is True
    assert {error.code for error in errors} == {"GPU_IS_LOST", "NO_ANSWER"}


def test_the_driver_is_not_released_under_a_call_that_a_card_can_do_without(hang: threading.Event) -> None:
    driver = FakeDriver(Card("GPU-a", hangs={"nvmlDeviceGetRemappedRows": hang}))
    cards = reader(driver)
    cards.read()
    cards.read()
    cards.close()
    assert driver.open == 1


def test_instances_of_a_card_that_hangs_stay_with_their_shares(hang: threading.Event) -> None:
    inside = Card("MIG-1", slices=3, total=20 * GIB, used=0, reserved=0)
    parent = Card("GPU-a", mig=True, instances=[inside])
    cards = reader(FakeDriver(parent))
    cards.read()
    inside.hangs["nvmlDeviceGetMemoryInfo_v2"] = hang
    readings, errors = cards.read()
    assert [(raw.reading.uuid, raw.gpu_fraction, raw.reading.failed) for raw in readings] == [
        ("GPU-a", (4, 7), None),
        ("MIG-1", (3, 7), None),
    ]
    assert [error.code for error in errors] == ["NO_ANSWER"]


def test_a_card_that_hangs_from_the_first_look_on_is_there_by_its_uuid(hang: threading.Event) -> None:
    bad = Card("GPU-a", hangs={"nvmlDeviceGetName": hang})
    readings, errors = reader(FakeDriver(bad, Card("GPU-b"))).read()
    assert [(raw.reading.uuid, raw.reading.failed) for raw in readings] == [("GPU-a", None), ("GPU-b", False)]
    assert errors == [ReadError(call="nvmlDeviceGetName", code="NO_ANSWER", uuid="GPU-a")]


def test_a_drain_that_hangs_holds_up_the_others_only_once(hang: threading.Event) -> None:
    bad, good = Card("GPU-a"), Card("GPU-b")
    cards = reader(FakeDriver(bad, good))
    cards.read()
    bad.hangs["nvmlDeviceGetSamples"] = hang
    cards.drain()
    readings, errors = cards.read()
    assert [raw.reading.failed for raw in readings] == [None, False]
    assert errors == [ReadError(call="nvmlDeviceGetSamples", code="NO_ANSWER", uuid="GPU-a")]


def test_a_drain_that_is_only_slow_is_waited_for(hang: threading.Event) -> None:
    slow = Card("GPU-a")
    cards = reader(FakeDriver(slow))
    cards.read()
    slow.hangs["nvmlDeviceGetSamples"] = hang
    cards.drain()
    slow.hangs.clear()
    threading.Timer(LIMIT / 4, hang.set).start()
    (raw,), errors = cards.read()
    assert (raw.reading.failed, errors) == (False, [])


def test_a_count_that_hangs_lets_the_known_cards_be_read(hang: threading.Event) -> None:
    driver = FakeDriver(Card("GPU-a"), Card("GPU-b"))
    cards = reader(driver)
    cards.read()
    driver.hangs["nvmlDeviceGetCount"] = hang
    for _ in range(3):
        readings, errors = cards.read()
        assert [raw.reading.failed for raw in readings] == [False, False]
        assert errors == [ReadError(call="nvmlDeviceGetCount", code="NO_ANSWER")]
    driver.hangs.clear()
    settle(hang)
    assert cards.read()[1] == []


def test_a_driver_that_cannot_be_opened_in_time_is_refused_and_not_waited_for(hang: threading.Event) -> None:
    driver = FakeDriver(Card("GPU-a"))
    driver.hangs["nvmlInit"] = hang
    begun = time.monotonic()
    with pytest.raises(UnavailableError, match="NO_ANSWER"):
        reader(driver).read()
    assert time.monotonic() - begun < LIMIT + 5


def test_opening_anew_that_hangs_leaves_the_cards_unknown_until_it_is_through(hang: threading.Event) -> None:
    driver = FakeDriver(Card("GPU-a"))
    clock = FakeClock()
    cards = reader(driver, clock)
    cards.read()
    driver.faults["nvmlDeviceGetCount"] = 9
    driver.hangs["nvmlInit"] = hang
    for _ in range(3):
        (unknown,), errors = cards.read()
        assert unknown.reading.failed is None
        assert errors[-1] == ReadError(call="nvmlInit", code="NO_ANSWER")
    driver.faults.clear()
    settle(hang)
    (back,), errors = cards.read()
    assert (back.reading.failed, errors) == (False, [])


def test_the_driver_is_not_released_under_a_call_that_hangs(hang: threading.Event) -> None:
    bad, lost = Card("GPU-a"), Card("GPU-b")
    driver = FakeDriver(bad, lost)
    clock = FakeClock()
    cards = reader(driver, clock)
    cards.read()
    bad.hangs["nvmlDeviceGetPowerUsage"] = hang
    lost.faults["nvmlDeviceGetUUID"] = GPU_IS_LOST
    for _ in range(3):
        clock.advance(600_000)
        readings, _ = cards.read()
        assert [raw.reading.failed for raw in readings] == [None, True]
    assert driver.opened == 1
    bad.hangs.clear()
    lost.faults.clear()
    settle(hang)
    assert [raw.reading.failed for raw in cards.read()[0]] == [False, False]


def test_closing_does_not_wait_for_a_call_that_hangs(hang: threading.Event) -> None:
    driver = FakeDriver(Card("GPU-a"))
    cards = reader(driver)
    cards.read()
    driver.cards[0].hangs["nvmlDeviceGetSamples"] = hang
    cards.drain()
    begun = time.monotonic()
    cards.close()
    assert time.monotonic() - begun < 5
    assert driver.open == 1


def test_a_release_that_hangs_is_not_waited_for_either(hang: threading.Event) -> None:
    driver = FakeDriver(Card("GPU-a"))
    cards = reader(driver)
    cards.read()
    driver.hangs["nvmlShutdown"] = hang
    begun = time.monotonic()
    cards.close()
    assert time.monotonic() - begun < 5


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("nvml")}


def end(new: set[threading.Thread]) -> bool:
    for thread in new:
        thread.join(10)
    return not any(thread.is_alive() for thread in new)


def test_threads_end_with_the_reader() -> None:
    before = threads()
    cards = reader(FakeDriver(Card("GPU-a"), Card("GPU-b")))
    cards.read()
    new = threads() - before
    assert new
    cards.close()
    assert end(new)


def test_cards_that_answer_at_once_share_a_thread_and_slow_ones_get_more(hang: threading.Event) -> None:
    several = [Card(f"GPU-{letter}") for letter in "abcd"]
    cards = reader(FakeDriver(*several))
    before = threads()  # of other readers; they may end meanwhile
    cards.read()
    assert len(threads() - before) <= 2  # a second one where this machine was slow
    for card in several[:3]:
        card.hangs["nvmlDeviceGetPowerUsage"] = hang
    readings, _ = cards.read()
    assert [raw.reading.failed for raw in readings] == [None, None, None, False]
    assert len(threads() - before) >= 4
    for _ in range(5):
        cards.drain()
        cards.read()
    assert len(threads() - before) <= 5
    cards.close()


def test_threads_of_an_unclosed_reader_end_when_it_is_garbage_collected() -> None:
    before = threads()
    cards = reader(FakeDriver(Card("GPU-a")))
    cards.read()
    new = threads() - before
    assert new
    del cards
    assert end(new)


def test_a_driver_that_is_gone_is_not_opened_anew_under_a_call_that_hangs(hang: threading.Event) -> None:
    bad = Card("GPU-a", hangs={"nvmlDeviceGetPowerUsage": hang})
    driver = FakeDriver(bad, Card("GPU-b"))
    clock = FakeClock()
    cards = reader(driver, clock)
    cards.read()
    driver.faults["nvmlDeviceGetCount"] = 9
    for _ in range(3):
        clock.advance(600_000)
        readings, errors = cards.read()
        assert [raw.reading.failed for raw in readings] == [None, None]
        assert ReadError(call="nvmlDeviceGetCount", code="DRIVER_NOT_LOADED") in errors
    assert (driver.opened, driver.open) == (1, 1)
    bad.hangs.clear()
    driver.faults.clear()
    settle(hang)
    clock.advance(600_000)
    assert [raw.reading.failed for raw in cards.read()[0]] == [False, False]


def test_a_stop_ends_the_wait_for_a_hung_card_within_a_second_or_so(hang: threading.Event) -> None:
    bad = Card("GPU-a", hangs={"nvmlDeviceGetPowerUsage": hang})
    cards = NvmlReader(FakeClock(), FakeDriver(bad, Card("GPU-b")), stopping=lambda: True)
    begun = time.monotonic()
    readings, errors = cards.read()
    assert 1 <= time.monotonic() - begun < 4.5  # without the stop it would be 5
    assert [raw.reading.failed for raw in readings] == [None, False]
    assert errors == [ReadError(call="nvmlDeviceGetPowerUsage", code="NO_ANSWER", uuid="GPU-a")]


def test_a_stop_leaves_slow_calls_the_time_to_answer() -> None:
    slow = threading.Event()
    timer = threading.Timer(0.2, slow.set)
    timer.start()
    bad = Card("GPU-a", hangs={"nvmlDeviceGetPowerUsage": slow})
    cards = NvmlReader(FakeClock(), FakeDriver(bad), stopping=lambda: True)
    readings, errors = cards.read()
    timer.join()
    assert [raw.reading.failed for raw in readings] == [False]
    assert errors == []
