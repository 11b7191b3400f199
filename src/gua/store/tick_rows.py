"""Ticks as rows of an embedded store's tables: what its views would make of their points.

The way of all ticks into an embedded store. As points they would be read letter by letter, 35 of a card and 6 of a
process, to become one row each again. A test lands the same ticks both ways.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import isfinite
from typing import Final, NamedTuple

from gua.core import fields
from gua.core.facts import RATIO_SCALE, busiest, type_totals
from gua.core.plaintext import storable
from gua.core.tick import AllocationReading, AllocationSourceReading, CardReading, Origin, ProcessReading, Tick
from gua.core.words import ProcessList, ProcessType
from gua.store import tick_columns
from gua.store.tick_columns import TickColumn

_YEAR_2000_MS: Final = 946_684_800_000
_YEAR_2100_MS: Final = 4_102_444_800_000
_DAY_MS: Final = 86_400_000
_MOST_UINT32: Final = 0xFFFF_FFFF
# Beyond it a point's value, a double of whole units, may be another one in its last place.
_MOST: Final = 1 << 50
_NO_TOTALS: Final = (None,) * 3 * len(ProcessType)
_line = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
Row = Sequence[object]


class TableLines(NamedTuple):
    """Rows of one table, each a line of JSON with the values of the columns in order."""

    table: str
    columns: Sequence[TickColumn]
    lines: Sequence[str]


class _NotPlainError(Exception):
    """The tick holds something that only its points tell in full."""


class _Seen(NamedTuple):
    first_ms: int
    last_ms: int
    longest_ms: int
    newest: tuple[int, float, int, int]


class _Sender(NamedTuple):
    """What every row of a resource begins with, and all that it says of itself as text."""

    begin: tuple[str, str, int]
    host: str
    labels: Mapping[str, str]


class TickRows:
    """Rows of ticks up to now, to be landed at once."""

    def __init__(self, now_ms: int) -> None:
        """Make none yet; ``now_ms`` is the Unix time: what is ahead of it is for the views to judge."""
        self.ticks = 0
        self.characters = 0
        self._now_ms = now_ms
        self._lines: dict[str, list[str]] = {}
        self._seen: dict[tuple[str, str], _Seen] = {}
        self._newest: dict[tuple[str, str], tuple[int, Origin, CardReading]] = {}
        self._agents: dict[tuple[str, str, str, int], tuple[int, int, Origin]] = {}

    def add(self, tick: Tick) -> bool:
        """Take a tick; return False and take nothing of one that only its points tell in full.

        That is one of a time that cannot be, or that holds a number which no point carries, or carries unchanged.
        """
        if not _YEAR_2000_MS <= tick.ts_ms <= self._now_ms:
            return False
        sender = _sender(tick.origin)
        try:
            made = [*_rows(tick, sender)]
        except (_NotPlainError, ValueError, OverflowError):
            return False
        for table, row in made:
            line = _line(row)
            self._lines.setdefault(table, []).append(line)
            self.characters += len(line)
        for card in tick.cards:
            self._see(card, tick, sender.host)
        self._hear(tick)
        self.ticks += 1
        return True

    def parts(self) -> Iterator[TableLines]:
        """Yield the rows of each table that has some."""
        every = {
            **self._lines,
            "card_info": [
                _line(_info_row(card, gpu, ts_ms, origin)) for (_, gpu), (ts_ms, origin, card) in self._newest.items()
            ],
            "card_seen": [
                _line((*key, of.first_ms, of.last_ms, of.longest_ms, (of.newest[0], *of.newest[2:])))
                for key, of in self._seen.items()
            ],
            "agents": [
                _line((*key[:3], first_ms, last_ms, last_ms, _version(origin)))
                for key, (first_ms, last_ms, origin) in self._agents.items()
            ],
        }
        for table, columns in TABLES.items():
            if lines := every.get(table):
                yield TableLines(table, columns, lines)

    def _see(self, card: CardReading, tick: Tick, host: str) -> None:
        key = host, _clean(card.uuid)
        ts_ms, duration_ms, gpu_time_ms = tick.ts_ms, card.duration_ms, card.gpu_time_ms
        newest = ts_ms, gpu_time_ms / duration_ms, gpu_time_ms, duration_ms
        before = self._seen.get(key)
        if before is None:
            self._seen[key] = _Seen(ts_ms - duration_ms, ts_ms, duration_ms, newest)
        else:
            self._seen[key] = _Seen(
                min(before.first_ms, ts_ms - duration_ms),
                max(before.last_ms, ts_ms),
                max(before.longest_ms, duration_ms),
                max(before.newest, newest),
            )
        described = self._newest.get(key)
        if described is None or described[0] <= ts_ms:
            self._newest[key] = ts_ms, tick.origin, card

    def _hear(self, tick: Tick) -> None:
        if tick.agent is None or tick.agent.tick_duration_seconds is None:
            return
        labels = _sender(tick.origin).labels
        instance, host_id = labels.get("service.instance.id", ""), labels.get("host.id", "")
        key = labels["host.name"], instance, host_id, tick.ts_ms // _DAY_MS
        first_ms, last_ms, origin = self._agents.get(key, (tick.ts_ms, tick.ts_ms, tick.origin))
        self._agents[key] = (
            min(first_ms, tick.ts_ms),
            max(last_ms, tick.ts_ms),
            tick.origin if tick.ts_ms >= last_ms else origin,
        )


# Cards last: an import that is killed leaves no card without those that held it.
TABLES: Final[Mapping[str, Sequence[TickColumn]]] = {
    "process_ticks": tick_columns.PROCESS,
    "allocation_ticks": tick_columns.ALLOCATION,
    "allocation_source_ticks": tick_columns.SOURCE,
    "card_info": tick_columns.INFO,
    "card_seen": tick_columns.SEEN,
    "agents": tick_columns.AGENT,
    "card_ticks": tick_columns.CARD,
}


@lru_cache(maxsize=256)
def _sender(origin: Origin) -> _Sender:
    labels = {
        storable(key): storable(value, fields.RESOURCE_TEXT)
        if isinstance(value, str)
        else repr(value).removesuffix(".0")
        for key, value in fields.resource(origin).items()
    }
    host = labels["host.name"]
    return _Sender((host, labels["gua.source"], origin.interval_ms), host, labels)


def _version(origin: Origin) -> tuple[str, str, str]:
    labels = _sender(origin).labels
    interval_ms = origin.interval_ms if 0 <= origin.interval_ms <= _MOST_UINT32 else 0
    return labels.get("service.version", ""), labels["gua.source"], str(interval_ms)


@lru_cache(maxsize=4096)
def _clean(text: str) -> str:
    return storable(text)


@lru_cache(maxsize=4096)
def _cleaned(*texts: str | None) -> tuple[str | None, ...]:
    return tuple([None if text is None else storable(text) for text in texts])


def _scaled(value: float | None, scale: int) -> int | None:
    """Return a ratio in the steps in which it is stored, rounded half to even as ClickHouse does."""
    return None if value is None else round(value * scale)


def _rows(tick: Tick, sender: _Sender) -> Iterator[tuple[str, Row]]:
    if not sender.host or (tick.agent is not None and not isfinite(tick.agent.tick_duration_seconds or 0)):
        raise _NotPlainError
    host, ts_ms = sender.host, tick.ts_ms
    for card in tick.cards:
        duration_ms = card.duration_ms
        if duration_ms > _MOST_UINT32:
            raise _NotPlainError
        gpu = _clean(card.uuid)
        yield "card_ticks", (*sender.begin, ts_ms, gpu, *_card(card))
        for process in card.processes:
            yield "process_ticks", (host, ts_ms, gpu, duration_ms, *_process(process))
        for allocation in card.allocations:
            yield "allocation_ticks", (host, ts_ms, gpu, *_allocation(allocation))
    for source in tick.allocation_sources:
        yield "allocation_source_ticks", (host, ts_ms, *_source(source))


def _card(card: CardReading) -> Row:
    processes = card.processes
    numbers = [
        *map(_scaled, tick_columns.card_ratios(card), tick_columns.CARD_SCALES),
        *tick_columns.card_counts(card),
        _scaled(busiest(processes), RATIO_SCALE) if processes else None,
        *(type_totals(processes) if card.process_list is ProcessList.KNOWN else _NO_TOTALS),
    ]
    _check(numbers)
    return (*numbers, *tick_columns.card_words(card))


def _process(process: ProcessReading) -> Row:
    created_ms = process.created_ms or 0
    if not 0 <= process.pid <= _MOST_UINT32 or not 0 <= created_ms < _YEAR_2100_MS:
        raise _NotPlainError
    numbers = [
        *tick_columns.process_counts(process),
        *[_scaled(getattr(process, name), scale) for name, scale in tick_columns.process_ratios],
    ]
    _check(numbers)
    return (process.pid, created_ms, *numbers, *_cleaned(*tick_columns.process_texts(process)))


def _allocation(allocation: AllocationReading) -> Row:
    numbers = tick_columns.allocation_counts(allocation)
    moments = allocation.since_ms, allocation.until_ms
    texts = _cleaned(*tick_columns.allocation_texts(allocation))
    if not (texts[0] and texts[1] and all(one is None or 0 <= one < _YEAR_2100_MS for one in moments)):
        raise _NotPlainError
    _check(numbers)
    return (*numbers, *moments, *texts)


def _source(source: AllocationSourceReading) -> Row:
    numbers = tick_columns.source_counts(source)
    name, reason = _cleaned(source.source, source.reason)
    if not name:
        raise _NotPlainError
    _check(numbers)
    return (name, "ok" if source.reason is None else "failed", reason, *numbers)


def _info_row(card: CardReading, gpu: str, ts_ms: int, origin: Origin) -> Row:
    sender = _sender(origin)
    _, *begin = sender.begin
    texts = _cleaned(*tick_columns.info_texts(card))
    return (sender.host, gpu, ts_ms, *begin, sender.labels, card.index, card.memory_shared, *texts)


def _check(numbers: Sequence[int | None]) -> None:
    """Refuse a number of which a point may tell another one."""
    known = [number for number in numbers if number is not None]
    if known and not (min(known) > -_MOST and max(known) < _MOST):
        raise _NotPlainError
