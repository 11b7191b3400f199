"""Status of the running agent in memory: written by the loop and the senders, read by the local socket."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from gua.agent.card_status import Standing, card_status, field_names, follow, in_order
from gua.core.errors import GuaError
from gua.core.moments import to_rfc3339
from gua.core.ports import Clock, Moment
from gua.core.rules import SHIPPED, Rules
from gua.core.tick import Tick

if TYPE_CHECKING:
    from gua.spool.stats import SpoolStats

SCHEMA: Final = "gua.status/1"
STALLED_INTERVALS: Final = 2
"""An agent whose last tick is older than this many intervals is stalled."""

ALLOCATION_NOTES: Final = ("allocations", "silent jobs")
"""Keys of conditions that concern allocation: problems of sources, and jobs that no source reports."""

_MOST_ERRORS: Final = 100
_LONGEST_TEXT: Final = 500


@dataclass(kw_only=True, slots=True)
class _Destination:
    name: str
    where: str
    last_error: str | None = None
    last_error_time: Moment | None = None
    failing: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class _Source:
    """An allocation source: why it failed, ``None`` if it did not, and since when that is so."""

    reason: str | None
    since: Moment


@dataclass(kw_only=True, slots=True)
class _LastTick:
    tick: Tick
    lateness_ms: int
    seen: Moment


@dataclass(kw_only=True, slots=True)
class _State:
    """State written by the loop; hold the lock to access it. Each tick replaces cards, seen and sources."""

    made: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    last: _LastTick | None = None
    cards: dict[str, Standing] = field(default_factory=dict)
    seen: dict[str, Moment] = field(default_factory=dict)
    sources: dict[str, _Source] = field(default_factory=dict)
    conditions: dict[str, str] = field(default_factory=dict)


class Board:
    """The agent's state as ``gua status`` shows it. Methods are thread-safe, and none blocks for long.

    ``destinations`` are (name, where) without passwords. ``started_ms`` is Unix time. ``spool`` and ``in_memory`` are
    called for each status in the caller's thread, for the spool's counters since the start, and the number of ticks
    that wait in memory for it. A GuaError from ``spool`` is shown as a condition.
    """

    def __init__(  # noqa: PLR0913 - by keyword only, the fixed properties of an agent
        self,
        *,
        pid: int,
        version: str,
        host: str,
        started_ms: int,
        interval_ms: int,
        destinations: Sequence[tuple[str, str]],
        clock: Clock,
        spool: Callable[[], SpoolStats],
        in_memory: Callable[[], int],
        detects_models: bool = False,
        reads_activity: bool = False,
    ) -> None:
        self._agent = {
            "pid": pid,
            "version": version,
            "host": host,
            "started": to_rfc3339(started_ms),
            "detects_models": detects_models,
            "activity": "gpm" if reads_activity else None,
        }
        self._interval_ms = interval_ms
        self._clock = clock
        self._spool = spool
        self._in_memory = in_memory
        self._born = Moment.of(clock)
        self._lock = threading.Lock()
        self._state = _State()
        self._destinations = {name: _Destination(name=name, where=where) for name, where in destinations}

    def ticked(self, tick: Tick, *, lateness_ms: int) -> None:
        """Record a tick that was made ``lateness_ms`` after its grid point."""
        now = Moment.of(self._clock)
        with self._lock:
            state = self._state
            state.made += 1
            state.last = _LastTick(tick=tick, lateness_ms=lateness_ms, seen=now)
            state.cards = follow(state.cards, tick, SHIPPED)
            seen = state.seen | {card.uuid: now for card in tick.cards}
            state.seen = {uuid: seen[uuid] for uuid in state.cards}
            state.sources = {
                each.source: _source(state.sources.get(each.source), each.reason, now)
                for each in tick.allocation_sources
            }

    def skipped(self, reason: str, times: int = 1) -> None:
        """Count grid points without a tick: outcomes of :mod:`gua.agent.sampler`, driver, fault, missed."""
        with self._lock:
            self._state.skipped[reason] += times

    def delivered(self, destination: str) -> None:
        """Record that the last delivery attempt succeeded; the spool counts the ticks."""
        with self._lock:
            self._destinations[destination].failing = False

    def failed(self, destination: str, message: str) -> None:
        """Record why the last delivery attempt failed."""
        now = Moment.of(self._clock)
        with self._lock:
            known = self._destinations[destination]
            known.last_error = message[:_LONGEST_TEXT]
            known.last_error_time = now
            known.failing = True

    def note(self, key: str, text: str | None) -> None:
        """Show a condition (a full disk, a spool set aside) until it is cleared with ``None``."""
        with self._lock:
            if text is None:
                self._state.conditions.pop(key, None)
            else:
                self._state.conditions[key] = text[:_LONGEST_TEXT]

    def status(self) -> dict[str, Any]:
        """Return the status object "gua.status/1": times RFC 3339 UTC, ages in seconds, unknown as None."""
        stats, trouble = None, None
        try:
            stats = self._spool()
        except GuaError as error:
            trouble = str(error)[:_LONGEST_TEXT]
        with self._lock:  # only the copy needs the lock: the loop must not wait for the rest
            now = Moment.of(self._clock)
            state = replace(self._state, skipped=self._state.skipped.copy(), conditions=dict(self._state.conditions))
            destinations = [replace(one) for one in self._destinations.values()]
        uptime = _age(self._born, now)
        age = None if state.last is None else _age(state.last.seen, now)
        errors = () if state.last is None or state.last.tick.agent is None else state.last.tick.agent.errors
        most = sorted(errors, key=lambda error: (-error.count, error.call, error.code))[:_MOST_ERRORS]
        return {
            "schema": SCHEMA,
            "running": True,
            "stalled": (uptime if age is None else age) > STALLED_INTERVALS * self._interval_ms / 1000,
            "agent": {
                **self._agent,
                "uptime_seconds": uptime,
                "interval_seconds": self._interval_ms / 1000,
            },
            "last_tick": None
            if state.last is None
            else {
                "time": to_rfc3339(state.last.tick.ts_ms),
                "age_seconds": age,
                "lateness_seconds": state.last.lateness_ms / 1000,
                "duration_seconds": state.last.tick.agent and state.last.tick.agent.tick_duration_seconds,
                "activity_cards": sum(card.sm_utilization is not None for card in state.last.tick.cards),
            },
            "ticks": {"made": state.made, "skipped": dict(sorted(state.skipped.items()))},
            "spool": {
                "ticks": stats and stats.ticks,
                "bytes": stats and stats.bytes,
                "in_memory_ticks": self._in_memory(),
                "dropped_ticks": stats and stats.dropped,
            },
            "destinations": [_delivery(one, stats, now) for one in destinations],
            "errors": [{"call": error.call, "code": error.code, "count": error.count} for error in most],
            "conditions": list(dict.fromkeys(filter(None, [*state.conditions.values(), trouble]))),
            "rules": {name: getattr(SHIPPED, name) for name in field_names(Rules, "active_from")},
            "allocation_notes": [state.conditions[key] for key in ALLOCATION_NOTES if key in state.conditions],
            "allocation_sources": [
                {
                    "source": name,
                    "ok": source.reason is None,
                    "reason": source.reason,
                    "since": to_rfc3339(source.since.wall_ms),
                    "seconds": _age(source.since, now),
                }
                for name, source in state.sources.items()
            ],
            "cards": [
                card_status(one, SHIPPED, age_seconds=_age(state.seen[one.card.uuid], now))
                for one in in_order(state.cards)
            ],
        }


def _delivery(destination: _Destination, stats: SpoolStats | None, now: Moment) -> dict[str, Any]:
    name, error_time = destination.name, destination.last_error_time
    waiting = None if stats is None else stats.waiting.get(name)
    oldest_ms = None if stats is None else stats.oldest_ms.get(name)
    delivered_ms = None if stats is None else stats.delivered_ms.get(name)
    lag_ms = 0 if waiting == 0 else None if waiting is None or oldest_ms is None else now.wall_ms - oldest_ms
    since = delivered_ms is not None and error_time is not None and delivered_ms > error_time.wall_ms
    return {
        "name": name,
        "where": destination.where,
        "failing": destination.failing and not since,
        "waiting_ticks": waiting,
        "lag_seconds": None if lag_ms is None else max(0, lag_ms) / 1000,
        "delivered_ticks": None if stats is None else stats.delivered.get(name),
        "refused_ticks": None if stats is None else stats.refused.get(name),
        "last_delivery": delivered_ms and to_rfc3339(delivered_ms),
        "last_delivery_age_seconds": delivered_ms and max(now.wall_ms - delivered_ms, 0) / 1000,
        "last_error": destination.last_error,
        "last_error_time": error_time and to_rfc3339(error_time.wall_ms),
    }


def _age(then: Moment, now: Moment) -> float:
    return max(then.age_ms(now), 0) / 1000


def _source(before: _Source | None, reason: str | None, now: Moment) -> _Source:
    same = before is not None and (before.reason is None) is (reason is None)
    reason = None if reason is None else reason[:_LONGEST_TEXT]
    return _Source(reason=reason, since=before.since if before is not None and same else now)
