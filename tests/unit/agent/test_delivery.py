from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gua.agent.delivery import DrainResult, drain
from gua.core.errors import TransientError
from gua.core.ports import SpooledTick
from gua.spool.queue import Spool


@dataclass
class Ground:
    """A landing that remembers; refuses the times in ``bad`` and is down once ``down_after`` batches have landed."""

    spool: Spool
    bad: tuple[int, ...] = ()
    down_after: int = 1000
    landed: list[int] = field(default_factory=list)
    waiting_at_landing: list[int] = field(default_factory=list)

    def land(self, batch: Sequence[SpooledTick]) -> Sequence[SpooledTick]:
        if len(self.waiting_at_landing) == self.down_after:
            msg = "down"
            raise TransientError(msg)
        self.waiting_at_landing.append(self.spool.depth("store"))
        self.landed += [tick.ts_ms for tick in batch]
        return [tick for tick in batch if tick.ts_ms in self.bad]


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    with Spool(tmp_path / "spool.db") as opened:
        opened.extend((number, b"x") for number in range(10))
        yield opened


def test_everything_lands_once_oldest_first_and_leaves_the_spool(spool: Spool) -> None:
    ground, steps = Ground(spool), []
    assert drain(spool, "store", ground, batch_ticks=4, on_batch=lambda landed, _: steps.append(landed)) == DrainResult(
        landed=10
    )
    assert ground.landed == list(range(10))
    assert steps == [4, 4, 2]
    assert spool.depth("store") == 0


def test_a_batch_leaves_the_spool_only_after_the_next_has_landed(spool: Spool) -> None:
    ground = Ground(spool)
    at_flush = []
    drain(spool, "store", ground, batch_ticks=4, flush=lambda: at_flush.append(spool.depth("store")))
    assert ground.waiting_at_landing == [10, 10, 6]
    assert at_flush == [2]


def test_a_landing_that_goes_down_keeps_what_has_not_landed(spool: Spool) -> None:
    with pytest.raises(TransientError):
        drain(spool, "store", Ground(spool, down_after=1), batch_ticks=4)
    assert [tick.ts_ms for tick in spool.peek("store", 10)] == [4, 5, 6, 7, 8, 9]


def test_what_could_not_be_flushed_stays(spool: Spool) -> None:
    def failing() -> None:
        msg = "no fsync"
        raise OSError(msg)

    with pytest.raises(OSError, match="no fsync"):
        drain(spool, "store", Ground(spool), batch_ticks=4, flush=failing)
    assert [tick.ts_ms for tick in spool.peek("store", 10)] == [8, 9]


def test_refused_ticks_are_kept_counted_and_do_not_hold_up_the_rest(spool: Spool) -> None:
    assert drain(spool, "store", Ground(spool, bad=(3, 7)), batch_ticks=4) == DrainResult(landed=8, refused=2)
    assert [tick.ts_ms for tick, _ in spool.refused("store")] == [3, 7]
    assert spool.depth("store") == 0


def test_an_empty_spool_lands_nothing(tmp_path: Path) -> None:
    with Spool(tmp_path / "empty.db") as empty:
        assert drain(empty, "store", Ground(empty)) == DrainResult()
