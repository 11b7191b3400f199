"""A simulated host through the embedded store: hours by use of each allocation are those of the week's script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakes.allocated_week import account, told
from gua.core.ports import SpooledTick
from gua.core.tick import Tick
from gua.otlp.encode import encode
from gua.sim.calendar import HOUR_MS, MINUTE_MS
from gua.sim.host import DAY_MS, Scenario, simulate
from gua.state.compression import compress
from gua.store.database import Store, open_store

pytestmark = pytest.mark.engine

DAYS = 3
# Wednesday to Friday: a job ends, another hangs, Slurm is silent, two share a card, one user has no allocation.
SCENARIO = Scenario(interval_ms=10 * MINUTE_MS, ticks=DAYS * DAY_MS // (10 * MINUTE_MS))


@pytest.fixture(scope="module")
def ticks() -> list[Tick]:
    return list(simulate(SCENARIO))


@pytest.fixture(scope="module")
def store(
    ticks: list[Tick], tmp_path_factory: pytest.TempPathFactory, made_store: Callable[[Path], str]
) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("allocated") / "store"
    raw = [(tick.ts_ms, encode(tick)) for tick in ticks]
    batch = [SpooledTick(id=at, ts_ms=at, raw_length=len(one), blob=compress(one)) for at, one in raw]
    with open_store(made_store(folder)) as opened:
        assert opened.land(batch) == []
        yield opened


def asked(store: Store, sql: str) -> list[tuple[object, ...]]:
    """Return the rows of a query on the public views."""
    return [tuple(row) for row in store._client.query(sql).result_rows]  # noqa: SLF001 - as a user queries the views


def by_owner_and_use(store: Store, view: str) -> Counter[tuple[str, str]]:
    rows = asked(store, f"SELECT ifNull(owner, '-'), use, sum(gpu_time_ms) FROM gua.{view} GROUP BY ALL")
    return Counter({(str(owner), str(use)): int(str(ms)) for owner, use, ms in rows})


def test_the_stored_uses_are_the_simulator_s_own(store: Store, ticks: list[Tick]) -> None:
    assert by_owner_and_use(store, "allocation_states") == told(ticks)


def test_the_stored_hours_are_those_of_the_script(store: Store, ticks: list[Tick]) -> None:
    found, expected = by_owner_and_use(store, "allocation_states"), account(ticks)

    assert {key: ms / HOUR_MS for key, ms in found.items()} == {
        key: pytest.approx(ms / HOUR_MS, abs=0.001) for key, ms in expected.items()
    }
    assert len({use for _, use in found}) == 7


def test_the_uses_sum_to_the_observed_hours_card_by_card(store: Store, ticks: list[Tick]) -> None:
    stored = dict(asked(store, "SELECT gpu, sum(gpu_time_ms) FROM gua.allocation_states GROUP BY gpu"))
    observed: Counter[str] = Counter()
    for tick in ticks:
        for card in tick.cards:
            observed[card.uuid] += card.gpu_time_ms
    assert stored == observed


def test_the_store_has_the_time_in_which_slurm_could_not_be_queried(store: Store, ticks: list[Tick]) -> None:
    rows = asked(
        store,
        "SELECT source, status, reason, sum(duration_ms) FROM gua.allocation_source_ticks FINAL "
        "GROUP BY ALL ORDER BY ALL",
    )
    known_ms: Counter[tuple[str, str]] = Counter()
    for tick in ticks:
        for each in tick.allocation_sources:
            known_ms[each.source, "ok" if each.reason is None else "failed"] += each.duration_ms
    assert {(source, status): ms for source, status, _, ms in rows} == known_ms
    assert [reason for _, status, reason, _ in rows if status == "failed"] == ["no answer within 3 s"]
