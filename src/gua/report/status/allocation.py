"""Allocations of cards in words, from an untrusted status object.

Allocations are those of the last tick; :func:`cards_now` adds later reservations and removes ended ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from gua.core.durations import to_rfc3339
from gua.core.plaintext import cells
from gua.core.rules import State
from gua.core.untrusted import is_moment, list_in, number_in, object_in, objects_in, text_in
from gua.core.words import AllocationStatus, Use
from gua.report.kit import figures
from gua.report.kit.figures import NONE, plural
from gua.report.kit.style import Style
from gua.report.kit.words import COMMANDS, GUA

WORST_FIRST: Final = (Use.EMPTY, Use.USED_BY_OTHERS, Use.UNKNOWN, Use.HELD, Use.USED)
_LONGEST: Final = 40
_LONGEST_REASON: Final = 160
_MOST_SOURCES: Final = 8
NEW: Final = "new"
"""The use of a reservation that began after the last tick."""


def span(seconds: float | None) -> str:
    """Return a duration as text: ``4ms``, ``12s``, ``3h 12m``, ``2d 4h``; rounded down."""
    if seconds is None:
        return NONE
    return f"{int(seconds * 1000)}ms" if seconds < 1 else figures.span(seconds * 1000)


def lasting(seconds: float | None, style: Style, *, is_lower_bound: object) -> str:
    """Return a duration as text, with ≥ if it is a lower bound; a missing flag means none."""
    mark = ("≥" if style.unicode else ">=") if is_lower_bound is True and seconds is not None else ""
    return mark + span(seconds)


def sources_in_words(status: Mapping[str, Any], style: Style) -> str | None:
    """Return the allocation sources and their health; ``None`` if the agent does not report them."""
    if not isinstance(status.get("allocation_sources"), list):
        return None
    sources = objects_in(status["allocation_sources"])
    return "; ".join(_source(source, style) for source in sources[:_MOST_SOURCES]) or "not looked at"


def _source(source: Mapping[str, Any], style: Style) -> str:
    name = style.name(text_in(source.get("source")) or NONE, _LONGEST)
    if source.get("ok") is True:
        return f"{name} ok"
    reason = style.name(text_in(source.get("reason")) or NONE, _LONGEST_REASON)
    return f"{name} failed for {span(number_in(source.get('seconds')))}: {reason}"


def allocation_in_words(card: Mapping[str, Any], style: Style, width: int) -> str:
    """Return a card's allocations and their use within ``width`` columns; empty if allocation is off.

    For an unallocated card: how long it is free if that is shorter than its idle time, or that it is in use.
    """
    free = _free(card, style)
    if free:
        return free
    match card.get("allocation"):
        case AllocationStatus.ALLOCATED:
            return _fitting(objects_in(card.get("allocations")), number_in(card.get("allocations_total")), style, width)
        case AllocationStatus.UNKNOWN:
            return "allocation unknown"
        case AllocationStatus.UNALLOCATED if card.get("state") in {State.ACTIVE, State.IDLE_HELD}:
            return "unallocated"
    return ""


def _free(card: Mapping[str, Any], style: Style) -> str:
    """Return how long a card is free, and its previous owner; empty if that equals the time in its state."""
    seconds, state_seconds = number_in(card.get("free_seconds")), number_in(card.get("state_seconds"))
    if seconds is None or state_seconds is None or seconds >= state_seconds:
        return ""
    owner = owner_of(object_in(card.get("free_after")))
    before = "" if owner is None else f", before that allocated to {style.name(owner, _LONGEST)}"
    return f"free for {lasting(seconds, style, is_lower_bound=card.get('free_is_lower_bound'))}{before}"


def _fitting(allocations: Sequence[Mapping[str, Any]], total: float | None, style: Style, width: int) -> str:
    """Return the allocations that fit, the worst use first, and the number of the rest."""
    ordered = sorted(allocations, key=rank)
    count = max(int(total or 0), len(ordered))
    if not ordered:
        return "allocated, and just released" if not count else f"allocated {plural(count, 'time')}"
    long, short, shortest = ([_allocation(each, style, words=words) for each in ordered] for words in (3, 2, 1))
    for parts in (long, *(short[:shown] for shown in range(len(short), 0, -1)), shortest[:1]):
        more = f" and {count - len(parts)} more" if count > len(parts) else ""
        line = f"allocated to {'; '.join(parts)}{more}"
        if cells(line) <= width:
            return line
    return style.name(f"allocated to {shortest[0]}", width)


def rank(allocation: Mapping[str, Any]) -> int:
    """Return an allocation's sort key: the worst use first."""
    used = allocation.get("use")
    return WORST_FIRST.index(used) if isinstance(used, str) and used in WORST_FIRST else len(WORST_FIRST)


