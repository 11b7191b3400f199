"""What is known of the running agent, in memory: the loop and the senders write it, the local socket reads it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gua.agent.card_status import Standing, card_status, follow, in_order
from gua.core.durations import to_rfc3339
from gua.core.errors import GuaError
from gua.core.ports import Clock
from gua.core.rules import Rules
from gua.core.tick import Tick

SCHEMA: Final = "gua.status/1"
STALLED_INTERVALS: Final = 2
"""An agent whose last tick is older than this many intervals is stalled."""

ALLOCATION_NOTES: Final = ("allocations", "silent jobs")
"""The conditions that concern allocation: what sources note, and jobs of which none tells."""

_SHIPPED: Final = Rules()
_MOST_ERRORS: Final = 100
_LONGEST_TEXT: Final = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class SpoolFigures:
    """What the spool holds: its ticks and bytes, ticks that wait in memory for it, ticks dropped for ever.

    ``waiting`` is how many ticks each destination has not acknowledged, ``oldest_ms`` the time of the oldest
    of them (Unix ms), where it is known. ``delivered`` and ``refused`` are how many it took and refused for good since
    the agent started, whoever brought them, and ``delivered_ms`` when it took the last (Unix ms). ``trouble`` is why
    the spool did not tell what is ``None``.
    """

    ticks: int | None
    bytes: int | None
    in_memory_ticks: int | None = 0
    dropped_ticks: int | None = 0
    trouble: str | None = None
    waiting: Mapping[str, int] = field(default_factory=dict)
    oldest_ms: Mapping[str, int] = field(default_factory=dict)
    delivered: Mapping[str, int] = field(default_factory=dict)
    delivered_ms: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Moment:
    """A moment on both clocks, in ms."""

    wall_ms: int
    monotonic_ms: int


@dataclass(kw_only=True, slots=True)
class _Destination:
    name: str
    where: str
    last_error: str | None = None
    last_error_time: _Moment | None = None
    failing: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class _Source:
    """A source of allocations: why it failed, ``None`` if it did not, and since when it has or has not."""

    reason: str | None
    since: _Moment


@dataclass(kw_only=True, slots=True)
class _LastTick:
    tick: Tick
    lateness_ms: int
    seen: _Moment


@dataclass(kw_only=True, slots=True)
class _State:
    """What the loop tells; only touched with the lock held. Each tick makes cards, seen and sources anew."""

    made: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    last: _LastTick | None = None
    cards: dict[str, Standing] = field(default_factory=dict)
    seen: dict[str, _Moment] = field(default_factory=dict)
    sources: dict[str, _Source] = field(default_factory=dict)
    conditions: dict[str, str] = field(default_factory=dict)


class Board:
    """The agent as ``gua status`` shows it. Every method may be called from any thread, and none blocks for long.

    ``destinations`` are (name, where) as people may read them: without passwords. ``started_ms`` is Unix time.
    ``spool`` is asked for each status, by the thread that asks; whatever GuaError it raises shows as a condition.
    """

    def __init__(  # noqa: PLR0913 - what an agent is, told once
        self,
        *,
        pid: int,
        version: str,
        host: str,
        started_ms: int,
        interval_ms: int,
        destinations: Sequence[tuple[str, str]],
        clock: Clock,
        spool: Callable[[], SpoolFigures],
        rules: Rules = _SHIPPED,
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
        self._rules = rules
        self._born = self._now()
        self._lock = threading.Lock()
        self._state = _State()
        self._destinations = {name: _Destination(name=name, where=where) for name, where in destinations}

    def ticked(self, tick: Tick, *, lateness_ms: int) -> None:
        """Take a tick that was made ``lateness_ms`` after its grid point."""
        now = self._now()
        with self._lock:
            state = self._state
            state.made += 1
            state.last = _LastTick(tick=tick, lateness_ms=lateness_ms, seen=now)
            state.cards = follow(state.cards, tick, self._rules)
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
        """Note that the last attempt to deliver came to its end; the spool counts the ticks."""
        with self._lock:
            self._destinations[destination].failing = False

    def failed(self, destination: str, message: str) -> None:
        """Note why the last attempt to deliver came to nothing."""
        now = self._now()
        with self._lock:
            known = self._destinations[destination]
            known.last_error = message[:_LONGEST_TEXT]
            known.last_error_time = now
            known.failing = True

    def note(self, key: str, text: str | None) -> None:
        """Show a standing condition (a full disk, a spool set aside) until it is taken back with ``None``."""
        with self._lock:
            if text is None:
                self._state.conditions.pop(key, None)
            else:
                self._state.conditions[key] = text[:_LONGEST_TEXT]

    def status(self) -> dict[str, Any]:
        """Return the status object "gua.status/1": times RFC 3339 UTC, ages in seconds, unknown as None."""
        figures = self._spool_figures()
        with self._lock:  # what is shown is put together after it: the loop must not wait for that
            now = self._now()
            state = replace(self._state, skipped=self._state.skipped.copy(), conditions=dict(self._state.conditions))
            destinations = [replace(one) for one in self._destinations.values()]
        uptime = self._age(self._born, now)
        age = None if state.last is None else self._age(state.last.seen, now)
        return {
            "schema": SCHEMA,
            "running": True,
            "stalled": (uptime if age is None else age) > STALLED_INTERVALS * self._interval_ms / 1000,
            "agent": {
                **self._agent,
                "uptime_seconds": uptime,
                "interval_seconds": self._interval_ms / 1000,
            },
            "last_tick": None if state.last is None else self._last_tick(state.last, now),
            "ticks": {"made": state.made, "skipped": dict(sorted(state.skipped.items()))},
            "spool": {
                "ticks": figures.ticks,
                "bytes": figures.bytes,
                "in_memory_ticks": figures.in_memory_ticks,
                "dropped_ticks": figures.dropped_ticks,
            },
            "destinations": [self._delivery(one, figures, now) for one in destinations],
            "errors": _errors(state.last),
            "conditions": list(dict.fromkeys(filter(None, [*state.conditions.values(), figures.trouble]))),
            "rules": {
                "active_utilization": self._rules.active_utilization,
                "held_memory_bytes": self._rules.held_memory_bytes,
                "held_memory_ratio": self._rules.held_memory_ratio,
            },
            "allocation_notes": [state.conditions[key] for key in ALLOCATION_NOTES if key in state.conditions],
            "allocation_sources": [self._source(name, source, now) for name, source in state.sources.items()],
            "cards": [
                card_status(one, self._rules, age_seconds=self._age(state.seen[one.card.uuid], now))
                for one in in_order(state.cards)
            ],
        }

    def _now(self) -> _Moment:
        return _Moment(wall_ms=self._clock.wall_ms(), monotonic_ms=self._clock.monotonic_ms())

    @staticmethod
    def _age(then: _Moment, now: _Moment) -> float:
        """Return the seconds since a moment, by the clock that passed more: the monotonic one stands in a suspend."""
        return max(now.monotonic_ms - then.monotonic_ms, now.wall_ms - then.wall_ms, 0) / 1000

    def _spool_figures(self) -> SpoolFigures:
        try:
            figures = self._spool()
        except GuaError as error:
            figures = SpoolFigures(ticks=None, bytes=None, in_memory_ticks=None, dropped_ticks=None, trouble=str(error))
        return replace(figures, trouble=figures.trouble and figures.trouble[:_LONGEST_TEXT])

    def _last_tick(self, last: _LastTick, now: _Moment) -> dict[str, Any]:
        return {
            "time": to_rfc3339(last.tick.ts_ms),
            "age_seconds": self._age(last.seen, now),
            "lateness_seconds": last.lateness_ms / 1000,
            "duration_seconds": last.tick.agent and last.tick.agent.tick_duration_seconds,
            "activity_cards": sum(card.sm_utilization is not None for card in last.tick.cards),
        }

    def _source(self, name: str, source: _Source, now: _Moment) -> dict[str, Any]:
        return {
            "source": name,
            "ok": source.reason is None,
            "reason": source.reason,
            "since": to_rfc3339(source.since.wall_ms),
            "seconds": self._age(source.since, now),
        }

    def _delivery(self, destination: _Destination, figures: SpoolFigures, now: _Moment) -> dict[str, Any]:
        name, error_time = destination.name, destination.last_error_time
        waiting, oldest_ms = figures.waiting.get(name), figures.oldest_ms.get(name)
        lag_ms = 0 if waiting == 0 else None if waiting is None or oldest_ms is None else now.wall_ms - oldest_ms
        delivered_ms = figures.delivered_ms.get(name)
        since = delivered_ms is not None and error_time is not None and delivered_ms > error_time.wall_ms
        return {
            "name": name,
            "where": destination.where,
            "failing": destination.failing and not since,
            "waiting_ticks": waiting,
            "lag_seconds": None if lag_ms is None else max(0, lag_ms) / 1000,
            "delivered_ticks": figures.delivered.get(name),
            "refused_ticks": figures.refused.get(name),
            "last_delivery": delivered_ms and to_rfc3339(delivered_ms),
            "last_delivery_age_seconds": delivered_ms and max(now.wall_ms - delivered_ms, 0) / 1000,
            "last_error": destination.last_error,
            "last_error_time": error_time and to_rfc3339(error_time.wall_ms),
        }


def _source(before: _Source | None, reason: str | None, now: _Moment) -> _Source:
    same = before is not None and (before.reason is None) is (reason is None)
    reason = None if reason is None else reason[:_LONGEST_TEXT]
    return _Source(reason=reason, since=before.since if before is not None and same else now)


def _errors(last: _LastTick | None) -> list[dict[str, Any]]:
    counts = () if last is None or last.tick.agent is None else last.tick.agent.errors
    most = sorted(counts, key=lambda error: (-error.count, error.call, error.code))[:_MOST_ERRORS]
    return [{"call": error.call, "code": error.code, "count": error.count} for error in most]
