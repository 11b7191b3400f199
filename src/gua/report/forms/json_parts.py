"""What the sections beyond the first ones say as JSON: docs/report-json.md has every key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gua.core.durations import to_rfc3339
from gua.report import section_names
from gua.report.kit.figures import BYTES_PER_GB
from gua.report.kit.json_values import Json, hours, number, ratio, seconds, states_of, time
from gua.report.model import Report
from gua.report.sections.energy.model import CardEnergy
from gua.report.sections.headline.model import LONG_STREAK_MS
from gua.report.sections.now.model import FreeCard, Holder
from gua.report.sections.streaks.model import FALSE_ALARM_MS
from gua.report.sections.timeline.model import CardTimeline
from gua.report.sections.usage.model import Party
from gua.report.states import (
    ACTIVE,
    IDLE_HELD,
    MS_PER_HOUR,
    STATES,
    TRULY_IDLE,
    UNKNOWN,
    StateTime,
    observed_ms,
)


def idle_held(report: Report) -> Json | None:
    """Return what the idle-held hours are made of, ``None`` where that was not looked at."""
    split = report.idle_split
    if split is None:
        return None
    total = observed_ms(report.headline.states)

    def part(gpu_ms: float, long_gpu_ms: float | None) -> Json:
        return {
            "gpu_hours": hours(gpu_ms),
            "share": ratio(gpu_ms / total) if total else None,
            "gpu_hours_in_long_streaks": None if long_gpu_ms is None else hours(long_gpu_ms),
        }

    return {
        "never_used": part(split.never_used_gpu_ms, split.never_used_long_gpu_ms),
        "low": part(split.low_gpu_ms, split.low_long_gpu_ms),
        "not_told": part(split.unknown_gpu_ms, None),
        "gpu_hours_in_long_streaks": hours(split.long_gpu_ms),
        "long_streak_seconds": LONG_STREAK_MS // 1000,
    }


def now(report: Report) -> Json | None:
    """Return who is idle at this moment, and which cards are free."""
    found = report.now
    if found is None:
        return None
    return {
        "as_of": to_rfc3339(found.as_of_ms),
        "cards": {
            ACTIVE: found.active_cards,
            IDLE_HELD: found.idle_held_cards,
            TRULY_IDLE: found.free_cards,
            UNKNOWN: found.unknown_cards,
            "silent": found.silent_cards,
        },
        "holders": [_holder(one) for one in found.holders],
        "free": [_free(one) for one in found.free],
    }


def _holder(one: Holder) -> Json:
    wasted = one.wasted_byte_ms
    return {
        "host": one.host,
        "gpu": one.gpu,
        "index": one.index,
        "card_name": one.card_name,
        "card_state": one.card_state,
        "as_of": to_rfc3339(one.as_of_ms),
        "owner": one.owner,
        "program": one.program,
        "pid": one.pid,
        "created": time(one.created_ms),
        "memory_bytes": one.memory_bytes,
        "idle_since": to_rfc3339(one.idle_since_ms),
        "idle_seconds": seconds(one.idle_ms),
        "is_at_least": one.is_at_least,
        "is_alone": one.is_alone,
        "active_24h_seconds": seconds(one.active_24h_ms),
        "wasted_gpu_hours": hours(one.wasted_gpu_ms),
        "wasted_gigabyte_hours": None if wasted is None else ratio(wasted / BYTES_PER_GB / MS_PER_HOUR),
        "container_id": one.container_id,
        "pod_uid": one.pod_uid,
        "slurm_job_id": one.slurm_job_id,
        "systemd_unit": one.systemd_unit,
    }


def _free(one: FreeCard) -> Json:
    return {
        "host": one.host,
        "gpu": one.gpu,
        "index": one.index,
        "card_name": one.card_name,
        "as_of": to_rfc3339(one.as_of_ms),
        "free_since": to_rfc3339(one.free_since_ms),
        "free_seconds": seconds(one.free_ms),
        "is_at_least": one.is_at_least,
        "usual": ratio(one.usual),
    }


def parties(report: Report) -> list[Json]:
    """Return the owners, programs, … that were asked for."""
    return [{"by": each.by, "rows": [_party(row) for row in each.rows]} for each in report.parties]


def _party(row: Party) -> Json:
    by_state = {ACTIVE: row.active_gpu_ms, IDLE_HELD: row.idle_held_gpu_ms, UNKNOWN: row.unknown_gpu_ms}
    return {
        "kind": row.kind,
        "name": row.name,
        "gpu_hours": hours(row.gpu_ms),
        "share": ratio(row.share),
        "unsplit_gpu_hours": hours(row.unsplit_ms),
        "longest_idle_seconds": seconds(row.longest_idle_ms),
        "sessions": row.sessions,
        "first_seen": time(row.first_ms),
        "last_seen": time(row.last_ms),
        "states": states_of({state: StateTime(gpu_ms=by_state.get(state, 0)) for state in STATES}),
    }


def streaks(report: Report) -> Json | None:
    """Return how long idle episodes are."""
    found = report.streaks
    if found is None:
        return None
    return {
        "classes": [
            {
                "longer_than_seconds": seconds(one.longer_than_ms),
                "episodes": one.episodes,
                "holders": one.holders,
                "idle_hours": hours(one.idle_ms),
                "idle_held_gpu_hours": hours(one.idle_held_gpu_ms),
            }
            for one in found.classes
        ],
        "unknown_gpu_hours": hours(found.unknown_gpu_ms),
    }


def what_if(report: Report) -> Json | None:
    """Return what rules that reclaim cards would give back."""
    found = report.streaks
    if found is None:
        return None
    return {
        "limits": [
            {
                "limit_seconds": seconds(one.limit_ms),
                "gpu_hours": hours(one.gpu_ms),
                "reclaims": one.reclaims,
                "holders": one.holders,
                "false_alarms": one.false_alarms,
            }
            for one in found.what_if
        ],
        "false_alarm_seconds": FALSE_ALARM_MS // 1000,
        "unknown_gpu_hours": hours(found.unknown_gpu_ms),
    }


def contention(report: Report) -> list[Json]:
    """Return what somebody in want of a card found, for each host and all cards."""
    return [
        {
            "host": one.host,
            "cards": one.cards,
            "share": ratio(one.share),
            "contended_hours": hours(one.contended_ms),
            "free_hours": hours(one.free_ms),
            "busy_hours": hours(one.busy_ms),
            "unknown_hours": hours(one.unknown_ms),
            "contended_gpu_hours": hours(one.contended_gpu_ms),
        }
        for one in report.contention
    ]


def money(report: Report) -> Json | None:
    """Return costs and the prices they were made with."""
    found = report.money
    if found is None:
        return None
    return {
        "costs": [
            {
                "model": cost.model,
                "currency": cost.currency,
                "states": {
                    state: {
                        "gpu_hours": hours(cost.gpu_ms.get(state, 0)),
                        "cost": None if cost.currency is None else number(cost.cost.get(state, 0)),
                        "unpriced_gpu_hours": hours(cost.unpriced_gpu_ms.get(state, 0)),
                    }
                    for state in STATES
                },
            }
            for cost in found.costs
        ],
        "prices": [
            {
                "model": price.model,
                "currency": price.currency,
                "per_gpu_hour": number(price.per_gpu_hour),
                "valid_from": to_rfc3339(price.valid_from_ms),
                "source": price.source,
            }
            for price in found.prices
        ],
    }


def energy(report: Report) -> Json | None:
    """Return each card's energy."""
    return None if report.energy is None else {"cards": [_card_energy(card) for card in report.energy.cards]}


