"""A reader whose program is asked to stop in the middle of a reading."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from fakes.clock import FakeClock
from fakes.nvml import Card, FakeDriver
from gua.core.tick import ReadError
from gua.nvml.reader import NvmlReader


@pytest.fixture
def hang() -> Iterator[threading.Event]:
    """An event that no test leaves unset, so that no thread outlives it."""
    event = threading.Event()
    yield event
    event.set()


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
