"""The use of allocated cards, recomputed here from plain ticks: the SQL gives the same, from ticks and rolled up.

The histories are random: holes, holders and instances that change, cards shared in time, sources that fail or are not
there, ticks that come late and twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from fakes.allocations import allocated_card
from gua.core.allocation import Allocation, AllocationLook, AllocationMatcher, SourceHealth, parts
from gua.core.facts import card_facts
from gua.core.ports import SpooledTick
from gua.core.rules import Rules, State, classify
from gua.core.tick import AllocationSourceReading, CardReading, Origin, ProcessReading, Tick
from gua.core.words import Mig, ProcessList, Relation, Source, Use
from gua.otlp.encode import encode
from gua.report.hours import choose_hours, tick_hours
from gua.state.compression import compress
from gua.store.database import Store, open_store

pytestmark = pytest.mark.engine

T0_MS = 1_774_440_000_000
HOUR_MS = 3_600_000
INTERVAL_MS = 60_000
SPAN_MS = 4 * HOUR_MS
LIMITS_MS = [0, 30_000, 60_000, 61_000, 90_000, 120_000, 300_000, 600_000]
SEEDS = range(2)
GIB = 2**30
PEOPLE = {"ada": 1001, "grace": 1002, "linus": 1003}


@dataclass(frozen=True)
class History:
    """A host's ticks, and those of them that come late."""

    host: str
    ticks: tuple[Tick, ...]
    late: tuple[Tick, ...]

    @property
    def every(self) -> list[Tick]:
        return sorted((*self.ticks, *self.late), key=lambda tick: tick.ts_ms)


class Piece(NamedTuple):
    """A part of a card tick as far as it lies in a window."""

    gpu: str
    source: str
    id: str
    owner: str | None
    use: Use
    is_shared: bool
    since_ms: int
    until_ms: int
    us: int


def history(seed: int) -> History:
    """Return a random history of four hours and of some 200 ticks."""
    rng = Random(seed)  # noqa: S311 - a test's data, no secret
    host = f"node-{seed}"
    origin = Origin(host=host, source=Source.AGENT, interval_ms=INTERVAL_MS)
    allocations = [_allocation(rng, number, [f"GPU-{seed}-0", f"GPU-{seed}-1"]) for number in range(14)]
    looked_from = T0_MS + rng.choice([0, 0, HOUR_MS])
    failing = _stretches(rng)
    matcher = AllocationMatcher()
    ticks: list[Tick] = []
    ts_ms = T0_MS + rng.randrange(1, 5000)
    slices = 7
    while ts_ms < T0_MS + SPAN_MS:
        duration_ms = rng.choice([INTERVAL_MS, INTERVAL_MS, INTERVAL_MS, rng.randrange(1, INTERVAL_MS)])
        ts_ms += duration_ms + rng.choice([0] * 12 + [1, 700, 200_000, 900_000])
        slices = rng.choice([slices] * 30 + [7, 3, 0])
        cards = tuple(_cards(rng, seed, duration_ms, slices))
        sources: tuple[SourceHealth, ...] = ()
        if ts_ms > looked_from:
            is_failing = any(since <= ts_ms < until for since, until in failing)
            sources = (SourceHealth(source="slurm", reason="squeue takes too long" if is_failing else None),)
        active = [one for one in allocations if ts_ms - duration_ms < (one.until_ms or ts_ms) and one.since_ms < ts_ms]
        look = AllocationLook(allocations=tuple(active) if sources else (), sources=sources)
        ticks.append(
            Tick(
                ts_ms=ts_ms,
                origin=origin,
                cards=tuple(allocated_card(matcher, card, look, ts_ms=ts_ms) for card in cards),
                allocation_sources=tuple(
                    AllocationSourceReading(source=one.source, duration_ms=duration_ms, reason=one.reason)
                    for one in sources
                ),
            )
        )
    late = tuple(tick for tick in ticks if rng.random() < 0.05)
    return History(host, tuple(tick for tick in ticks if tick not in late), late)


