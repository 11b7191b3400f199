"""A host whose users have used up its processes: what needs a thread is delayed, the rest goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from fakes.clock import FakeClock
from fakes.nvml import Card, FakeDriver
from gua.core.errors import UnavailableError
from gua.core.tick import ReadError
from gua.identity.process import Owners
from gua.nvml.reader import NvmlReader

Crowding = Callable[[bool], None]


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch) -> Crowding:
    """A switch: while it is on no thread can be started, as where pids.max or threads-max is reached."""
    start = threading.Thread.start

    def switch(on: bool) -> None:  # noqa: FBT001 - a switch
        def refuse(_thread: threading.Thread) -> None:
            msg = "can't start new thread"
            raise RuntimeError(msg)

        monkeypatch.setattr(threading.Thread, "start", refuse if on else start)

    return switch


def test_a_name_that_cannot_be_looked_up_now_is_unknown_and_looked_up_later(crowded: Crowding) -> None:
    names = Owners({1000: "alice"}.get, patience_seconds=5)
    crowded(True)  # noqa: FBT003 - a switch
    assert [names.name(1000), names.name(1000)] == [None, None]
    crowded(False)  # noqa: FBT003 - a switch
    assert names.name(1000) == "alice"


def test_without_a_thread_no_card_is_read_and_later_all_of_them(crowded: Crowding) -> None:
    reader = NvmlReader(FakeClock(), FakeDriver(Card("GPU-a"), Card("GPU-b")))
    crowded(True)  # noqa: FBT003 - a switch
    with pytest.raises(UnavailableError, match="cannot read the GPUs"):
        reader.read()
    reader.drain()
    crowded(False)  # noqa: FBT003 - a switch
    cards, errors = reader.read()
    assert [card.reading.uuid for card in cards] == ["GPU-a", "GPU-b"]
    assert errors == []
    reader.close()


def test_cards_that_answer_are_read_by_the_thread_that_is_there(crowded: Crowding) -> None:
    driver = FakeDriver(Card("GPU-a"))
    reader = NvmlReader(FakeClock(), driver)
    reader.read()
    driver.cards.append(Card("GPU-b"))
    crowded(True)  # noqa: FBT003 - a switch
    cards, errors = reader.read()
    assert [(card.reading.uuid, card.reading.failed) for card in cards] == [("GPU-a", False), ("GPU-b", False)]
    assert errors == []
    reader.close()


def test_a_card_without_a_free_thread_is_unknown_until_one_is_available(crowded: Crowding) -> None:
    hang = threading.Event()
    bad = Card("GPU-a")
    driver = FakeDriver(bad, Card("GPU-b"))
    reader = NvmlReader(FakeClock(), driver, call_limit_seconds=0.3)
    reader.read()
    bad.hangs["nvmlDeviceGetPowerUsage"] = hang
    crowded(True)  # noqa: FBT003 - a switch
    for _ in range(2):
        cards, errors = reader.read()
        assert [card.reading.failed for card in cards] == [None, None]
        assert set(errors) >= {ReadError(call="nvmlDeviceGetPowerUsage", code="NO_ANSWER", uuid="GPU-a")}
        assert {error.call for error in errors} <= {"nvmlDeviceGetPowerUsage", "pthread_create"}
    crowded(False)  # noqa: FBT003 - a switch
    assert [card.reading.failed for card in reader.read()[0]] == [None, False]
    hang.set()
    reader.close()
