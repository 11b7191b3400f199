"""What every row of docs/reliability.md asserts of an agent's ticks, and how its rows read them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from gpu_usage_audit.core.facts import card_facts
from gpu_usage_audit.core.rules import Rules, classify
from gpu_usage_audit.core.tick import Tick
from servers.agent import assert_spans_never_overlap, wall_ms

INTERVAL_MS = 1_000


def assert_time_is_told_once(ticks: Sequence[Tick], began_ms: int) -> None:
    """Hold each card: spans never overlap, and their sum is no more than the time since ``began_ms`` (Unix ms)."""
    assert_spans_never_overlap(ticks)
    elapsed_ms = wall_ms() - began_ms
    for uuid in {card.uuid for tick in ticks for card in tick.cards}:
        observed_ms = sum(card.duration_ms for tick in ticks for card in tick.cards if card.uuid == uuid)
        assert observed_ms <= elapsed_ms, (uuid, observed_ms, elapsed_ms)


def assert_none_is_missing(ticks: Sequence[Tick], interval_ms: int = INTERVAL_MS) -> None:
    """Hold the ticks to the grid: one in each interval, each covering all of the time since the one before."""
    for before, after in pairwise(ticks):
        apart_ms = after.ts_ms - before.ts_ms
        assert apart_ms < 1.9 * interval_ms, f"{apart_ms} ms between two ticks"
        for card in after.cards:
            # Two clocks that are read in turn may differ by a millisecond.
            assert apart_ms - card.duration_ms <= 2, f"{apart_ms - card.duration_ms} ms that no tick covers"


def states(tick: Tick) -> list[str]:
    """Return each card's state, in the order of the tick; with the reason where it is unknown."""
    verdicts = [classify(card_facts(card), Rules()) for card in tick.cards]
    return [verdict.state.value + (f" {verdict.reason}" if verdict.reason else "") for verdict in verdicts]


def counted(tick: Tick) -> dict[str, int]:
    """Return how often each call failed, as ``CALL CODE``, since the agent started."""
    assert tick.agent is not None
    return {f"{error.call} {error.code}": error.count for error in tick.agent.errors}
