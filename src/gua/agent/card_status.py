"""Current state of each card by the rules, and the start of its state interval.

Pure functions that carry the state from tick to tick. A state interval is known only across consecutive ticks. If it
may have begun earlier, its length is a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, NamedTuple

from gua.core.allocation import use
from gua.core.facts import CardFacts, TypeTotals, card_facts, ratio
from gua.core.moments import to_rfc3339
from gua.core.rules import Rules, State, Verdict, classify, process_state, without_process
from gua.core.tick import AllocationReading, CardReading, ProcessReading, Tick
from gua.core.untrusted import is_count, is_moment, is_number, is_row_of, object_in, objects_in, or_unknown, require
from gua.core.words import AllocationStatus, ProcessList, ProcessType, Relation, Use


def field_names(kind: type, *others: str) -> tuple[str, ...]:
    """Return the names of a dataclass's fields, except ``others``."""
    return tuple(each.name for each in fields(kind) if each.name not in others)


BREAK_INTERVALS: Final = 2
MISSED_TICKS: Final = 2
MOST_HOLDERS: Final = 64
MOST_ALLOCATIONS: Final = 64
_READ: Final = (
    "utilization",
    "utilization_max",
    "memory_used_bytes",
    "memory_limit_bytes",
    "memory_reserved_bytes",
)
_JUDGED: Final = ("held_lower_bytes", "held_upper_bytes", "threshold_bytes")
_PROCESS: Final = field_names(ProcessReading, "created_ms", "gpu_time_ms", "idle_ms")
_ALLOCATION: Final = field_names(AllocationReading, "relation", "duration_ms", "gpu_time_ms", "since_ms", "until_ms")
_FLAGS: Final = ("memory_shared", "failed")
_NUMBERS: Final = field_names(CardFacts, *_FLAGS, "process_list", "processes")
IDLE: Final = ("idle_seconds", "idle_is_lower_bound")
"""Keys of a card that are null unless it is idle-held or truly-idle."""
WITHOUT_PROCESS: Final = "without_process_seconds"
"""Key of a card: how long it has been active without a process and held memory; null if it is not."""
FREE: Final = ("free_since", "free_seconds", "free_is_lower_bound", "free_after")
"""Keys of a card that are null unless it is free."""
_is_amount: Final = or_unknown(is_count)
_is_totals: Final = is_row_of(is_count, is_count, is_count)


class UseSince(NamedTuple):
    """Use of an allocation, its start [Unix ms], and whether it may have begun earlier.

    While the use is unknown, ``known`` is the last known one. If that returns, its interval continues.
    """

    use: Use
    since_ms: int
    at_least: bool
    known: UseSince | None = None


class FreeSince(NamedTuple):
    """Start [Unix ms] of a card's free time (truly-idle and unallocated), and whether it may have begun earlier.

    ``after`` is the allocation whose end made the card free, ``None`` without one.
    """

    since_ms: int
    at_least: bool
    after: AllocationReading | None = None


class Since(NamedTuple):
    """Start [Unix ms] of an interval, and whether it may have begun earlier, in unobserved time."""

    since_ms: int
    at_least: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """A card as last read at ``ts_ms``, and the start of its ``state``.

    ``idle`` is the start of idle-held and truly-idle time together, ``without`` that of active time without a process,
    ``recovery`` that of the time in which the driver reports a recovery action; ``None`` while that is not so.
    ``uses`` are those of its current allocations, by source and id. ``free`` is ``None`` unless the card is free; it is
    retained while the allocation is unknown. ``missed`` counts the ticks since ``ts_ms``, all without this card.
    """

    card: CardReading
    facts: CardFacts
    verdict: Verdict
    ts_ms: int
    state: Since
    idle: Since | None = None
    without: Since | None = None
    recovery: Since | None = None
    uses: Mapping[tuple[str, str], UseSince] = field(default_factory=dict)
    free: FreeSince | None = None
    missed: int = 0


