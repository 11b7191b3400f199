"""A report's figures from plain ticks, one after the other, as docs/rules.md and report/parts say what they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final
from zoneinfo import ZoneInfo

from gua.report.states import ACTIVE, IDLE_HELD, STATES, TRULY_IDLE, UNKNOWN
from gua.store.database import Store

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
IDLE: Final = "idle"
Key = tuple[str, str]
_CARD_TICKS: Final = """
SELECT host, gpu, toUnixTimestamp64Milli(ts) AS ts_ms, duration_ms, gpu_time_ms, state, reason, largest_utilization,
    energy_mj, power_mw, ticks.mig AS mig, ticks.allocation AS allocation, ticks.nobodys_ms AS nobodys_ms,
    ticks.size AS size, ticks.reserve AS reserve, ticks.is_shared AS is_shared,
    ticks.reasons AS reasons, ticks.xids AS xids, ticks.last_xid AS xid, ticks.eccs AS eccs, ticks.remap AS remap,
    ticks.recovery AS recovery,
    busiest_utilization, ticks.sm AS sm, ticks.occupancy AS occupancy, ticks.tensor AS tensor,
    ticks.bandwidth AS bandwidth,
    ticks.list AS list, ticks.seen AS seen, ticks.used AS used, ticks.general AS general,
    ticks.sampled AS sampled, ticks.idle AS idle, ticks.powered AS powered, ticks.idle_joules AS idle_joules
FROM gua.card_states
LEFT JOIN
    (
        SELECT host, gpu, ts, mig, allocation, unallocated_gpu_time_ms AS nobodys_ms,
            memory_limit_bytes AS size, memory_reserved_bytes AS reserve,
            ifNull(memory_shared, false) AS is_shared, clock_reasons AS reasons,
            process_list AS list, processes_seen AS seen, memory_used_bytes AS used, utilization AS general,
            xid_errors AS xids, xid AS last_xid, ecc_errors AS eccs, row_remap AS remap, recovery_action AS recovery,
            sm_utilization AS sm, sm_occupancy AS occupancy, tensor_utilization AS tensor,
            memory_bandwidth_utilization AS bandwidth,
            utilization_coverage_ms AS sampled, idle_time_ms AS idle,
            ifNull(idle_energy_coverage_ms, if(idle_energy_mj IS NULL, NULL, idle_time_ms)) AS powered,
            idle_energy_mj / 1000 AS idle_joules
        FROM gua.card_ticks FINAL
    ) AS ticks
    USING (host, gpu, ts)
ORDER BY host, gpu, ts
"""
_PROCESS_TICKS: Final = """
SELECT host, gpu, toUnixTimestamp64Milli(ts) AS ts_ms, pid, toUnixTimestamp64Milli(created) AS created_ms, owner,
    program, gpu_time_ms, memory_bytes, utilization, container_id, pod_uid, slurm_job_id, systemd_unit, state,
    workload_kind, workload_model
FROM gua.process_states WHERE gpu_time_ms IS NOT NULL ORDER BY host, gpu, pid, created, ts
"""
_ALLOCATION_TICKS: Final = """
SELECT host, gpu, toUnixTimestamp64Milli(ts) AS ts_ms, source, allocation_id, duration_ms, gpu_time_ms, relation, owner,
    kind, toUnixTimestamp64Milli(since) AS since_ms, workload_kind, workload_model
FROM gua.allocation_ticks FINAL ORDER BY host, gpu, ts, source, allocation_id
"""
_SOURCE_TICKS: Final = """
SELECT host, source, toUnixTimestamp64Milli(ts) AS ts_ms, duration_ms, status, reason, waiting, wait_ms, waited_ms
FROM gua.allocation_source_ticks FINAL ORDER BY host, source, ts
"""
_CARDS: Final = """
SELECT host, gpu, gpu_index, model, mig, parent, source, interval_ms, toUnixTimestamp64Milli(first_seen) AS first_ms,
    toUnixTimestamp64Milli(last_seen) AS last_ms, share FROM gua.cards
"""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A card, or a process on one, in one tick, as far as the tick lies in the window (ms)."""

    ts_ms: int
    span_ms: int
    """The whole tick, also what of it lies outside."""
    since_ms: int
    until_ms: int
    state: str
    gpu_ms: float
    card_state: str
    row: dict[str, Any]

    @property
    def ms(self) -> int:
        return self.until_ms - self.since_ms


@dataclass(frozen=True, kw_only=True)
class SeenPart:
    """An allocation's part of a card's tick, or (``source`` empty) the unallocated or unknown part."""

    card: Seen
    source: str
    allocation_id: str
    owner: str | None
    use: str
    is_shared: bool
    gpu_ms: float
    since_ms: int
    until_ms: int
    kind: str | None = None
    row: dict[str, Any] = field(default_factory=dict)

    @property
    def ms(self) -> int:
        return self.until_ms - self.since_ms


def use_of(state: str, relation: str | None) -> str:
    """Return the use of a part, as the table in docs/rules.md has it; without an owner ``relation`` is ``None``."""
    if state == UNKNOWN:
        return "unknown"
    if relation is None:
        return "free" if state == TRULY_IDLE else "unallocated-use"
    nobody = "empty" if state == TRULY_IDLE else "unknown"
    there = "used" if state == ACTIVE else "held"
    return {"owner": there, "both": there, "others": "used-by-others", "co-owners": "empty", "nobody": nobody}.get(
        relation, "unknown"
    )