def _allocation(rng: Random, number: int, gpus: list[str]) -> Allocation:
    owner = rng.choice([*PEOPLE, None])
    since = T0_MS + rng.randrange(SPAN_MS)
    return Allocation(
        source=rng.choice(["slurm", "slurm", "kubernetes", "lsf"]),
        id=str(number),
        cards=frozenset(rng.sample(gpus, rng.choice([1, 1, 2]))),
        since_ms=since,
        until_ms=rng.choice([None, since + rng.randrange(1, HOUR_MS)]),
        owner=owner,
        uid=PEOPLE.get(owner or ""),
    )


def _stretches(rng: Random) -> list[tuple[int, int]]:
    starts = [T0_MS + rng.randrange(SPAN_MS) for _ in range(3)]
    return [(start, start + rng.randrange(20 * 60_000)) for start in starts]


def _cards(rng: Random, seed: int, duration_ms: int, slices: int) -> Iterator[CardReading]:
    """Yield a whole GPU, and one with an instance of ``slices`` of 7; with all 7 it is not partitioned."""
    yield _card(rng, f"GPU-{seed}-0", duration_ms, duration_ms, index=0)
    of_instance = duration_ms * slices // 7
    if slices == 7:
        yield _card(rng, f"GPU-{seed}-1", duration_ms, duration_ms, index=1)
        return
    yield _card(rng, f"GPU-{seed}-1", duration_ms, duration_ms - of_instance, index=1, mig=Mig.PARENT)
    if slices:
        yield _card(rng, f"MIG-{seed}-1", duration_ms, of_instance, mig=Mig.INSTANCE, parent=f"GPU-{seed}-1")


def _card(rng: Random, uuid: str, duration_ms: int, gpu_time_ms: int, **more: Any) -> CardReading:  # noqa: ANN401 - fields
    people = rng.choice([(), (), ("ada",), ("grace",), ("ada", "linus")])
    busy = rng.choice([None, 0.0, 0.0, 0.5])
    return CardReading(
        uuid=uuid,
        duration_ms=duration_ms,
        gpu_time_ms=gpu_time_ms,
        process_list=rng.choice([ProcessList.KNOWN] * 9 + [ProcessList.FAILED]),
        utilization=busy,
        memory_used_bytes=rng.choice([0, GIB]) if not people else GIB,
        memory_reserved_bytes=0,
        processes=tuple(
            ProcessReading(
                pid=pid, owner=name, uid=PEOPLE[name], created_ms=T0_MS, memory_bytes=GIB // 4, gpu_time_ms=0
            )
            for pid, name in enumerate(people, start=1)
        ),
        **more,
    )


def spooled(tick: Tick) -> SpooledTick:
    raw = encode(tick)
    return SpooledTick(id=tick.ts_ms, ts_ms=tick.ts_ms, raw_length=len(raw), blob=compress(raw))


def without_sources(tick: Tick) -> Tick:
    cards = (replace(card, allocation=None, allocations=(), unallocated_gpu_time_ms=None) for card in tick.cards)
    return replace(tick, cards=tuple(cards), allocation_sources=())


def pieces(ticks: Sequence[Tick], since_ms: int, until_ms: int) -> Iterator[Piece]:
    """Yield every part of every card tick as far as it lies in the window."""
    for tick in ticks:
        for card in tick.cards:
            start_ms = tick.ts_ms - card.duration_ms
            inside = (max(start_ms, since_ms), min(tick.ts_ms, until_ms))
            if inside[0] >= inside[1]:
                continue
            state = classify(card_facts(card), Rules()).state
            whole_us = inside_us(card, inside[1] - inside[0])
            made = parts(card, state)
            bounds = [0]
            for part in made:
                bounds.append(bounds[-1] + part.gpu_time_ms)
            for part, (low, high) in zip(made, pairwise(bounds), strict=True):
                us = whole_us * high // max(card.gpu_time_ms, 1) - whole_us * low // max(card.gpu_time_ms, 1)
                if us:
                    yield _piece(card, tick.ts_ms, inside, part, us)


