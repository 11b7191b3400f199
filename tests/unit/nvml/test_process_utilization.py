"""How the driver's answers about process utilization become one mean over the interval."""

from __future__ import annotations

import pytest

from fakes.clock import FakeClock
from fakes.nvml import NO_PERMISSION, Card, FakeDriver, Process, Use
from gua.core.tick import ReadError
from gua.nvml import card, processes
from gua.nvml.quirks import DriverClock
from gua.nvml.reader import NvmlReader

NO_PERCENTAGE = ReadError(call="nvmlDeviceGetProcessUtilization", code="not a percentage", uuid="GPU-a")


class Bench:
    def __init__(self, *pids: int) -> None:
        self.clock = FakeClock()
        self.card = Card("GPU-a", compute=[Process(pid) for pid in pids])
        self.driver = FakeDriver(self.card)
        self.reader = NvmlReader(self.clock, self.driver)

    def window(self, seconds: int, **percent: int) -> None:
        """Let time pass in which the processes (named p1, p2 ...) use the card, and drain."""
        self.clock.advance(seconds * 1000)
        self.card.uses = [Use(int(name[1:]), self.clock.wall * 1000 - 1, value) for name, value in percent.items()]
        self.reader.drain()
        self.card.uses = []

    def read(self) -> dict[int, float | None]:
        (raw,), _ = self.reader.read()
        return {process.pid: process.utilization for process in raw.processes}


def test_windows_weigh_by_their_length_and_an_absent_process_was_idle() -> None:
    bench = Bench(1, 2)
    bench.read()
    bench.window(10, p1=60)
    bench.window(8, p1=100, p2=50)
    bench.window(7)
    assert bench.read() == {1: pytest.approx(14 / 25), 2: pytest.approx(4 / 25)}


def test_the_buffer_is_emptied_long_before_it_is_full_and_not_at_every_look() -> None:
    bench = Bench(1)
    bench.read()
    bench.driver.asked.clear()
    for _ in range(6):
        bench.window(5, p1=10)
    asked = [call for call, _ in bench.driver.asked if call == "nvmlDeviceGetProcessUtilization"]
    assert len(asked) == 3


def test_the_next_interval_starts_with_nothing() -> None:
    bench = Bench(1)
    bench.read()
    bench.window(5, p1=60)
    bench.read()
    bench.window(5)
    assert bench.read() == {1: 0.0}


def test_a_new_process_counts_from_its_first_use_on() -> None:
    bench = Bench(1)
    bench.read()
    bench.window(10, p1=50)
    bench.card.compute.append(Process(2))
    bench.window(10, p1=50, p2=80)
    assert bench.read() == {1: pytest.approx(0.5), 2: pytest.approx(0.8)}


def test_a_new_process_that_used_nothing_is_idle() -> None:
    bench = Bench()
    bench.read()
    bench.window(5)
    bench.card.compute.append(Process(2))
    assert bench.read() == {2: 0.0}


def test_without_any_answer_utilization_is_unknown_and_never_zero() -> None:
    bench = Bench(1)
    bench.read()
    bench.card.faults["nvmlDeviceGetProcessUtilization"] = NO_PERMISSION
    bench.window(5)
    (raw,), errors = bench.reader.read()
    assert raw.processes[0].utilization is None
    assert errors == [ReadError(call="nvmlDeviceGetProcessUtilization", code="NO_PERMISSION", uuid="GPU-a")]


def test_the_answer_after_a_failed_one_covers_both_windows() -> None:
    bench = Bench(1)
    bench.read()
    bench.window(8)
    bench.card.faults["nvmlDeviceGetProcessUtilization"] = NO_PERMISSION
    bench.window(8)
    bench.card.faults.clear()
    bench.window(8, p1=60)
    # The last answer reaches back 16 s, to the last one that was good.
    assert bench.read() == {1: pytest.approx(0.6 * 16 / 24, abs=0.001)}


def test_an_idle_card_is_queried_only_for_the_time_since_the_last_answer() -> None:
    bench = Bench(1)
    bench.card.uses = [Use(1, bench.clock.wall * 1000 - 5, 10)]
    bench.read()
    bench.card.uses = []
    bench.window(60)
    bench.driver.asked.clear()
    bench.window(10)
    asked = [since for call, since in bench.driver.asked if call == "nvmlDeviceGetProcessUtilization"]
    assert asked == [(bench.clock.wall - 11_000) * 1000]


def test_a_clock_that_was_set_back_does_not_make_everybody_idle() -> None:
    bench = Bench(1)
    bench.card.uses = [Use(1, bench.clock.wall * 1000 - 5, 10)]
    bench.read()
    bench.clock.wall -= 3_600_000
    bench.window(10, p1=70)
    assert bench.read() == {1: pytest.approx(0.7, abs=0.001)}


def test_stamps_from_boot_are_found_out_before_anybody_is_called_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(1)
    booted_us = bench.clock.wall * 1000 - 7_000_000_000
    monkeypatch.setattr(
        card, "DriverClock", lambda clock: DriverClock(clock, lambda: bench.clock.wall * 1000 - booted_us)
    )
    bench.card.uses = [Use(1, 7_000_000_000 - 5, 90)]
    assert bench.read() == {1: 0.9}