def parts_of(card: Seen, allocations: Sequence[dict[str, Any]]) -> Iterator[SeenPart]:
    """Yield the parts of a card's tick as far as it lies in the window; none without an allocation source."""
    if card.row["allocation"] is None:
        return
    start_ms, share = card.ts_ms - card.span_ms, card.ms / card.span_ms
    left = card.row["gpu_time_ms"]
    for row in allocations:
        covered = min(row["duration_ms"], card.span_ms)
        from_ms = max(min(row["since_ms"] or 0, card.ts_ms - covered), start_ms)
        ms = min(row["gpu_time_ms"], left)
        left -= ms
        inside = max(from_ms, card.since_ms)
        yield SeenPart(
            card=card,
            source=row["source"],
            allocation_id=row["allocation_id"],
            owner=row["owner"],
            use=use_of(card.state, row["relation"]),
            is_shared=row["relation"] == "both",
            gpu_ms=ms * share,
            since_ms=inside,
            until_ms=max(min(from_ms + covered, card.until_ms), inside),
            kind=row["kind"],
            row=row,
        )
    nobodys = min(card.row["nobodys_ms"] or 0, left)
    for use, ms in ((use_of(card.state, None), nobodys), ("unknown", left - nobodys)):
        if ms > 0:
            yield SeenPart(
                card=card,
                source="",
                allocation_id="",
                owner=None,
                use=use,
                is_shared=False,
                gpu_ms=ms * share,
                since_ms=card.since_ms,
                until_ms=card.until_ms,
            )


