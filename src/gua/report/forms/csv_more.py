"""The rows of the sections beyond the first ones, for CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gua.core.durations import to_rfc3339
from gua.report import section_names
from gua.report.kit.csv_values import Cell, Section, hours_of, of_states, seconds_of, state_columns
from gua.report.kit.figures import BYTES_PER_GB
from gua.report.kit.json_values import time
from gua.report.model import Report
from gua.report.states import MS_PER_HOUR, STATES, share


def _now(report: Report) -> Iterator[Sequence[Cell]]:
    if report.now is None:
        return
    for one in report.now.holders:
        wasted = one.wasted_byte_ms
        yield (
            "holder",
            one.host,
            one.gpu,
            one.index,
            one.card_name,
            one.card_state,
            to_rfc3339(one.as_of_ms),
            one.owner,
            one.program,
            one.pid,
            time(one.created_ms),
            one.memory_bytes,
            to_rfc3339(one.idle_since_ms),
            seconds_of(one.idle_ms),
            one.is_at_least,
            one.is_alone,
            seconds_of(one.active_24h_ms),
            hours_of(one.wasted_gpu_ms),
            None if wasted is None else wasted / BYTES_PER_GB / MS_PER_HOUR,
            one.container_id,
            one.pod_uid,
            one.slurm_job_id,
            one.systemd_unit,
            None,
        )
    for card in report.now.free:
        yield (
            "free card",
            card.host,
            card.gpu,
            card.index,
            card.card_name,
            "truly-idle",
            to_rfc3339(card.as_of_ms),
            *[None] * 5,
            to_rfc3339(card.free_since_ms),
            seconds_of(card.free_ms),
            card.is_at_least,
            *[None] * 8,
            card.usual,
        )


def _streaks(report: Report) -> Iterator[Sequence[Cell]]:
    for one in report.streaks.classes if report.streaks else ():
        yield (
            seconds_of(one.longer_than_ms),
            one.episodes,
            one.holders,
            hours_of(one.idle_ms),
            hours_of(one.idle_held_gpu_ms),
        )


def _what_if(report: Report) -> Iterator[Sequence[Cell]]:
    for one in report.streaks.what_if if report.streaks else ():
        yield seconds_of(one.limit_ms), hours_of(one.gpu_ms), one.reclaims, one.holders, one.false_alarms


def _contention(report: Report) -> Iterator[Sequence[Cell]]:
    for one in report.contention:
        yield (
            "all cards" if one.host is None else "host",
            one.host,
            one.cards,
            one.share,
            hours_of(one.contended_ms),
            hours_of(one.free_ms),
            hours_of(one.busy_ms),
            hours_of(one.unknown_ms),
            hours_of(one.contended_gpu_ms),
        )


def _money(report: Report) -> Iterator[Sequence[Cell]]:
    for cost in report.money.costs if report.money else ():
        for state in STATES:
            yield (
                cost.model,
                cost.currency,
                state,
                hours_of(cost.gpu_ms.get(state, 0)),
                None if cost.currency is None else cost.cost.get(state, 0),
                hours_of(cost.unpriced_gpu_ms.get(state, 0)),
            )


def _energy(report: Report) -> Iterator[Sequence[Cell]]:
    for card in report.energy.cards if report.energy else ():
        for state, part in card.states.items():
            yield (
                card.host,
                card.gpu,
                card.index,
                card.model,
                state,
                part.measured_joules,
                seconds_of(part.measured_ms),
                part.estimated_joules,
                seconds_of(part.estimated_ms),
                seconds_of(part.unknown_ms),
                card.bare_watts,
                card.held_watts,
                card.added_joules,
            )


def _week(report: Report) -> Iterator[Sequence[Cell]]:
    for one in report.week:
        yield one.weekday, one.hour, *of_states(one.states), *(share(one.states, state) for state in STATES)


def _days(report: Report) -> Iterator[Sequence[Cell]]:
    for one in report.days:
        yield one.date, one.seconds, *of_states(one.states), *(share(one.states, state) for state in STATES)


def _before(report: Report) -> Iterator[Sequence[Cell]]:
    found = report.before
    if found is None:
        return
    window = report.window
    for name, since_ms, until_ms, states in (
        ("this", window.since_ms, window.until_ms, report.headline.states),
        ("before", found.since_ms, found.until_ms, found.states),
    ):
        shares = (share(states, state) for state in STATES)
        yield name, to_rfc3339(since_ms), to_rfc3339(until_ms), *of_states(states), *shares


def _timeline(report: Report) -> Iterator[Sequence[Cell]]:
    found = report.timeline
    if found is None:
        return
    for card in found.cards:
        for place, cell in enumerate(card.cells):
            begin_ms = found.since_ms + place * found.cell_ms
            yield card.host, card.gpu, card.index, to_rfc3339(begin_ms), *map(seconds_of, cell)


SECTIONS: Final[dict[str, Section]] = {
    section_names.NOW: (
        (
            "kind",
            "host",
            "gpu",
            "index",
            "card_name",
            "card_state",
            "as_of",
            "owner",
            "program",
            "pid",
            "created",
            "memory_bytes",
            "since",
            "for_seconds",
            "is_at_least",
            "is_alone",
            "active_24h_seconds",
            "wasted_gpu_hours",
            "wasted_gigabyte_hours",
            "container_id",
            "pod_uid",
            "slurm_job_id",
            "systemd_unit",
            "usual",
        ),
        _now,
    ),
    section_names.STREAKS: (
        ("longer_than_seconds", "episodes", "holders", "idle_hours", "idle_held_gpu_hours"),
        _streaks,
    ),
    section_names.WHAT_IF: (("limit_seconds", "gpu_hours", "reclaims", "holders", "false_alarms"), _what_if),
    section_names.CONTENTION: (
        (
            "of",
            "host",
            "cards",
            "contended_share",
            "contended_hours",
            "free_hours",
            "busy_hours",
            "unknown_hours",
            "contended_gpu_hours",
        ),
        _contention,
    ),
    section_names.MONEY: (("model", "currency", "state", "gpu_hours", "cost", "unpriced_gpu_hours"), _money),
    section_names.ENERGY: (
        (
            "host",
            "gpu",
            "index",
            "model",
            "state",
            "measured_joules",
            "measured_seconds",
            "estimated_joules",
            "estimated_seconds",
            "unknown_seconds",
            "card_bare_watts",
            "card_held_watts",
            "card_added_joules",
        ),
        _energy,
    ),
    section_names.WEEK: (
        ("weekday_from_monday_0", "hour", *state_columns("gpu_hours"), *state_columns("share")),
        _week,
    ),
    section_names.DAYS: (("date", "seconds", *state_columns("gpu_hours"), *state_columns("share")), _days),
    section_names.BEFORE: (("window", "since", "until", *state_columns("gpu_hours"), *state_columns("share")), _before),
    section_names.TIMELINE: (("host", "gpu", "index", "cell_begin", *state_columns("seconds")), _timeline),
}
