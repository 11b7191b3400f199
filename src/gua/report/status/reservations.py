"""Reservations of this moment beside cards of the last tick: what was reserved or given back since then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gua.core.durations import to_rfc3339
from gua.core.untrusted import is_moment, list_in, objects_in
from gua.core.words import AllocationStatus

SOURCE: Final = "gua"
NEW: Final = "new"
"""The use of a reservation that began after the last tick."""


def cards_now(status: Mapping[str, Any], now_ms: int) -> list[Mapping[str, Any]]:
    """Return the cards of a status object as far as reservations go with those of now, Unix ms."""
    cards = objects_in(status.get("cards"))
    if not isinstance(status.get("reservations"), list):
        return list(cards)
    reservations = objects_in(status["reservations"])
    return [_now(card, [one for one in reservations if _has(one, card)], now_ms) for card in cards]


def _has(reservation: Mapping[str, Any], card: Mapping[str, Any]) -> bool:
    """Return whether a reservation has a card, or the GPU that it is a part of."""
    cards = list_in(reservation.get("cards"))
    return any(uuid in cards for uuid in (card.get("uuid"), card.get("parent")) if isinstance(uuid, str))


def _now(card: Mapping[str, Any], reservations: Sequence[Mapping[str, Any]], now_ms: int) -> Mapping[str, Any]:
    told = objects_in(card.get("allocations"))
    ids = [one.get("id") for one in reservations]
    there = [one for one in told if one.get("source") != SOURCE or one.get("id") in ids]
    known = [one.get("id") for one in there if one.get("source") == SOURCE]
    new = [_new(one, now_ms) for one in reservations if one.get("id") not in known]
    if not new and len(there) == len(told):
        return card
    ended = len(told) - len(there)
    total = card.get("allocations_total")
    return {
        **{name: value for name, value in card.items() if not name.startswith("free_")},
        # Of a card that was given back a moment ago the next tick tells what it is.
        "allocation": AllocationStatus.ALLOCATED if there or new else None,
        "allocations": [*there, *new],
        "allocations_total": (total if isinstance(total, int) else len(told)) - ended + len(new),
    }


def _new(reservation: Mapping[str, Any], now_ms: int) -> dict[str, Any]:
    since_ms, until_ms = reservation.get("since_ms"), reservation.get("until_ms")
    return {
        "source": SOURCE,
        **{name: reservation.get(name) for name in ("id", "owner", "uid", "kind", "workload_kind", "workload_model")},
        "until": to_rfc3339(until_ms) if isinstance(until_ms, int) and is_moment(until_ms) else None,
        "allocated_seconds": max(0, now_ms - since_ms) / 1000 if isinstance(since_ms, int) else None,
        "use": NEW,
    }