@dataclass(frozen=True, kw_only=True)
class Episode:
    """Idle ticks in a row, and when the process was active next."""

    ticks: Sequence[Seen]
    active_ms: int | None

    @property
    def ms(self) -> int:
        return sum(one.ms for one in self.ticks)

    def held(self, after_ms: int = 0) -> Iterator[Seen]:
        """Yield the ticks on idle-held cards, with the part of their GPU time that lies after so much idle time."""
        past = 0
        for one in self.ticks:
            rest = min(max(past + one.ms - after_ms, 0), one.ms)
            past += one.ms
            if one.card_state == IDLE_HELD:
                yield replace(one, gpu_ms=one.gpu_ms * rest / one.ms)

    def held_ms(self, after_ms: int = 0) -> float:
        """Return the GPU time on idle-held cards after so much idle time."""
        return sum(one.gpu_ms for one in self.held(after_ms))

    def rounded_ms(self, after_ms: int) -> int:
        """Return how far GPU time may be from evenly spread in the hour in which that is reached: 1 ms a tick."""
        hour = (self.reaches(after_ms) - 1) // HOUR_MS
        return sum((one.ts_ms - 1) // HOUR_MS == hour for one in self.ticks)

    def reaches(self, limit_ms: int) -> int:
        """Return the moment at which the idle time is ``limit_ms`` long."""
        past = 0
        for one in self.ticks:
            if past + one.ms >= limit_ms:
                return one.since_ms + limit_ms - past
            past += one.ms
        raise AssertionError(limit_ms)


@dataclass(kw_only=True)
class Counted:
    """Everything of one window (since, until] of some hosts, none meaning all."""

    since_ms: int
    until_ms: int
    cards: dict[Key, dict[str, Any]] = field(default_factory=dict)
    ticks: dict[Key, list[Seen]] = field(default_factory=dict)
    processes: dict[tuple[str, str, int, int], list[Seen]] = field(default_factory=dict)
    parts: dict[Key, list[SeenPart]] = field(default_factory=dict)
    sources: list[dict[str, Any]] = field(default_factory=list)
    told: dict[str, dict[tuple[object, ...], str]] = field(default_factory=dict)

    def held_by_state(self) -> dict[str, float]:
        """Return the GPU time of each state."""
        sums = dict.fromkeys(STATES, 0.0)
        for ticks in self.ticks.values():
            for one in ticks:
                sums[one.state] += one.gpu_ms
        return sums


class Recorded:
    """All ticks of a store."""

    def __init__(self, store: Store) -> None:
        self._cards = [dict(row) for row in store.select(_CARDS, {})]
        self._card_ticks = [dict(row) for row in store.select(_CARD_TICKS, {})]
        self._process_ticks = [dict(row) for row in store.select(_PROCESS_TICKS, {})]
        self._source_ticks = [dict(row) for row in store.select(_SOURCE_TICKS, {})]
        self._allocations: dict[tuple[str, str, int], list[dict[str, Any]]] = defaultdict(list)
        for row in store.select(_ALLOCATION_TICKS, {}):
            self._allocations[row["host"], row["gpu"], row["ts_ms"]].append(dict(row))

    def window(self, since_ms: int, until_ms: int, hosts: Sequence[str] = ()) -> Counted:
        """Return what lies in a window; what of a tick lies outside is cut off."""
        found = Counted(since_ms=since_ms, until_ms=until_ms)
        found.cards = {(row["host"], row["gpu"]): row for row in self._cards if not hosts or row["host"] in hosts}
        of_tick: dict[tuple[str, str, int], Seen] = {}
        for row in self._card_ticks:
            key = (row["host"], row["gpu"])
            start_ms = row["ts_ms"] - row["duration_ms"]
            inside = max(start_ms, since_ms), min(row["ts_ms"], until_ms)
            if key not in found.cards or inside[0] >= inside[1]:
                continue
            seen = Seen(
                ts_ms=row["ts_ms"],
                span_ms=row["duration_ms"],
                since_ms=inside[0],
                until_ms=inside[1],
                state=row["state"],
                gpu_ms=row["gpu_time_ms"] * (inside[1] - inside[0]) / row["duration_ms"],
                card_state=row["state"],
                row=row,
            )
            of_tick[*key, row["ts_ms"]] = seen
            found.ticks.setdefault(key, []).append(seen)
            found.parts.setdefault(key, []).extend(parts_of(seen, self._allocations[*key, row["ts_ms"]]))
        for row in self._process_ticks:
            card = of_tick.get((row["host"], row["gpu"], row["ts_ms"]))
            if card is not None:
                found.processes.setdefault((row["host"], row["gpu"], row["pid"], row["created_ms"]), []).append(
                    Seen(
                        ts_ms=card.ts_ms,
                        span_ms=card.span_ms,
                        since_ms=card.since_ms,
                        until_ms=card.until_ms,
                        state=row["state"],
                        gpu_ms=row["gpu_time_ms"] * card.ms / card.span_ms,
                        card_state=card.state,
                        row=row,
                    )
                )
        for row in self._source_ticks:
            inside = max(row["ts_ms"] - row["duration_ms"], since_ms), min(row["ts_ms"], until_ms)
            if inside[0] < inside[1] and (not hosts or row["host"] in hosts):
                found.sources.append({**row, "until_ms": inside[1], "ms": inside[1] - inside[0]})
        return found


def is_apart(before: Seen, after: Seen) -> bool:
    """Return whether a gap between two ticks is longer than twice the longer of them."""
    return after.since_ms - before.until_ms > 2 * max(before.span_ms, after.span_ms)


def streaks(ticks: Sequence[Seen], state: str, enders: Iterable[str]) -> Iterator[list[Seen]]:
    """Yield the ticks in ``state`` in a row: one of ``enders`` or a long gap ends a row, any other tick does not."""
    row: list[Seen] = []
    for before, one in pairwise([None, *ticks]):
        if one is None:
            continue
        if one.state in enders or (before is not None and is_apart(before, one)):
            if row:
                yield row
            row = []
        if one.state == state:
            row.append(one)
    if row:
        yield row


def episodes(ticks: Sequence[Seen]) -> list[Episode]:
    """Return the idle episodes of one process on one card."""
    return [
        Episode(
            ticks=row,
            active_ms=next((one.since_ms for one in ticks if one.state == ACTIVE and one.ts_ms > row[-1].ts_ms), None),
        )
        for row in streaks(ticks, IDLE, {ACTIVE})
    ]


def waits(counted: Counted, hosts: Sequence[str]) -> dict[str, float | None]:
    """Return who waited for cards and the use of cards meanwhile, all ``None`` if no tick reports a queue."""
    told = {(row["host"], row["ts_ms"]): row for row in counted.sources if row["wait_ms"] is not None}
    told = {key: row for key, row in told.items() if key[0] in hosts}
    silent = (row for row in counted.sources if row["source"] == "gua" and row["wait_ms"] is None)
    unknown_ms = sum(row["ms"] for row in silent if row["host"] in hosts)
    if not told:
        nothing = dict.fromkeys(("most", "wait", "waited", "empty", "held", "used-by-others", "free"))
        return {**nothing, "untold": unknown_ms or None}
    sums = dict.fromkeys(("wait", "waited", "empty", "held", "used-by-others", "free"), 0.0)
    for row in told.values():
        sums["wait"] += row["wait_ms"] * row["ms"] / row["duration_ms"]
        sums["waited"] += row["waited_ms"] * row["ms"] / row["duration_ms"]
    for key, parts in counted.parts.items():
        for part in parts:
            row = told.get((key[0], part.card.ts_ms))
            if row is not None and part.use in sums:
                sums[part.use] += part.gpu_ms * row["waited_ms"] / row["duration_ms"]
    return {"most": max(row["waiting"] for row in told.values()), **sums, "untold": unknown_ms}


def reservations(counted: Counted) -> dict[tuple[str | None, str | None], int]:
    """Return how many reservations each owner had by kind at ticks that end within the window."""
    found = defaultdict(set)
    for key, parts in counted.parts.items():
        for part in parts:
            if part.source == "gua" and part.card.ts_ms <= counted.until_ms:
                found[part.owner, part.kind].add((key[0], part.allocation_id))
    return {of: len(ids) for of, ids in found.items()}


def cost_suffix(counted: Counted, process: Seen, column: str) -> str | None:
    """Return what was declared or detected of a process, the newest, on whichever card."""
    row = process.row
    who = (row["host"], row["pid"], row["created_ms"])
    if column not in counted.told:
        told: dict[tuple[object, ...], tuple[int, str]] = {}
        for (host, _, pid, created_ms), ticks in counted.processes.items():
            for one in ticks:
                if one.row[column] is not None:
                    of = (host, pid, created_ms)
                    told[of] = max(told.get(of, (0, "")), (one.ts_ms, one.row[column]))
        counted.told[column] = {of: name for of, (_, name) in told.items()}
    return counted.told[column].get(who)


def work_of_allocations(counted: Counted, column: str) -> dict[tuple[str, str, str], str]:
    """Return by host, source and id the kind or model that each allocation had for the most GPU time of its ticks."""
    told: dict[tuple[str, str, str], dict[str, int]] = {}
    for key, part in every_part(counted):
        if part.source and part.row[column] is not None:
            of = told.setdefault((key[0], part.source, part.allocation_id), defaultdict(int))
            of[part.row[column]] += part.row["gpu_time_ms"]
    return {of: max(times, key=lambda name: (times[name], name)) for of, times in told.items()}


def idle_split(counted: Counted, long_ms: int) -> dict[str, float]:
    """Return the GPU time of idle-held streaks by whether they were used at all and how long they are."""
    sums = dict.fromkeys(("never_used", "never_used_long", "low", "low_long"), 0.0)
    for ticks in counted.ticks.values():
        for row in streaks(ticks, IDLE_HELD, {ACTIVE, TRULY_IDLE}):
            name = "low" if any((one.row["largest_utilization"] or 0) > 0 for one in row) else "never_used"
            gpu_ms = sum(one.gpu_ms for one in row)
            sums[name] += gpu_ms
            if sum(one.ms for one in row) >= long_ms:
                sums[f"{name}_long"] += gpu_ms
    return sums


def without_process(one: Seen) -> bool | None:
    """Return whether a card was active without a process and 100 MiB of memory in a tick, ``None`` if unknown."""
    row = one.row
    if one.state != ACTIVE or row["list"] != "known" or row["seen"] is None:
        return None
    is_free = row["general"] is not None if row["used"] is None or row["is_shared"] else row["used"] <= 100 * 2**20
    return bool(row["seen"] == 0 and is_free)


def time_without_process(counted: Counted) -> tuple[float, float]:
    """Return the GPU time [ms] of active cards without a process, and the one of which it is known."""
    every = [(without_process(one), one.gpu_ms) for ticks in counted.ticks.values() for one in ticks]
    return sum(ms for without, ms in every if without), sum(ms for without, ms in every if without is not None)


def stuck(counted: Counted, stuck_ms: int) -> dict[Key, tuple[float, int, int, int]]:
    """Return by card the GPU time [ms] in stretches over ``stuck_ms``, and the longest one's time, start and end."""
    found: dict[Key, tuple[float, int, int, int]] = {}
    for key, ticks in counted.ticks.items():
        stretches: list[list[Seen]] = [[]]
        for before, one in pairwise([None, *ticks]):
            if one is None or not without_process(one) or (before is not None and is_apart(before, one)):
                stretches.append([])
            if one is not None and without_process(one):
                stretches[-1].append(one)
        every = ((sum(one.ms for one in each), each) for each in stretches if each)
        long = [(ms, each[0].since_ms, each[-1].until_ms, each) for ms, each in every if ms > stuck_ms]
        if long:
            found[key] = (sum(one.gpu_ms for *_, each in long for one in each), *max(each[:3] for each in long))
    return found


def holder_of(process: tuple[str, str, int, int], ticks: Sequence[Seen]) -> tuple[object, ...]:
    """Return who holds a card through a process, by its newest tick."""
    for column in ("slurm_job_id", "pod_uid", "container_id", "owner"):
        if ticks[-1].row[column] is not None:
            return column, ticks[-1].row[column]
    return ("process", process[0], *process[2:])


def every_episode(counted: Counted) -> list[tuple[tuple[object, ...], Episode]]:
    """Return every idle episode with its holder."""
    return [(holder_of(process, ticks), one) for process, ticks in counted.processes.items() for one in episodes(ticks)]


@dataclass
class Share:
    """What a party had."""

    gpu_ms: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STATES, 0.0))
    unsplit_ms: int = 0
    sessions: set[tuple[str, int, int]] = field(default_factory=set)
    first_ms: int | None = None
    last_ms: int | None = None
    longest_idle_ms: int | None = None