def _piece(card: CardReading, ts_ms: int, inside: tuple[int, int], part: Any, us: int) -> Piece:  # noqa: ANN401 - a Part
    one = part.allocation
    start_ms = ts_ms - card.duration_ms
    covered = min(one.duration_ms, card.duration_ms) if one else card.duration_ms
    begin_ms = max(min(one.since_ms if one else start_ms, ts_ms - covered), start_ms)
    since_ms = max(begin_ms, inside[0])
    return Piece(
        gpu=card.uuid,
        source=one.source if one else "",
        id=one.id if one else "",
        owner=one.owner if one else None,
        use=part.use,
        is_shared=one is not None and one.relation is Relation.BOTH,
        since_ms=since_ms,
        until_ms=max(min(begin_ms + covered, inside[1]), since_ms),
        us=us,
    )


def inside_us(card: CardReading, inside_ms: int) -> int:
    if inside_ms == card.duration_ms:
        return card.gpu_time_ms * 1000
    return round(card.gpu_time_ms * 1000 * (inside_ms / card.duration_ms))


def uses(every: Sequence[Piece]) -> dict[tuple[Any, ...], int]:
    sums: Counter[tuple[Any, ...]] = Counter()
    for piece in every:
        sums[piece.source, piece.owner, piece.use.value, piece.is_shared] += piece.us
    return dict(sums)


def empty_streaks(every: Sequence[Piece]) -> list[tuple[Any, ...]]:
    """Return the empty streaks longer than each limit, tick by tick: (limit, number, time [ms], GPU time [us])."""
    found: list[tuple[int, int]] = []
    for key in {(piece.gpu, piece.source, piece.id) for piece in every if piece.source}:
        its = sorted((one for one in every if (one.gpu, one.source, one.id) == key), key=lambda one: one.since_ms)
        streak: list[Piece] = []
        before = its[0]
        for one in (*its, None):
            ends = one is None or one.use not in {Use.EMPTY, Use.UNKNOWN} or _is_gap(before, one)
            if ends and streak:
                found.append((sum(each.until_ms - each.since_ms for each in streak), sum(each.us for each in streak)))
                streak = []
            if one is not None:
                streak += [one] if one.use is Use.EMPTY else []
                before = one
    longer = {limit: [streak for streak in found if streak[0] > limit] for limit in LIMITS_MS}
    return [(limit, len(its), *map(sum, zip(*its, strict=True))) for limit, its in longer.items() if its]


def _is_gap(before: Piece, one: Piece) -> bool:
    longer = max(before.until_ms - before.since_ms, one.until_ms - one.since_ms)
    return one.since_ms - before.until_ms > 2 * longer


class Asked(NamedTuple):
    """What a store says of one host in one window."""

    uses: dict[tuple[Any, ...], int]
    streaks: list[tuple[Any, ...]]
    sources: list[tuple[int, int]]
    observed_us: int


def ask(store: Store, host: str, window: tuple[int, int], *, from_ticks: bool) -> Asked:
    bounds = {"since_ms": window[0], "until_ms": window[1], "hosts": [host]}
    chosen = tick_hours(choose_hours(store, bounds, from_ticks=from_ticks))
    read = {**bounds, "tick_hours": chosen, "use_hourly": int(not from_ticks)}
    priced = {**read, "price_models": [], "price_starts": []}
    observed_us = sum(round(row["observed_gpu_ms"] * 1000) for row in store.rows("overview", read))
    return Asked(
        {
            (row["source"], row["owner"], row["use"], bool(row["is_shared"])): row["gpu_us"]
            for row in store.rows("allocations", priced)
            if row["is_total"]
        },
        [
            tuple(row[name] for name in ("limit_ms", "streaks", "empty_ms", "empty_us"))
            for row in store.rows("empty_limits", {**priced, "limits_ms": LIMITS_MS, "false_alarm_ms": 0})
        ],
        [(row["ok_ms"], row["failed_ms"]) for row in store.rows("allocation_sources", read)],
        observed_us,
    )


