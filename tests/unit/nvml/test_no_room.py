"""A host whose users have used up its processes: what needs a thread waits for a better moment, the rest goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from fakes.clock import FakeClock
from fakes.nvml import Card, FakeDriver
from gua.core.errors import UnavailableError
from gua.core.tick import ReadError
from gua.identity.owner import Owners
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


def test_a_name_that_nobody_can_look_up_now_is_unknown_and_looked_up_later(crowded: Crowding) -> None:
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


def test_a_card_without_a_thread_is_read_once_there_is_one_and_the_others_go_on(crowded: Crowding) -> None:
    driver = FakeDriver(Card("GPU-a"))
    reader = NvmlReader(FakeClock(), driver)
    reader.read()
    driver.cards.append(Card("GPU-b"))
    crowded(True)  # noqa: FBT003 - a switch
    for _ in range(2):
        cards, errors = reader.read()
        assert [(card.reading.uuid, card.reading.failed) for card in cards] == [("GPU-a", False)]
        assert errors == [ReadError(call="pthread_create", code="EAGAIN")]
    crowded(False)  # noqa: FBT003 - a switch
    cards, errors = reader.read()
    assert [(card.reading.uuid, card.reading.failed) for card in cards] == [("GPU-a", False), ("GPU-b", False)]
    assert errors == []
    reader.close()


def test_a_card_whose_optional_call_hangs_is_read_without_it_where_there_is_no_room_for_another_thread(
    crowded: Crowding,
) -> None:
    hang = threading.Event()
    bad = Card("GPU-a", hangs={"nvmlDeviceGetRemappedRows": hang})
    reader = NvmlReader(FakeClock(), FakeDriver(bad, Card("GPU-b")), call_limit_seconds=0.3)
    crowded(True)  # noqa: FBT003 - a switch
    with pytest.raises(UnavailableError):
        reader.read()
    crowded(False)  # noqa: FBT003 - a switch
    assert [card.reading.failed for card in reader.read()[0]] == [False, False]
    crowded(True)  # noqa: FBT003 - a switch
    cards, errors = reader.read()
    assert [card.reading.failed for card in cards] == [None, False]
    assert ReadError(call="pthread_create", code="EAGAIN", uuid="GPU-a") in errors
    crowded(False)  # noqa: FBT003 - a switch
    assert [card.reading.failed for card in reader.read()[0]] == [False, False]
    hang.set()
    reader.close()