def _allocation(allocation: Mapping[str, Any], style: Style, *, words: int) -> str:
    """Return an allocation with source, job and end (``words`` 3), with source and end (2), or owner alone (1)."""
    source, identity, job = (text_in(allocation.get(name)) for name in ("source", "id", "job_name"))
    owner = owner_of(allocation)
    command = COMMANDS.get(str(allocation.get("kind"))) if source == GUA else None
    named = command or style.name(source or NONE, _LONGEST)
    named += f" {style.name(identity, _LONGEST)}" if identity and identity != owner and not command else ""
    named += f", {style.name(job, _LONGEST)}" if job and words == 3 else ""
    model = text_in(allocation.get("workload_model"))
    named += f", for {style.name(model, _LONGEST)}" if model and words == 3 else ""
    named += _until(allocation.get("until")) if words > 1 else ""
    ago = span(number_in(allocation.get("allocated_seconds")))
    by = f" ({named})" if words > 1 else ""
    return f"{style.name(owner or '?', _LONGEST)}{by} {ago} ago, {use_in_words(allocation, style)}"


def _until(moment: object) -> str:
    """Return an allocation's end in local time, with the date if it is not today."""
    try:
        until = datetime.fromisoformat(str(moment)).astimezone()
        today = datetime.now(UTC).astimezone().date()
    except (ValueError, OverflowError):
        return ""
    return f", until {until:{'%H:%M' if until.date() == today else '%Y-%m-%d %H:%M'}}"


def owner_of(allocation: Mapping[str, Any]) -> str | None:
    """Return the owner of an allocation: a user, else a pod, else a user id."""
    pod = text_in(allocation.get("pod_name"))
    namespace = text_in(allocation.get("pod_namespace"))
    uid = number_in(allocation.get("uid"))
    owner = text_in(allocation.get("owner")) or (pod and (f"{namespace}/{pod}" if namespace else pod))
    return owner or (None if uid is None else f"{uid:.0f}")


def use_in_words(allocation: Mapping[str, Any], style: Style) -> str:
    """Return the use of an allocation and its duration: ``empty for 1h 5m``."""
    used = allocation.get("use")
    if used == NEW:
        return "newer than the last tick"
    if used not in WORST_FIRST or used == Use.UNKNOWN:
        return "use unknown"
    seconds, is_lower_bound = number_in(allocation.get("use_seconds")), allocation.get("use_is_lower_bound")
    length = "" if seconds is None else f" for {lasting(seconds, style, is_lower_bound=is_lower_bound)}"
    return str(used).replace("-", " ") + length


def cards_now(status: Mapping[str, Any], now_ms: int) -> list[Mapping[str, Any]]:
    """Return the status object's cards with the reservations as of ``now_ms`` (Unix ms)."""
    cards = objects_in(status.get("cards"))
    if not isinstance(status.get("reservations"), list):
        return list(cards)
    reservations = objects_in(status["reservations"])
    return [_now(card, [one for one in reservations if _has(one, card)], now_ms) for card in cards]


def _has(reservation: Mapping[str, Any], card: Mapping[str, Any]) -> bool:
    """Return whether a reservation has the card or its parent GPU."""
    cards = list_in(reservation.get("cards"))
    return any(uuid in cards for uuid in (card.get("uuid"), card.get("parent")) if isinstance(uuid, str))


def _now(card: Mapping[str, Any], reservations: Sequence[Mapping[str, Any]], now_ms: int) -> Mapping[str, Any]:
    allocations = objects_in(card.get("allocations"))
    ids = [one.get("id") for one in reservations]
    there = [one for one in allocations if one.get("source") != GUA or one.get("id") in ids]
    known = [one.get("id") for one in there if one.get("source") == GUA]
    new = [_new(one, now_ms) for one in reservations if one.get("id") not in known]
    if not new and len(there) == len(allocations):
        return card
    ended = len(allocations) - len(there)
    total = card.get("allocations_total")
    return {
        **{name: value for name, value in card.items() if not name.startswith("free_")},
        # Unknown until the next tick for a card whose reservation just ended.
        "allocation": AllocationStatus.ALLOCATED if there or new else None,
        "allocations": [*there, *new],
        "allocations_total": (total if isinstance(total, int) else len(allocations)) - ended + len(new),
    }


def _new(reservation: Mapping[str, Any], now_ms: int) -> dict[str, Any]:
    """Return a reservation that began after the last tick, as an allocation of the card."""
    since_ms, until_ms = reservation.get("since_ms"), reservation.get("until_ms")
    return {
        "source": GUA,
        **{name: reservation.get(name) for name in ("id", "owner", "uid", "kind", "workload_kind", "workload_model")},
        "until": to_rfc3339(until_ms) if isinstance(until_ms, int) and is_moment(until_ms) else None,
        "allocated_seconds": max(0, now_ms - since_ms) / 1000 if isinstance(since_ms, int) else None,
        "use": NEW,
    }