def test_a_value_that_is_no_percentage_is_an_error_and_unknown() -> None:
    bench = Bench(1)
    bench.card.uses = [Use(1, bench.clock.wall * 1000 - 5, 2_147_483_632)]
    (raw,), errors = bench.reader.read()
    assert raw.processes[0].utilization is None
    assert errors == [NO_PERCENTAGE]


@pytest.mark.parametrize("garbage", [2_619, 808_334_905, 2**32 - 1])
@pytest.mark.parametrize("engine", ["smUtil", "encUtil", "decUtil"])
def test_a_process_is_unknown_for_the_interval_in_which_one_of_its_rows_is_no_percentage(
    garbage: int, engine: str
) -> None:
    bench = Bench(1, 2, 3)
    bench.read()
    bench.window(10, p1=90, p2=50)
    bench.clock.advance(10_000)
    now_us = bench.clock.wall * 1000
    wrong = Use(1, now_us - 5, 0)
    setattr(wrong, engine, garbage)
    bench.card.uses = [Use(1, now_us - 9, 90), wrong, Use(2, now_us - 5, 50)]
    bench.reader.drain()
    bench.window(10, p1=90, p2=50)
    (raw,), errors = bench.reader.read()
    assert [one.utilization for one in raw.processes] == [None, pytest.approx(0.5), 0.0]
    assert errors == [NO_PERCENTAGE]
    bench.window(10, p1=90)
    assert bench.read() == {1: pytest.approx(0.9), 2: 0.0, 3: 0.0}


def test_a_row_with_only_its_memory_percentage_invalid_is_used() -> None:
    bench = Bench(1)
    bench.card.uses = [Use(1, bench.clock.wall * 1000 - 5, 30, memUtil=2_619)]
    assert bench.read() == {1: 0.3}


def test_a_process_with_only_samples_in_the_future_is_unknown_and_not_idle() -> None:
    bench = Bench(1, 2, 3)
    bench.read()
    bench.clock.advance(10_000)
    now_us = bench.clock.wall * 1000
    bench.card.uses = [
        Use(1, now_us + 2_000_000, 95),
        Use(2, now_us + 2_000_000, 60),
        Use(2, now_us - 500_000, 40),
        Use(0, now_us + 2_000_000, 0),
    ]
    (raw,), errors = bench.reader.read()
    assert [one.utilization for one in raw.processes] == [None, pytest.approx(0.4), 0.0]
    assert errors == [
        ReadError(call="nvmlDeviceGetProcessUtilization", code="stamped later than now", uuid="GPU-a"),
    ]
    # They are queried again, and count once their time has come.
    bench.clock.advance(10_000)
    assert bench.read() == {1: pytest.approx(0.95), 2: pytest.approx(0.6), 3: 0.0}


def test_stamps_that_lie_a_few_ms_ahead_are_of_now_and_counted_once() -> None:
    bench = Bench(1)
    bench.read()
    for percent in (90, 10, 0):
        bench.clock.advance(5_000)
        bench.card.uses += [Use(1, bench.clock.wall * 1000 + 4_700, percent)] if percent else []
        (raw,), errors = bench.reader.read()
        assert (raw.processes[0].utilization, errors) == (pytest.approx(percent / 100), [])
        assert bench.read() == {1: 0.0}, "nothing since then, whatever the driver's clock"


def test_after_a_clock_was_set_back_processes_with_only_earlier_samples_are_unknown() -> None:
    bench = Bench(1, 2)
    bench.read()
    bench.clock.advance(10_000)
    before_us = bench.clock.wall * 1000 - 1_000_000
    bench.clock.wall -= 120_000
    bench.card.uses = [
        Use(1, before_us, 90),
        Use(2, before_us, 90),
        Use(2, bench.clock.wall * 1000 - 100_000, 30),
    ]
    assert bench.read() == {1: None, 2: pytest.approx(0.3)}


def test_a_process_is_as_busy_as_the_busiest_of_kernels_encoder_and_decoder_in_each_sample() -> None:
    bench = Bench(1, 2, 3, 4, 5)
    now_us = bench.clock.wall * 1000
    bench.card.uses = [
        Use(1, now_us - 5, 0, encUtil=85),
        Use(2, now_us - 5, 0, decUtil=60),
        Use(3, now_us - 9, 20, encUtil=80, decUtil=10),
        Use(3, now_us - 5, 40, encUtil=10, decUtil=20),
        Use(4, now_us - 5, 0, memUtil=70),
        Use(5, now_us - 5, 30, memUtil=70),
    ]
    assert bench.read() == {1: 0.85, 2: 0.6, 3: pytest.approx(0.6), 4: 0.0, 5: 0.3}


def test_processes_beyond_the_limit_are_unknown_and_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "MOST_PROCESSES", 2)
    bench = Bench(1, 2, 3)
    bench.read()
    bench.window(10, p1=10, p2=10, p3=10)
    assert bench.read() == {1: pytest.approx(0.1), 2: pytest.approx(0.1), 3: None}


def test_processes_with_samples_that_are_no_longer_listed_are_named_once() -> None:
    bench = Bench(1)
    bench.read()
    bench.window(10, p1=60, p3=40)
    (raw,), _ = bench.reader.read()
    assert raw.unlisted == {3}
    (raw,), _ = bench.reader.read()
    assert raw.unlisted == frozenset()