def follow(known: Mapping[str, Standing], tick: Tick, rules: Rules) -> dict[str, Standing]:
    """Return the cards after a tick, by UUID: those in it, and those that missed fewer than two ticks.

    A gap of more than two intervals before the tick's span ends a card's state interval. So does a span that overlaps
    the previous one, because the clock was set back.
    """
    now = {card.uuid: _standing(known.get(card.uuid), card, tick, rules) for card in tick.cards}
    after = {
        uuid: replace(standing, missed=standing.missed + 1)
        for uuid, standing in known.items()
        if uuid not in now and standing.missed + 1 < MISSED_TICKS
    }
    return after | now


def _standing(before: Standing | None, card: CardReading, tick: Tick, rules: Rules) -> Standing:
    facts = card_facts(card)
    verdict = classify(facts, rules)
    start_ms = tick.ts_ms - card.duration_ms
    longest_ms = BREAK_INTERVALS * tick.origin.interval_ms
    adjacent = before if before is not None and 0 <= start_ms - before.ts_ms <= longest_ms else None
    begun = Since(start_ms, adjacent is None)
    state, idle, without, recovery = begun, begun, begun, Since(start_ms, at_least=True)
    if adjacent is not None:
        state = adjacent.state if adjacent.verdict.state is verdict.state else begun
        idle, without = adjacent.idle or begun, adjacent.without or begun
        recovery = adjacent.recovery or Since(start_ms, adjacent.card.recovery_action != 0)
    now = Standing(
        card=card,
        facts=facts,
        verdict=verdict,
        ts_ms=tick.ts_ms,
        state=state,
        idle=idle if verdict.state in {State.IDLE_HELD, State.TRULY_IDLE} else None,
        without=without if without_process(facts, rules) else None,
        recovery=recovery if card.recovery_action else None,
        uses=dict(_uses(None if adjacent is None else adjacent.uses, card, tick.ts_ms, verdict.state)),
    )
    return replace(now, free=_free(adjacent, now))


def _free(before: Standing | None, now: Standing) -> FreeSince | None:
    """Return since when a card is free; ``before`` is ``None`` if the previous tick is unknown or not adjacent."""
    card, start_ms = now.card, now.ts_ms - now.card.duration_ms
    if now.verdict.state is not State.TRULY_IDLE or now.uses:
        return None
    lasting = before.free if before is not None and before.verdict.state is State.TRULY_IDLE else None
    if card.allocation is AllocationStatus.UNKNOWN:
        return lasting
    # No allocation covers the tick's end: all of them ended within the tick or with the previous one.
    ended = card.allocations or (() if before is None else _having(before))
    if ended:
        last = max(ended, key=lambda each: each.until_ms or 0)
        until_ms = start_ms if last.until_ms is None else last.until_ms
        return FreeSince(min(max(until_ms, start_ms), now.ts_ms), at_least=False, after=last)
    if lasting is not None:
        return lasting
    if now.state.since_ms < start_ms:  # truly-idle before, but whether it was allocated then is unknown
        return FreeSince(start_ms, at_least=True)
    return FreeSince(*now.state)


def _having(standing: Standing) -> list[AllocationReading]:
    """Return the allocations of the card at the end of its last tick."""
    return [each for each in standing.card.allocations if (each.source, each.id) in standing.uses]


def _uses(
    before: Mapping[tuple[str, str], UseSince] | None, card: CardReading, ts_ms: int, state: State
) -> Iterator[tuple[tuple[str, str], UseSince]]:
    """Yield the use of each allocation at the tick's end; ``before`` is ``None`` without an adjacent previous tick."""
    for each in card.allocations:
        if each.until_ms is not None and each.until_ms <= ts_ms:
            continue
        key, now = (each.source, each.id), use(state, each.relation)
        last = None if before is None else before.get(key)
        if last is not None and last.use is now:
            yield key, last
            continue
        known = last.known if last is not None and last.use is Use.UNKNOWN else last
        if known is not None and known.use is now:
            yield key, known
            continue
        start_ms = ts_ms - each.duration_ms
        is_older = each.since_ms is not None and each.since_ms < start_ms
        yield key, UseSince(now, start_ms, before is None and is_older, known if now is Use.UNKNOWN else None)