def _card_energy(card: CardEnergy) -> Json:
    return {
        "host": card.host,
        "gpu": card.gpu,
        "index": card.index,
        "model": card.model,
        "states": {
            state: {
                "measured_joules": number(part.measured_joules),
                "measured_seconds": seconds(part.measured_ms),
                "estimated_joules": number(part.estimated_joules),
                "estimated_seconds": seconds(part.estimated_ms),
                "unknown_seconds": seconds(part.unknown_ms),
            }
            for state, part in card.states.items()
        },
        "bare_watts": ratio(card.bare_watts),
        "held_watts": ratio(card.held_watts),
        "added_joules": ratio(card.added_joules),
    }


def week(report: Report) -> list[Json]:
    """Return the hours of the week."""
    return [{"weekday": one.weekday, "hour": one.hour, "states": states_of(one.states)} for one in report.week]


def days(report: Report) -> list[Json]:
    """Return the days."""
    return [{"date": one.date, "seconds": one.seconds, "states": states_of(one.states)} for one in report.days]


def before(report: Report) -> Json | None:
    """Return the window before."""
    found = report.before
    if found is None:
        return None
    coverage = found.coverage
    return {
        "since": to_rfc3339(found.since_ms),
        "until": to_rfc3339(found.until_ms),
        "coverage": None
        if coverage is None
        else {
            "expected_gpu_hours": hours(coverage.expected_gpu_ms),
            "observed_gpu_hours": hours(coverage.observed_gpu_ms),
            "unobserved_gpu_hours": hours(coverage.unobserved_gpu_ms),
            "ratio": ratio(coverage.ratio),
            "gaps": coverage.gaps,
        },
        "states": states_of(found.states),
    }


def timeline(report: Report) -> Json | None:
    """Return each card's states over time."""
    found = report.timeline
    if found is None:
        return None
    return {
        "since": to_rfc3339(found.since_ms),
        "until": to_rfc3339(found.until_ms),
        "cell_seconds": seconds(found.cell_ms),
        "states": list(STATES),
        "cards": [_card_timeline(card) for card in found.cards],
    }


def _card_timeline(card: CardTimeline) -> Json:
    return {
        "host": card.host,
        "gpu": card.gpu,
        "index": card.index,
        "card_name": card.card_name,
        "cells": [[seconds(part) for part in cell] for cell in card.cells],
        "holders": [
            {
                "owner": one.owner,
                "program": one.program,
                "pid": one.pid,
                "since": to_rfc3339(one.since_ms),
                "until": to_rfc3339(one.until_ms),
                "idle_seconds": seconds(one.idle_ms),
                "unknown_seconds": seconds(one.unknown_ms),
            }
            for one in card.holders
        ],
        "more_holders": card.more_holders,
    }


PARTS: Final[dict[str, tuple[str, Callable[[Report], object]]]] = {
    section_names.NOW: ("now", now),
    section_names.WHO: ("parties", parties),
    section_names.STREAKS: ("streaks", streaks),
    section_names.WHAT_IF: ("what_if", what_if),
    section_names.CONTENTION: ("contention", contention),
    section_names.MONEY: ("money", money),
    section_names.ENERGY: ("energy", energy),
    section_names.WEEK: ("week", week),
    section_names.DAYS: ("days", days),
    section_names.BEFORE: ("before", before),
    section_names.TIMELINE: ("timeline", timeline),
}
"""Each section's key and what stands under it."""
