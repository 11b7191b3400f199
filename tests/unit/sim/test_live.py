from itertools import islice, pairwise

import pytest

from gua.core.errors import UsageError
from gua.core.tick import Tick
from gua.sim.calendar import MINUTE_MS, THU, TUE
from gua.sim.host import demo_origin, simulate_from

MONDAY_MS = 1_774_224_000_000  # 2026-03-23 00:00 UTC


def ticks(begin_ms: int, count: int, *, interval_ms: int = MINUTE_MS, gpus: int = 2) -> list[Tick]:
    origin = demo_origin(interval_ms)
    return list(islice(simulate_from(begin_ms, seed=3, gpus=gpus, interval_ms=interval_ms, origin=origin), count))


@pytest.mark.parametrize("interval_ms", [1_000, MINUTE_MS, 10 * MINUTE_MS])
def test_no_tick_covers_time_before_the_beginning_or_twice(interval_ms: int) -> None:
    found = ticks(MONDAY_MS, 20, interval_ms=interval_ms)

    before = MONDAY_MS
    for tick in found:
        for card in tick.cards:
            assert tick.ts_ms - card.duration_ms >= before
        before = tick.ts_ms
    assert found[0].ts_ms <= MONDAY_MS + 2 * interval_ms


def test_a_run_that_begins_where_another_ended_follows_it() -> None:
    first = ticks(MONDAY_MS, 5)
    second = ticks(first[-1].ts_ms, 5)

    assert second[0].ts_ms - second[0].cards[0].duration_ms >= first[-1].ts_ms
    assert [card.uuid for card in second[0].cards] == [card.uuid for card in first[0].cards]


def test_the_same_beginning_gives_the_same_ticks() -> None:
    assert ticks(MONDAY_MS, 30) == ticks(MONDAY_MS, 30)


@pytest.mark.parametrize("minute", [TUE, THU])
def test_it_is_never_away_by_itself(minute: int) -> None:
    found = ticks(MONDAY_MS + minute * MINUTE_MS, 24 * 6, interval_ms=10 * MINUTE_MS, gpus=1)
    assert max(after.ts_ms - before.ts_ms for before, after in pairwise(found)) < 11 * MINUTE_MS


def test_what_cannot_be_simulated_is_refused_before_the_first_tick() -> None:
    with pytest.raises(UsageError, match="--gpus 0"):
        simulate_from(MONDAY_MS, seed=0, gpus=0, interval_ms=MINUTE_MS, origin=demo_origin(MINUTE_MS))