def in_order(known: Mapping[str, Standing]) -> list[Standing]:
    """Return cards by index, a partitioned card before its instances, cards without an index last."""
    return sorted(
        known.values(),
        key=lambda s: (s.card.index is None, s.card.index or 0, bool(s.card.parent), s.card.uuid),
    )


def card_status(standing: Standing, rules: Rules, *, age_seconds: float) -> dict[str, Any]:
    """Return one element of ``cards`` of "gua.status/1": bytes, ratios, watts, degrees and seconds; unknown is null.

    ``state_seconds`` ends at the card's last reading. The 64 largest holders are listed; ``holders_total`` counts all.
    ``allocation`` is null without a configured source. ``allocations`` are the current ones, 64 at most;
    ``allocations_total`` counts all. ``free_since`` is the start of truly-idle and, as far as known, unallocated time.
    ``free_after`` is the allocation that ended then. ``facts`` is the rules' input, for :func:`facts_of`.
    """
    card, verdict, allocations = standing.card, standing.verdict, _having(standing)
    free = None if card.allocation is AllocationStatus.UNKNOWN else standing.free
    return {
        **{name: getattr(card, name) for name in ("index", "uuid", "name", "mig", "parent")},
        "state": verdict.state,
        "reason": verdict.reason,
        "since": to_rfc3339(standing.state.since_ms),
        "state_seconds": _seconds(standing.state, standing),
        "state_is_lower_bound": standing.state.at_least,
        "idle_seconds": _seconds(standing.idle, standing),
        "idle_is_lower_bound": standing.idle is not None and standing.idle.at_least,
        WITHOUT_PROCESS: _seconds(standing.without, standing),
        "recovery_action": card.recovery_action,
        "recovery_seconds": _seconds(standing.recovery, standing),
        "recovery_is_lower_bound": standing.recovery is not None and standing.recovery.at_least,
        **{name: getattr(card, name) for name in _READ},
        **{name: getattr(verdict, name) for name in _JUDGED},
        "power_watts": card.power_watts,
        "temperature_celsius": card.temperature_celsius,
        "sample_age_seconds": age_seconds,
        "process_list": card.process_list,
        "holders": [_holder(process, rules) for process in _largest(card.processes)],
        "holders_total": len(card.processes),
        "allocation": card.allocation,
        "allocations": [_allocation(each, standing) for each in allocations[:MOST_ALLOCATIONS]],
        "allocations_total": len(allocations),
        "free_since": None if free is None else to_rfc3339(free.since_ms),
        "free_seconds": _seconds(free, standing),
        "free_is_lower_bound": None if free is None else free.at_least,
        "free_after": None
        if free is None or free.after is None
        else {name: getattr(free.after, name) for name in _ALLOCATION},
        "facts": facts_status(standing.facts),
    }


def _seconds(since: Since | FreeSince | UseSince | None, standing: Standing) -> float | None:
    return None if since is None else (standing.ts_ms - since.since_ms) / 1000


def _largest(processes: Sequence[ProcessReading]) -> list[ProcessReading]:
    """Return the listed processes: counted before ignored, unknown memory first, then by memory, largest first."""
    return sorted(
        processes,
        key=lambda p: (p.type is ProcessType.IGNORED, p.memory_bytes is not None, -(p.memory_bytes or 0), p.pid),
    )[:MOST_HOLDERS]


def _holder(process: ProcessReading, rules: Rules) -> dict[str, Any]:
    return {
        **{name: getattr(process, name) for name in _PROCESS},
        "state": process_state(ratio(process.utilization), rules),
        "idle_seconds": None if process.idle_ms is None else process.idle_ms / 1000,
        "since": None if process.created_ms is None else to_rfc3339(process.created_ms),
    }