def shares(counted: Counted, name: Callable[[Seen], object]) -> dict[object, Share]:
    """Return what each party, as ``name`` has it, had; ``("unlisted",)`` is memory without a listed process."""
    found: dict[object, Share] = defaultdict(Share)
    rest = counted.held_by_state()
    for (host, _, pid, created_ms), ticks in counted.processes.items():
        for one in ticks:
            share = found[name(one)]
            share.sessions.add((host, pid, created_ms))
            share.first_ms = min(one.since_ms, share.first_ms or one.since_ms)
            share.last_ms = max(one.until_ms, share.last_ms or one.until_ms)
            if one.card_state != TRULY_IDLE:
                share.gpu_ms[one.card_state] += one.gpu_ms
                share.unsplit_ms += one.ms
                rest[one.card_state] -= one.gpu_ms
        last = found[name(ticks[-1])]
        if any(one.state != UNKNOWN for one in ticks):
            last.longest_idle_ms = max([last.longest_idle_ms or 0, *(one.ms for one in episodes(ticks))])
    rest[TRULY_IDLE] = 0
    found["unlisted",] = Share(gpu_ms=rest)
    return found


def expected_time(counted: Counted, hosts: Iterable[str]) -> dict[Key, tuple[int, int]]:
    """Return from when to when the GPUs of these hosts are expected."""
    found = {}
    for key, card in counted.cards.items():
        if card["host"] in hosts and card["mig"] != "instance":
            since_ms = max(card["first_ms"], counted.since_ms)
            until_ms = counted.until_ms if card["source"] == "agent" else min(card["last_ms"], counted.until_ms)
            if since_ms < until_ms:
                found[key] = since_ms, until_ms
    return found