def windows(seed: int, history: History) -> list[tuple[int, int]]:
    """Return everything, a part of whole and quarter hours, and one whose edges lie anywhere in ticks."""
    ticks = history.every
    rng = Random(1000 + seed)  # noqa: S311 - as above
    odd = [sorted(T0_MS + rng.randrange(SPAN_MS) for _ in range(2)) for _ in range(1)]
    begin = ticks[0].ts_ms - ticks[0].cards[0].duration_ms
    kathmandu = T0_MS + 2 * HOUR_MS + 15 * 60_000
    return [
        (begin, T0_MS + 2 * SPAN_MS),
        (T0_MS, kathmandu),
        *((since, until) for since, until in odd if since < until),
    ]


@pytest.fixture(scope="module")
def histories() -> list[History]:
    return [history(seed) for seed in SEEDS]


def test_recomputed_from_ticks_from_ticks_and_counted_it_is_the_same(
    histories: list[History], made_store: Callable[[Path], str], tmp_path: Path
) -> None:
    with open_store(made_store(tmp_path / "store")) as store:
        for each in histories:
            assert store.land([spooled(tick) for tick in each.ticks]) == []
        assert store.count_hours() > 9
        for each in histories:
            again = [tick for tick in each.ticks if tick.ts_ms % 7 == 0]
            assert store.land([spooled(tick) for tick in (*each.late, *again)]) == []
        reached: Counter[str] = Counter()
        windows_by_history = [
            (each, window) for seed, each in zip(SEEDS, histories, strict=True) for window in windows(seed, each)
        ]
        results = []
        for each, window in windows_by_history:
            expected = list(pieces(each.every, *window))
            from_ticks = ask(store, each.host, window, from_ticks=True)
            results.append(from_ticks)
            assert from_ticks.uses == uses(expected), (each.host, window)
            assert from_ticks.streaks == empty_streaks(expected), (each.host, window)
            assert ask(store, each.host, window, from_ticks=False) == from_ticks, (each.host, window)
            has_source = _looked_at_us(each.every, *window)
            assert sum(from_ticks.uses.values()) == has_source <= from_ticks.observed_us
            reached.update(key[2] for key in from_ticks.uses)
        assert store.count_hours() > 0
        for (each, window), from_ticks in zip(windows_by_history, results, strict=True):
            assert ask(store, each.host, window, from_ticks=False) == from_ticks, (each.host, window)
        assert set(reached) == {use.value for use in Use}


def _looked_at_us(ticks: Sequence[Tick], since_ms: int, until_ms: int) -> int:
    return sum(
        inside_us(card, min(tick.ts_ms, until_ms) - max(tick.ts_ms - card.duration_ms, since_ms))
        for tick in ticks
        for card in tick.cards
        if card.allocation is not None and max(tick.ts_ms - card.duration_ms, since_ms) < min(tick.ts_ms, until_ms)
    )


def test_states_are_the_same_number_for_number_without_sources(
    histories: list[History], made_store: Callable[[Path], str], tmp_path: Path
) -> None:
    rows: list[list[Any]] = []
    for name, form in (("with", lambda tick: tick), ("without", without_sources)):
        with open_store(made_store(tmp_path / name)) as store:
            for each in histories[:2]:
                store.land([spooled(form(tick)) for tick in each.every])
            for _ in range(2):
                bounds = {"since_ms": T0_MS, "until_ms": T0_MS + 2 * SPAN_MS, "hosts": []}
                read = {**bounds, "tick_hours": tick_hours(choose_hours(store, bounds)), "use_hourly": 1}
                overview = sorted(store.rows("overview", read), key=lambda row: (row["host"], row["gpu"]))
                rows.append([amounts(row) for row in overview])
                store.count_hours()
            found = store.select("SELECT count() AS intervals FROM gua.allocation_intervals FINAL WHERE gpu != ''")
            assert (found[0]["intervals"] > 0) == (name == "with")
    from_ticks, counted = rows[:2]
    assert rows[2:] == [from_ticks, counted]


