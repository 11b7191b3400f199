"""How long requests wait, beside what each of them waited by itself."""

from __future__ import annotations

from random import Random

from gua.core.allocation import QueueWaits
from gua.reservations.ledger import WaitMeter


def test_the_metered_waits_add_up_to_each_requests_wait_at_any_times_of_reading() -> None:
    for seed in range(50):
        rng = Random(seed)  # noqa: S311 - a simulation, no secret
        clock = [0]
        meter = WaitMeter(lambda clock=clock: clock[0])
        waiting: list[int] = []
        wait_ms, by_ms, taken = 0, set[int](), []
        for _ in range(60):
            step = rng.choice((0, 1, 7, 1000))
            wait_ms += step * len(waiting)
            by_ms |= set(range(clock[0], clock[0] + step)) if waiting else set()
            clock[0] += step
            if waiting and rng.random() < 0.4:
                waiting.pop(rng.randrange(len(waiting)))
            elif rng.random() < 0.5:
                waiting.append(clock[0])
            meter.note(len(waiting))
            if rng.random() < 0.2:
                taken.append(meter.take())
                assert taken[-1].waiting == len(waiting)
        taken.append(meter.take())
        assert sum(one.wait_ms for one in taken) == wait_ms
        assert sum(one.waited_ms for one in taken) == len(by_ms)


def test_a_clock_that_goes_back_takes_no_waiting_away() -> None:
    clock = [1000]
    meter = WaitMeter(lambda: clock[0])
    meter.note(1)
    clock[0] = 400
    assert meter.take() == QueueWaits(waiting=1, wait_ms=0, waited_ms=0)
    clock[0] = 500
    assert meter.take() == QueueWaits(waiting=1, wait_ms=100, waited_ms=100)