def contention(
    counted: Counted, hosts: Sequence[str], wasted: list[tuple[Key, Seen]] | None = None
) -> dict[str, float]:
    """Return for how long of the time in which cards are expected some is free, all that are not are held, ….

    What of a tick was idle-held in contended time is appended to ``wasted``.
    """
    expected = expected_time(counted, hosts)
    moments = {moment for both in expected.values() for moment in both}
    begin: dict[int, list[tuple[Key, Seen]]] = defaultdict(list)
    newest = {key: counted.ticks[key][0] for key in expected if key in counted.ticks}
    for key in expected:
        for one in counted.ticks.get(key, []):
            begin[one.since_ms].append((key, one))
            moments |= {one.since_ms, one.until_ms}
        for part in counted.parts.get(key, []):
            moments |= {part.since_ms, part.until_ms}
    sums = dict.fromkeys(("free", "contended", "busy", "unknown", "contended_gpu", "contended_allocated_gpu"), 0.0)
    for at_ms, next_ms in pairwise(sorted(moments)):
        newest |= dict(begin[at_ms])
        here = [key for key, (since_ms, until_ms) in expected.items() if since_ms <= at_ms < until_ms]
        whole = [newest.get(key) for key in here if mode(counted.cards[key], newest.get(key)) != "parent"]
        now = [one if one is not None and one.since_ms <= at_ms < one.until_ms else None for one in whole]
        if now:
            allocations = [allocation_at(counted, one, at_ms) for one in now]
            name = found_by(now, allocations)
            sums[name] += next_ms - at_ms
            if name == "contended":
                held = [one for one in now if one is not None and one.state == IDLE_HELD]
                parts = [replace(one, gpu_ms=(next_ms - at_ms) * one.gpu_ms / one.ms) for one in held]
                sums["contended_gpu"] += sum(one.gpu_ms for one in parts)
                sums["contended_allocated_gpu"] += sum(
                    (next_ms - at_ms) * one.gpu_ms / one.ms
                    for one, allocation in zip(now, allocations, strict=True)
                    if one is not None and one.state == TRULY_IDLE and allocation == "allocated"
                )
                if wasted is not None:
                    wasted += [((one.row["host"], one.row["gpu"]), one) for one in parts]
    return sums


def mode(card: dict[str, Any], newest: Seen | None) -> object:
    """Return what a GPU was: as the newest tick until then has it, before there is any as the first."""
    return card["mig"] if newest is None else newest.row["mig"]


def allocation_at(counted: Counted, card: Seen | None, at_ms: int) -> str | None:
    """Return whether a card is ``allocated`` at a moment, unallocated (``None``), or ``unknown``."""
    if card is None or card.row["allocation"] is None:
        return None
    every = counted.parts[card.row["host"], card.row["gpu"]]
    parts = [part for part in every if part.card is card and part.since_ms <= at_ms < part.until_ms]
    if any(part.source for part in parts):
        return "allocated"
    return "unknown" if any(part.use == "unknown" for part in parts) else None


def found_by(cards: Sequence[Seen | None], allocations: Sequence[str | None]) -> str:
    """Return the state of a card for a requester; ``None`` is a card without a tick."""
    states = {
        UNKNOWN if one is None else f"{allocation} {one.state}" if allocation and one.state == TRULY_IDLE else one.state
        for one, allocation in zip(cards, allocations, strict=True)
    }
    if TRULY_IDLE in states:
        return "free"
    if states & {UNKNOWN, f"unknown {TRULY_IDLE}"}:
        return "unknown"
    return "contended" if states & {IDLE_HELD, f"allocated {TRULY_IDLE}"} else "busy"


