"""What every row of docs/reliability.md asserts of an agent's ticks, and how its rows read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from gua.core.facts import card_facts
from gua.core.rules import Rules, classify
from gua.core.tick import Tick
from servers.agent import assert_spans_never_overlap, wall_ms

INTERVAL_MS = 1_000


def assert_time_is_told_once(ticks: Sequence[Tick], began_ms: int) -> None:
    """Hold each card: spans never overlap, and their sum is no more than the time since ``began_ms`` (Unix ms)."""
    assert_spans_never_overlap(ticks)
    elapsed_ms = wall_ms() - began_ms
    for uuid in {card.uuid for tick in ticks for card in tick.cards}:
        observed_ms = sum(card.duration_ms for tick in ticks for card in tick.cards if card.uuid == uuid)
        assert observed_ms <= elapsed_ms, (uuid, observed_ms, elapsed_ms)


def assert_none_is_missing(ticks: Sequence[Tick], interval_ms: int = INTERVAL_MS, *, kept_waiting_ms: int = 0) -> None:
    """Hold the ticks of one process, from its start to its stop: one for each point of the grid, and no time between.

    The first tick and the last, which is made at the stop, are on no point of the grid. Where the machine kept the
    process waiting for a CPU, that may have cost it a tick for each interval of ``kept_waiting_ms``, and no more.
    """
    missing = 0
    for place, (before, after) in enumerate(pairwise(ticks)):
        apart = 1
        if 0 < place < len(ticks) - 2:
            apart = round((due_ms(after) - due_ms(before)) / interval_ms)
            assert apart >= 1, [due_ms(tick) for tick in ticks]
        # Two clocks that are read in turn may differ by a millisecond.
        hole_ms = max((after.ts_ms - card.duration_ms - before.ts_ms for card in after.cards), default=0)
        missing += max(apart - 1, hole_ms > 2)
    due = [due_ms(tick) for tick in ticks]
    assert missing <= kept_waiting_ms // interval_ms, f"{missing} ticks or spans missing; due {due}"


def assert_none_was_skipped(
    status: Mapping[str, Any], interval_ms: int = INTERVAL_MS, *, kept_waiting_ms: int = 0
) -> None:
    """Hold what an agent's status says of ticks that were due and not made to the same."""
    skipped = dict(status["ticks"]["skipped"])
    missed = skipped.pop("missed", 0)
    assert skipped == {}
    assert missed <= kept_waiting_ms // interval_ms, f"{missed} missed, kept waiting for {kept_waiting_ms} ms"


def due_ms(tick: Tick) -> float:
    """Return when a tick was due (Unix ms), to a few milliseconds: it has its lateness and duration."""
    assert tick.agent is not None
    late_s = (tick.agent.tick_lateness_seconds or 0) + (tick.agent.tick_duration_seconds or 0)
    return tick.ts_ms - 1000 * late_s


def states(tick: Tick) -> list[str]:
    """Return each card's state, in the order of the tick; with the reason where it is unknown."""
    verdicts = [classify(card_facts(card), Rules()) for card in tick.cards]
    return [verdict.state.value + (f" {verdict.reason}" if verdict.reason else "") for verdict in verdicts]


def counted(tick: Tick) -> dict[str, int]:
    """Return how often each call failed, as ``CALL CODE``, since the agent started."""
    assert tick.agent is not None
    return {f"{error.call} {error.code}": error.count for error in tick.agent.errors}
