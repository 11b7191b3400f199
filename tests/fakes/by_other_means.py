"""A report's figures from plain ticks, one after the other, as docs/rules.md and report/parts say what they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
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
    energy_mj, power_mw FROM gua.card_states ORDER BY host, gpu, ts
"""
_PROCESS_TICKS: Final = """
SELECT host, gpu, toUnixTimestamp64Milli(ts) AS ts_ms, pid, toUnixTimestamp64Milli(created) AS created_ms, owner,
    program, gpu_time_ms, memory_bytes, container_id, pod_uid, slurm_job_id, systemd_unit, state
FROM gua.process_states WHERE gpu_time_ms IS NOT NULL ORDER BY host, gpu, pid, created, ts
"""
_CARDS: Final = """
SELECT host, gpu, gpu_index, model, mig, source, interval_ms, toUnixTimestamp64Milli(first_seen) AS first_ms,
    toUnixTimestamp64Milli(last_seen) AS last_ms FROM gua.cards
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
class Episode:
    """Idle ticks in a row, and when the process was active next."""

    ticks: Sequence[Seen]
    active_ms: int | None

    @property
    def ms(self) -> int:
        return sum(one.ms for one in self.ticks)

    def held_ms(self, after_ms: int = 0) -> float:
        """Return the GPU time on idle-held cards after so much idle time."""
        total, past = 0.0, 0
        for one in self.ticks:
            rest = min(max(past + one.ms - after_ms, 0), one.ms)
            past += one.ms
            if one.card_state == IDLE_HELD:
                total += one.gpu_ms * rest / one.ms
        return total

    def uneven_ms(self, after_ms: int) -> float:
        """Return how far GPU time on idle-held cards may be from evenly spread in the hour in which that is reached."""
        if self.ms <= after_ms:
            return 0
        hour = (self.reaches(after_ms) - 1) // HOUR_MS
        held = [one for one in self.ticks if one.card_state == IDLE_HELD and (one.ts_ms - 1) // HOUR_MS == hour]
        mean = sum(one.gpu_ms for one in held) / max(sum(one.ms for one in held), 1)
        return sum(abs(one.gpu_ms - mean * one.ms) for one in held)

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
    """Return what each party, as ``name`` has it, had; ``("unlisted",)`` is what nobody on a list had."""
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
    """Return from when to when the whole cards of these hosts are expected."""
    found = {}
    for key, card in counted.cards.items():
        if card["host"] in hosts and card["mig"] in {None, "none"}:
            since_ms = max(card["first_ms"], counted.since_ms)
            until_ms = counted.until_ms if card["source"] == "agent" else min(card["last_ms"], counted.until_ms)
            if since_ms < until_ms:
                found[key] = since_ms, until_ms
    return found


def contention(counted: Counted, hosts: Sequence[str]) -> dict[str, float]:
    """Return for how long of the time in which cards are expected some is free, all that are not are held, …."""
    expected = expected_time(counted, hosts)
    moments = {moment for both in expected.values() for moment in both}
    begin: dict[int, list[tuple[Key, Seen]]] = defaultdict(list)
    for key in expected:
        for one in closed(counted.ticks.get(key, [])):
            begin[one.since_ms].append((key, one))
            moments |= {one.since_ms, one.until_ms}
    sums = dict.fromkeys(("free", "contended", "busy", "unknown", "contended_gpu"), 0.0)
    newest: dict[Key, Seen] = {}
    for at_ms, next_ms in pairwise(sorted(moments)):
        newest |= dict(begin[at_ms])
        here = [newest.get(key) for key, (since_ms, until_ms) in expected.items() if since_ms <= at_ms < until_ms]
        now = [one if one is not None and one.until_ms > at_ms else None for one in here]
        if here:
            name = found_by(now)
            sums[name] += next_ms - at_ms
            if name == "contended":
                held = [one for one in now if one is not None and one.state == IDLE_HELD]
                sums["contended_gpu"] += (next_ms - at_ms) * sum(one.gpu_ms / one.ms for one in held)
    return sums


def found_by(cards: Sequence[Seen | None]) -> str:
    """Return what somebody in want of a card finds, ``None`` being one of which there is no tick."""
    states = {UNKNOWN if one is None else one.state for one in cards}
    if TRULY_IDLE in states:
        return "free"
    if UNKNOWN in states:
        return "unknown"
    return "contended" if IDLE_HELD in states else "busy"


def closed(ticks: Sequence[Seen]) -> Iterator[Seen]:
    """Yield ticks that last until the next one if that is no more than a tick away, in the same state and UTC hour."""
    for one, after in pairwise([*ticks, None]):
        if one is None:
            continue
        is_same = after is not None and (one.state, (one.ts_ms - 1) // HOUR_MS) == (
            after.state,
            (after.ts_ms - 1) // HOUR_MS,
        )
        if after is not None and is_same and 0 < after.since_ms - one.until_ms <= max(one.ms, after.ms):
            yield replace(one, until_ms=after.since_ms)
        else:
            yield one


def closed_ms(ticks: Sequence[Seen]) -> int:
    """Return how long the holes between ticks are no longer than a tick: if nothing changed they are closed."""
    return sum(
        after.since_ms - before.until_ms
        for before, after in pairwise(ticks)
        if after.since_ms - before.until_ms <= max(before.span_ms, after.span_ms)
    )


def energy(counted: Counted, key: Key) -> dict[str, list[float]]:
    """Return for each state of a card: measured J and ms, estimated J and ms, unknown ms."""
    found = {state: [0.0] * 5 for state in STATES}
    for one in counted.ticks.get(key, []):
        sums = found[UNKNOWN if counted.cards[key]["mig"] == "parent" else one.state]
        if one.row["energy_mj"] is not None:
            sums[0] += one.row["energy_mj"] / 1000 * one.ms / one.span_ms
            sums[1] += one.ms
        elif one.row["power_mw"] is not None:
            sums[2] += one.row["power_mw"] / 1000 * one.ms / 1000
            sums[3] += one.ms
        else:
            sums[4] += one.ms
    return found


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