def _allocation(allocation: AllocationReading, standing: Standing) -> dict[str, Any]:
    now = standing.uses[allocation.source, allocation.id]
    return {
        **{name: getattr(allocation, name) for name in _ALLOCATION},
        "since": _moment(allocation.since_ms),
        "until": _moment(allocation.until_ms),
        "allocated_seconds": None
        if allocation.since_ms is None
        else max(standing.ts_ms - allocation.since_ms, 0) / 1000,
        "relation": allocation.relation,
        "use": now.use,
        "use_since": to_rfc3339(now.since_ms),
        "use_seconds": _seconds(now, standing),
        "use_is_lower_bound": now.at_least,
    }


def _moment(unix_ms: int | None) -> str | None:
    return to_rfc3339(unix_ms) if is_moment(unix_ms) and unix_ms is not None else None


def facts_status(facts: CardFacts) -> dict[str, Any]:
    """Return facts as JSON values; utilizations in 1/10,000, ``processes`` as type: [count, bytes, unknown]."""
    return {
        **{name: getattr(facts, name) for name in (*_NUMBERS, *_FLAGS)},
        "process_list": facts.process_list,
        "processes": None
        if facts.processes is None
        else {kind: [total.count, total.memory_bytes, total.unknown] for kind, total in facts.processes.items()},
    }


def parse_facts(status: Mapping[str, Any]) -> CardFacts:
    """Return the facts in untrusted output of :func:`facts_status`. Raises ValueError if it is invalid."""
    processes = status.get("processes")
    is_known = all(_is_amount(status.get(name)) for name in _NUMBERS) and all(
        status.get(name) is None or isinstance(status[name], bool) for name in _FLAGS
    )
    are_totals = processes is None or (isinstance(processes, dict) and all(map(_is_totals, processes.values())))
    require(is_known and are_totals, "not the facts of a card")
    return CardFacts(
        **{name: status.get(name) for name in (*_NUMBERS, *_FLAGS)},
        process_list=ProcessList(str(status.get("process_list"))),
        processes=None
        if processes is None
        else {
            ProcessType(kind): TypeTotals(count=count, memory_bytes=memory_bytes, unknown=unknown)
            for kind, (count, memory_bytes, unknown) in processes.items()
        },
    )


def parse_rules(status: Mapping[str, Any]) -> Rules:
    """Return the rules in a status. Raises ValueError or UsageError if they are invalid."""
    rules: dict[str, Any] = {name: status.get(name) for name in field_names(Rules, "active_from")}
    are_numbers = all(map(is_number, rules.values())) and type(rules["held_memory_bytes"]) is int
    require(are_numbers, "not the rules")
    return Rules(**rules)


def reclassify(card: Mapping[str, Any], rules: Rules) -> dict[str, Any]:
    """Return an element of ``cards`` as reclassified by other rules.

    The start of the state is retained if the state is the same, else unknown. Raises ValueError if the card lacks the
    rules' input.
    """
    facts = card.get("facts")
    require(isinstance(facts, dict), "a card without facts")
    known_facts = parse_facts(object_in(facts))
    verdict = classify(known_facts, rules)
    judged = {
        **card,
        "state": verdict.state,
        "reason": verdict.reason,
        **{name: getattr(verdict, name) for name in _JUDGED},
    }
    if not without_process(known_facts, rules):
        judged[WITHOUT_PROCESS] = None
    if verdict.state != card.get("state"):
        judged |= dict.fromkeys(("since", "state_seconds", "state_is_lower_bound", *IDLE, *FREE))
    if "allocations" in card:  # absent in the status of agents from before allocations
        judged["allocations"] = allocations = [dict(each) for each in objects_in(card["allocations"])]
        for each in allocations:
            now = use(verdict.state, Relation(str(each.get("relation"))))
            if now != each.get("use"):
                each |= {"use": now, "use_since": None, "use_seconds": None, "use_is_lower_bound": None}
    return judged