def rounded_ms(ticks: Sequence[Seen]) -> int:
    """Return how long the holes between ticks are that come from rounding: up to a second, and to half a tick."""
    holes = [(after.since_ms - before.until_ms, max(before.ms, after.ms) // 2) for before, after in pairwise(ticks)]
    return sum(hole_ms for hole_ms, half_ms in holes if hole_ms <= min(half_ms, 1_000))


@dataclass(kw_only=True)
class Expected:
    """What is expected and observed of a card (GPU time in ms), and how many gaps it has."""

    gpu_ms: float
    observed_gpu_ms: float
    gaps: int

    @property
    def unobserved_gpu_ms(self) -> float:
        return max(self.gpu_ms - self.observed_gpu_ms, 0.0)


def coverage(counted: Counted) -> dict[Key, Expected]:
    """Return what is expected of each card: a hole has the larger share beside it, a GPU and its instances are one."""
    times = {key: time for key, card in counted.cards.items() if (time := _time_of(counted, card))[0] < time[1]}
    gpus: defaultdict[Key, list[Key]] = defaultdict(list)
    for host, gpu in times:
        gpus[host, _gpu_of(counted.cards[host, gpu])].append((host, gpu))
    found = {}
    for cards in gpus.values():
        expected = {key: _expected(counted, key, times[key], cards) for key in cards}
        instances = [key for key in cards if counted.cards[key]["mig"] == "instance"]
        if instances:
            present_ms = max(times[key][1] for key in cards) - min(times[key][0] for key in cards)
            surplus_ms = max(sum(one.gpu_ms for one in expected.values()) - present_ms, 0.0)
            for group in (instances, [key for key in cards if key not in instances]):
                spare_ms = sum(expected[key].unobserved_gpu_ms for key in group)
                less = min(surplus_ms / spare_ms, 1.0) if spare_ms else 0.0
                for key in group:
                    expected[key].gpu_ms -= expected[key].unobserved_gpu_ms * less
                surplus_ms -= spare_ms * less
            for key in instances:
                if key not in counted.ticks and expected[key].gpu_ms < 0.001:
                    del expected[key]
        found |= expected
    return found


def _time_of(counted: Counted, card: Mapping[str, Any]) -> tuple[int, int]:
    goes_on = card["source"] == "agent" and card["mig"] != "instance"
    until_ms = counted.until_ms if goes_on else min(card["last_ms"], counted.until_ms)
    return max(card["first_ms"], counted.since_ms), until_ms


def _gpu_of(card: Mapping[str, Any]) -> str:
    return str(card["parent"] or card["gpu"]) if card["mig"] == "instance" else str(card["gpu"])


def _expected(counted: Counted, key: Key, time: tuple[int, int], cards: Sequence[Key]) -> Expected:
    card, ticks = counted.cards[key], counted.ticks.get(key, [])
    since_ms, until_ms = time
    is_instance = card["mig"] == "instance"
    observed = sum(one.gpu_ms for one in ticks)
    shares = [one.row["gpu_time_ms"] / one.span_ms for one in ticks]
    if is_instance and ticks:
        shares = [observed / sum(one.ms for one in ticks)] * len(ticks)
    if ticks:
        holes = [
            (since_ms, ticks[0].since_ms, shares[0]),
            *(
                (before.until_ms, after.since_ms, max(share, next_share))
                for (before, after), (share, next_share) in zip(pairwise(ticks), pairwise(shares), strict=True)
            ),
            (ticks[-1].until_ms, until_ms, shares[-1]),
        ]
    else:
        holes = [(since_ms, until_ms, card["share"])]
    short_ms = 0
    if is_instance:
        inner = holes[1:-1]
        long = [*holes[:1], *(hole for hole in inner if hole[1] - hole[0] > card["interval_ms"]), *holes[1:][-1:]]
        seen = [one for other in cards if other != key for one in counted.ticks.get(other, [])]
        here = [hole for hole in long if not any(one.since_ms < hole[1] and one.until_ms > hole[0] for one in seen)]
        short_ms = sum(hole[1] - hole[0] for hole in inner if hole not in long)
        whole = counted.ticks.get((key[0], _gpu_of(card)), [])
        if whole:
            apart = (after.since_ms - before.until_ms for before, after in pairwise(whole))
            short_ms = min(short_ms, sum(ms for ms in apart if ms <= card["interval_ms"]))
        holes = here
    # The tick after the last one may still be on its way.
    gaps = sum(hole[1] - hole[0] > card["interval_ms"] * (1 + (hole[1] == until_ms)) for hole in holes)
    time_ms = sum((hole[1] - hole[0]) * hole[2] for hole in holes) + short_ms * (shares or [0.0])[0]
    return Expected(gpu_ms=observed + time_ms, observed_gpu_ms=observed, gaps=gaps)


def energy(counted: Counted, key: Key) -> dict[str, list[float]]:
    """Return for each state of a card: measured J and ms, estimated J and ms, unknown ms."""
    found = {state: [0.0] * 5 for state in STATES}
    for one in counted.ticks.get(key, []):
        sums = found[UNKNOWN if one.row["mig"] == "parent" else one.state]
        if one.row["energy_mj"] is not None:
            sums[0] += one.row["energy_mj"] / 1000 * one.ms / one.span_ms
            sums[1] += one.ms
        elif one.row["power_mw"] is not None:
            sums[2] += one.row["power_mw"] / 1000 * one.ms / 1000
            sums[3] += one.ms
        else:
            sums[4] += one.ms
    return found


def idle_time(counted: Counted, key: Key) -> dict[str, list[float]]:
    """Return for active and idle-held: GPU ms, sampled ms, idle ms, ms with power, and their J."""
    found = {state: [0.0] * 5 for state in (ACTIVE, IDLE_HELD)}
    for one in counted.ticks.get(key, []):
        if one.state not in found:
            continue
        sums = found[one.state]
        sums[0] += one.gpu_ms
        if one.row["idle"] is None or not one.row["sampled"]:
            continue
        sampled = min(one.row["sampled"], one.span_ms)
        idle = min(one.row["idle"], sampled)
        powered = min(one.row["powered"] or 0, idle)
        for place, part in enumerate((sampled, idle, powered), start=1):
            sums[place] += one.gpu_ms * part / one.span_ms
        if powered:
            sums[4] += one.row["idle_joules"] * one.ms / one.span_ms
    return found


LOW: Final = 20
"""Activity below this is low [1/200]."""


def activity(ticks: Iterable[Seen], column: str) -> tuple[float, float, float]:
    """Return the GPU time of active ticks that a metric was sampled for, its mean, and the time in which it was low."""
    told = [one for one in ticks if one.state == ACTIVE and one.row[column] is not None]
    gpu_ms = sum(one.gpu_ms for one in told)
    mean = sum(one.gpu_ms * one.row[column] / 200 for one in told) / gpu_ms if gpu_ms else 0.0
    return gpu_ms, mean, sum(one.gpu_ms for one in told if one.row[column] < LOW)


def owners_activity(counted: Counted) -> dict[tuple[str | None, str | None], list[float]]:
    """Return by owner and program the GPU time of active ticks with SM activity, its mean, and that of few SMs."""
    cards = {(key, one.ts_ms): one for key, ticks in counted.ticks.items() for one in ticks}
    found: dict[tuple[str | None, str | None], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for process, ticks in counted.processes.items():
        for one in ticks:
            card = cards.get((process[:2], one.ts_ms))
            if card is None or card.state != ACTIVE or card.row["sm"] is None:
                continue
            added = found[one.row["owner"], one.row["program"]]
            added[0] += one.gpu_ms
            added[1] += one.gpu_ms * card.row["sm"] / 200
            added[2] += one.gpu_ms if card.row["sm"] < LOW else 0
    return {name: [gpu_ms, sum_ms / gpu_ms, low_ms] for name, (gpu_ms, sum_ms, low_ms) in found.items() if gpu_ms}


def busy_with_few_sms(counted: Counted, key: Key) -> list[list[Seen]]:
    """Return the runs of ticks in which a card was at 90 % or more with few SMs, for half an hour or more."""
    runs: list[list[Seen]] = []
    before: Seen | None = None
    for one in counted.ticks[key]:
        sm = one.row["sm"]
        if one.state != ACTIVE or sm is None or sm >= LOW or (one.row["busiest_utilization"] or 0) < 9000:
            before = None
            continue
        if before is not None and (one.ts_ms - one.span_ms) - before.ts_ms < one.span_ms:
            runs[-1].append(one)
        else:
            runs.append([one])
        before = one
    return [run for run in runs if sum(one.ms for one in run) >= 1_800_000]


def least_not_exceeded(values: Sequence[tuple[int, int]]) -> int | None:
    """Return the smallest of (value, ms) that is not exceeded for 95 % of the time, ``None`` of none."""
    past, most = 0, sum(ms for _, ms in values)
    for value, ms in sorted(values):
        past += ms
        if past * 100 >= most * 95:
            return value
    return None


@dataclass(frozen=True, kw_only=True)
class Reserved:
    """What a program, or a job of it, took of a card."""

    gpu_ms: float
    unknown_ms: int
    ms: int
    memory: Sequence[tuple[int, int]]
    """Bytes, and the ms of the tick, if all of its processes report them."""
    busiest: Sequence[tuple[int, int]]
    sms: Sequence[tuple[int, int]]
    """What the card's SMs did [1/200]."""
    ticks: Sequence[Seen]


def taken(counted: Counted) -> dict[tuple[object, ...], Reserved]:
    """Return what programs took of cards that were not truly-idle: host, gpu, owner, program and job."""
    by_tick: dict[tuple[object, ...], dict[int, list[Seen]]] = defaultdict(lambda: defaultdict(list))
    for process, ticks in counted.processes.items():
        for one in ticks:
            if one.card_state != TRULY_IDLE:
                key = (*process[:2], one.row["owner"], one.row["program"], one.row["slurm_job_id"])
                by_tick[key][one.ts_ms].append(one)
    cards = {(key, one.ts_ms): one.row["sm"] for key, ticks in counted.ticks.items() for one in ticks}
    found = {}
    for key, together in by_tick.items():
        memory, busiest, unknown_ms = [], [], 0
        sms = [(cards[key[:2], ts_ms], here[0].ms) for ts_ms, here in together.items()]
        for here in together.values():
            sizes, uses = ([one.row[column] for one in here] for column in ("memory_bytes", "utilization"))
            if None in sizes:
                unknown_ms += here[0].ms
            else:
                memory.append((sum(sizes), here[0].ms))
            told = [use for use in uses if use is not None]
            if told:
                busiest.append((max(told), here[0].ms))
        every = [one for here in together.values() for one in here]
        found[key] = Reserved(
            gpu_ms=sum(one.gpu_ms for one in every),
            unknown_ms=unknown_ms,
            ms=sum(here[0].ms for here in together.values()),
            memory=memory,
            busiest=busiest,
            sms=[(told, ms) for told, ms in sms if told is not None],
            ticks=every,
        )
    return found


def usable_bytes(counted: Counted, key: Key) -> int | None:
    """Return the memory that programs can have of a card that was never partitioned and reported its memory."""
    rows = [one.row for one in counted.ticks[key]]
    sizes = [row["size"] for row in rows if row["size"]]
    if not sizes or any(row["mig"] == "parent" for row in rows):
        return None
    return min(sizes) - max((row["reserve"] for row in rows if row["reserve"] is not None), default=2**30)


def whole_bytes(counted: Counted, key: Key) -> int | None:
    """Return the memory of the GPU of a MIG instance: the sum of its parts, if the unallocated slices report it."""
    host, whole = key[0], counted.cards[key]["parent"]
    of_whole = [one for one in counted.ticks if one[0] == host and whole in {one[1], counted.cards[one]["parent"]}]
    together: defaultdict[int, dict[Key, dict[str, Any]]] = defaultdict(dict)
    for part in of_whole:
        for one in counted.ticks[part]:
            if one.row["mig"] in {"parent", "instance"}:
                together[one.ts_ms][part] = one.row
    told = [
        sum(row["size"] or 0 for row in rows.values())
        for rows in together.values()
        if (host, whole) in rows and rows[host, whole]["size"] is not None
    ]
    return max(told, default=None)


def size(counted: Counted, key: Key) -> dict[str, int | None]:
    """Return what a card's ticks report of its memory."""
    rows = [one.row for one in counted.ticks[key]]
    is_instance = any(row["mig"] == "instance" for row in rows)
    return {
        "limit_bytes": min((row["size"] for row in rows if row["size"] is not None), default=None),
        "reserved_bytes": max((row["reserve"] for row in rows if row["reserve"] is not None), default=None),
        "is_cut": any(row["mig"] == "parent" for row in rows),
        "is_instance": is_instance,
        "whole_bytes": whole_bytes(counted, key) if is_instance else None,
        "is_shared": any(row["is_shared"] for row in rows),
    }


def slowed(counted: Counted, key: Key) -> dict[str, int | None]:
    """Return the reasons for a slow card that its ticks report."""
    ticks = counted.ticks[key]

    def ms(bits: int) -> int:
        return sum(
            one.ms for one in ticks if any((one.row["reasons"] or 0) & 1 << bit for bit in range(8) if bits >> bit & 1)
        )

    inside = [one.row for one in ticks if one.ts_ms <= counted.until_ms]

    def told(column: str) -> list[int]:
        return [row[column] for row in inside if row[column] is not None]

    return {
        "observed_ms": sum(one.ms for one in ticks),
        "known_ms": sum(one.ms for one in ticks if one.row["reasons"] is not None),
        "heat_ms": ms(0x60),
        "power_cap_ms": ms(0x04),
        "hardware_ms": ms(0x88),
        "slowed_ms": ms(0xE8),
        "xid_errors": sum(told("xids")) if told("xids") else None,
        "xid": told("xid")[-1] if told("xid") else None,
        "ecc_errors": sum(told("eccs")) if told("eccs") else None,
        "row_remap": told("remap")[-1] if told("remap") else None,
        "recovery_action": told("recovery")[-1] if told("recovery") else None,
    }


def recovery(counted: Counted, key: Key) -> tuple[int | None, int | None, int | None]:
    """Return a card's newest recovery action, the time [ms] in which one was needed, and the newest tick (Unix ms)."""
    ticks = counted.ticks.get(key, [])
    known = [one for one in ticks if one.ts_ms <= counted.until_ms and one.row["recovery"] is not None]
    if not known:
        return None, None, None
    return known[-1].row["recovery"], sum(one.ms for one in ticks if (one.row["recovery"] or 0) > 0), known[-1].ts_ms


def local(moment_ms: int, timezone: str) -> datetime:
    """Return a moment on the clocks of a zone."""
    return datetime.fromtimestamp(moment_ms / 1000, UTC).astimezone(ZoneInfo(timezone))


def by_clock(counted: Counted, timezone: str, name: Callable[[datetime], object]) -> dict[object, dict[str, float]]:
    """Return the GPU time by state and hour or day: a tick is of the last millisecond of it in the window."""
    found: dict[object, dict[str, float]] = defaultdict(lambda: dict.fromkeys(STATES, 0.0))
    for ticks in counted.ticks.values():
        for one in ticks:
            found[name(local(one.until_ms - 1, timezone))][one.state] += one.gpu_ms
    return found


def cells(counted: Counted, key: Key, cell_ms: int) -> list[list[float]]:
    """Return the observed ms of each state in each cell."""
    count = -(-(counted.until_ms - counted.since_ms) // cell_ms)
    found = [[0.0] * 4 for _ in range(count)]
    for one in counted.ticks.get(key, []):
        first, last = ((moment - counted.since_ms) // cell_ms for moment in (one.since_ms, one.until_ms - 1))
        for number in range(first, last + 1):
            start_ms = counted.since_ms + number * cell_ms
            inside = min(one.until_ms, start_ms + cell_ms) - max(one.since_ms, start_ms)
            found[number][STATES.index(one.state)] += inside
    return found


Price = tuple[str, int, str, float]
"""A model, from when on (Unix ms, a whole hour), the currency, and what an hour of a GPU costs."""


@dataclass(kw_only=True)
class Spent:
    """What the GPU time of one state cost by currency, and how much of it had no price."""

    amounts: dict[str, float] = field(default_factory=dict)
    unpriced_ms: float = 0.0

    def add(self, gpu_ms: float, price: Price | None) -> None:
        if price is None:
            self.unpriced_ms += gpu_ms
        else:
            self.amounts[price[2]] = self.amounts.get(price[2], 0.0) + gpu_ms / HOUR_MS * price[3]


def price_of(prices: Sequence[Price], model: str | None, one: Seen) -> Price | None:
    """Return the price of a model that counts in the hour in which what is seen of a tick ends."""
    hour_ms = (one.until_ms - 1) // HOUR_MS * HOUR_MS
    valid = [price for price in prices if price[0] == model and price[1] <= hour_ms]
    return max(valid, key=lambda price: price[1], default=None)


def spent(counted: Counted, prices: Sequence[Price], ticks: Iterable[tuple[Key, Seen]]) -> dict[str, Spent]:
    """Return what ticks of cards, or of processes on them, cost by the state of the card."""
    found = {state: Spent() for state in STATES}
    for key, one in ticks:
        found[one.card_state].add(one.gpu_ms, price_of(prices, counted.cards[key]["model"], one))
    return found


def uses(parts: Iterable[SeenPart]) -> dict[str, float]:
    """Return GPU time by use."""
    sums: dict[str, float] = defaultdict(float)
    for one in parts:
        sums[one.use] += one.gpu_ms
    return dict(sums)


def every_part(counted: Counted) -> list[tuple[Key, SeenPart]]:
    """Return every part of every tick with its card."""
    return [(key, part) for key, parts in counted.parts.items() for part in parts]


def spent_by_use(counted: Counted, prices: Sequence[Price], parts: Iterable[tuple[Key, SeenPart]]) -> dict[str, Spent]:
    """Return what parts of ticks cost by use."""
    found: dict[str, Spent] = defaultdict(Spent)
    for key, part in parts:
        found[part.use].add(part.gpu_ms, price_of(prices, counted.cards[key]["model"], part.card))
    return found


def parts_in_a_row(parts: Sequence[SeenPart]) -> Iterator[list[SeenPart]]:
    """Yield the ticks of one allocation on one card of one known use in a row; what is unknown ends none."""
    row: list[SeenPart] = []
    for before, one in pairwise([None, *parts]):
        if one is None:
            continue
        far = before is not None and one.since_ms - before.until_ms > 2 * max(before.ms, one.ms)
        if row and (far or one.use not in {row[-1].use, "unknown"}):
            yield row
            row = []
        if one.use != "unknown":
            row.append(one)
    if row:
        yield row


def by_allocation(counted: Counted) -> dict[tuple[str, str, str, str], list[SeenPart]]:
    """Return the ticks of each allocation on each card."""
    found: dict[tuple[str, str, str, str], list[SeenPart]] = defaultdict(list)
    for key, part in every_part(counted):
        if part.source:
            found[*key, part.source, part.allocation_id].append(part)
    return found


def after(row: Sequence[SeenPart], limit_ms: int) -> float:
    """Return the GPU time of a row of ticks that lies after the first ``limit_ms`` of it."""
    past, gpu_ms = 0, 0.0
    for one in row:
        rest = min(max(past + one.ms - limit_ms, 0), one.ms)
        past += one.ms
        gpu_ms += one.gpu_ms * rest / one.ms if one.ms else 0
    return gpu_ms