def amounts(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the times and counts of a row of the overview."""
    return {name: row[name] for name in row if name.endswith(("_ms", "_ticks")) or name in {"gaps", "reasons"}}


def test_by_hand_a_job_of_two_cards_that_uses_one_ends_within_a_tick_and_a_stranger(
    made_store: Callable[[Path], str], tmp_path: Path
) -> None:
    """Two cards, ticks of 60 s. Ada's job 7 has both from second 30 to second 270; she works on the first alone.

    Grace comes to the second card at second 200, so from the tick that ends at 240 on; she stays to the end.
    First card: 30 s free, 210 s used and in the fifth tick 30 s more, then 30 + 60 s unallocated, as Ada goes on.
    Second card: 30 s free; empty in the ticks to 180, 150 s; used by others 60 s and, in the fifth tick, 30 s more;
    then 30 + 60 s unallocated.
    """
    origin = Origin(host="lab", source=Source.AGENT, interval_ms=60_000)
    job = Allocation(
        source="slurm",
        id="7",
        cards=frozenset({"GPU-0", "GPU-1"}),
        since_ms=T0_MS + 30_000,
        until_ms=T0_MS + 270_000,
        owner="ada",
        uid=1001,
    )
    matcher, ticks = AllocationMatcher(), []
    for number in range(1, 7):
        ts_ms = T0_MS + number * 60_000
        second = ("grace",) if number >= 4 else ()
        cards = [_on_card("GPU-0", ("ada",) if number > 1 else (), 0.9), _on_card("GPU-1", second, 0.5)]
        has = job.since_ms < ts_ms and ts_ms - 60_000 < T0_MS + 270_000
        look = AllocationLook(allocations=(job,) if has else (), sources=(SourceHealth(source="slurm"),))
        ticks.append(
            Tick(
                ts_ms=ts_ms,
                origin=origin,
                cards=tuple(allocated_card(matcher, card, look, ts_ms=ts_ms) for card in cards),
                allocation_sources=(AllocationSourceReading(source="slurm", duration_ms=60_000),),
            )
        )
    with open_store(made_store(tmp_path / "store")) as store:
        store.land([spooled(tick) for tick in ticks])
        for _ in range(2):
            found = ask(store, "lab", (T0_MS, T0_MS + 360_000), from_ticks=False)
            seconds = {(key[0], key[2]): us / 1e6 for key, us in found.uses.items()}
            assert seconds == {
                ("slurm", "used"): 180 + 30,
                ("slurm", "empty"): 30 + 150,
                ("slurm", "used-by-others"): 60 + 30,
                ("", "free"): 30 + 30,
                ("", "unallocated-use"): 30 + 60 + 30 + 60,
            }
            assert sum(seconds.values()) == 2 * 360
            longer = [(limit, 1, 150_000, 150_000_000) for limit in LIMITS_MS if 30_000 <= limit < 150_000]
            assert found.streaks == [(0, 2, 180_000, 180_000_000), *longer]
            assert found.sources == [(360_000, 0)]
            store.count_hours()


def _on_card(uuid: str, people: tuple[str, ...], utilization: float) -> CardReading:
    return CardReading(
        uuid=uuid,
        duration_ms=60_000,
        gpu_time_ms=60_000,
        process_list=ProcessList.KNOWN,
        utilization=utilization if people else 0.0,
        memory_used_bytes=GIB if people else 0,
        memory_reserved_bytes=0,
        processes=tuple(
            ProcessReading(pid=1, owner=name, uid=PEOPLE[name], memory_bytes=GIB, gpu_time_ms=60_000, created_ms=T0_MS)
            for name in people
        ),
    )


def test_a_tick_of_an_unknown_card_is_never_free(histories: list[History]) -> None:
    for each in histories:
        for tick in each.every:
            for card in tick.cards:
                made = {part.use for part in parts(card, State.TRULY_IDLE)}
                if tick.allocation_sources and tick.allocation_sources[0].reason:
                    assert Use.FREE not in made
