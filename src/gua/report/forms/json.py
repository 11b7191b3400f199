"""The report as one JSON object, schema ``gua.report/1``: keys are added, never changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from gua.core.durations import to_rfc3339
from gua.report import section_names
from gua.report.forms.json_parts import PARTS, idle_held
from gua.report.forms.warnings import shortened
from gua.report.kit.json_values import Json, hours, number, ratio, seconds, states_of, time
from gua.report.model import Card, Claimant, Group, Identity, Report
from gua.report.states import IDLE_HELD, TRULY_IDLE

SCHEMA: Final = "gua.report/1"


def render_json(report: Report) -> str:
    """Return the report as JSON text: hours, shares and ratios as numbers, times RFC 3339 in UTC, unknown ``null``.

    A line for each key, and for each row of a section: ``indent`` would take the encoder that is written in Python,
    which makes the report of a large fleet wait for its text (``bench/bench_names.py``).
    """
    return "{\n" + ",\n".join(f"  {_text(key)}: {_value(value)}" for key, value in to_json(report).items()) + "\n}\n"


def _value(value: object) -> str:
    if not isinstance(value, list) or not any(isinstance(row, dict) for row in value):
        return _text(value)
    return "[\n" + ",\n".join(f"    {_text(row)}" for row in value) + "\n  ]"


def _text(value: object) -> str:
    return json.dumps(value, allow_nan=False)


def to_json(report: Report) -> Json:
    """Return the report as an object ready for JSON, its keys always in the same order.

    A section that was not asked for has no key; where it was and cannot be told it is ``None``.
    """
    found: Json = {
        "schema": SCHEMA,
        "window": {
            "since": to_rfc3339(report.window.since_ms),
            "until": to_rfc3339(report.window.until_ms),
            "timezone": report.window.timezone,
        },
        "sections": [name for name in section_names.SECTIONS if name in report.sections],
        "hosts": list(report.hosts),
        "sources": sorted({extent.source for extent in report.extents}),
        "rules": {setting.key: number(setting.value) for setting in report.rules},
        "coverage": _coverage(report),
        "unknown": {reason.reason: hours(reason.gpu_ms) for reason in report.unknown},
        "streaks_skipped_card_hours": report.streaks_skipped,
    }
    for name in section_names.SECTIONS:
        if name in report.sections:
            found |= _FIRST[name](report) if name in _FIRST else {}
            key, part = PARTS.get(name, (None, None))
            if key is not None and part is not None:
                found[key] = part(report)
    return found | _doubts(report)


def _coverage(report: Report) -> Json:
    coverage = report.coverage
    return {
        "expected_gpu_hours": hours(coverage.expected_gpu_ms),
        "observed_gpu_hours": hours(coverage.observed_gpu_ms),
        "unobserved_gpu_hours": hours(coverage.unobserved_gpu_ms),
        "ratio": ratio(coverage.ratio),
        "gaps": coverage.gaps,
        "effective_since": time(coverage.effective_since_ms),
        "effective_until": time(coverage.effective_until_ms),
    }


def _headline(report: Report) -> Json:
    return {
        "headline": {
            "card_ticks": report.headline.card_ticks,
            "states": {
                state: {
                    "card_ticks": part.card_ticks,
                    "gpu_hours": hours(part.gpu_ms),
                    "share": ratio(report.headline.shares[state]),
                }
                for state, part in report.headline.states.items()
            },
            "idle_held": idle_held(report),
        }
    }


def _idle_capacity(report: Report) -> Json:
    return {
        "idle_capacity": {
            state: {
                "gpu_hours": hours(report.headline.states[state].gpu_ms),
                "equivalent_gpus": ratio(report.headline.equivalent_gpus[state]),
            }
            for state in (IDLE_HELD, TRULY_IDLE)
        }
    }


def _rollups(report: Report) -> Json:
    return {
        "rollups": [
            {"by": rollup.by, "groups": [_group(group) for group in rollup.groups]} for rollup in report.rollups
        ]
    }


def _time_of_day(report: Report) -> Json:
    return {
        "time_of_day": [{"hour": hour, "states": states_of(states)} for hour, states in enumerate(report.time_of_day)]
    }


_FIRST: Final[dict[str, Callable[[Report], Json]]] = {
    section_names.HEADLINE: _headline,
    section_names.IDLE_CAPACITY: _idle_capacity,
    section_names.GROUPS: _rollups,
    section_names.CARDS: lambda report: {"cards": [_card(card) for card in report.cards]},
    section_names.WHO: lambda report: {"identities": [_identity(identity) for identity in report.identities]},
    section_names.TIME_OF_DAY: _time_of_day,
}


def _doubts(report: Report) -> Json:
    return {
        "overlaps": [
            {
                "host": overlap.host,
                "observed_hours": hours(overlap.observed_ms),
                "elapsed_hours": hours(overlap.elapsed_ms),
            }
            for overlap in report.overlaps
        ],
        "filters": [{"key": one.key, "values": list(one.values)} for one in report.filters],
        "silent": [{"host": one.host, "since": to_rfc3339(one.since_ms)} for one in report.silent],
        "claimed": [
            {"host": claim.host, "agents": [_claimant(agent) for agent in claim.agents]} for claim in report.claimed
        ],
        "skewed": [
            {"host": one.host, "ahead_seconds": seconds(one.ahead_ms), "behind_seconds": seconds(one.behind_ms)}
            for one in report.skewed
        ],
    }


def _group(group: Group) -> Json:
    return {
        "group": group.name,
        "hosts": group.hosts,
        "cards": group.cards,
        "expected_gpu_hours": hours(group.expected_gpu_ms),
        "observed_gpu_hours": hours(group.observed_gpu_ms),
        "unobserved_gpu_hours": hours(group.unobserved_gpu_ms),
        "ratio": ratio(group.ratio),
        "gaps": group.gaps,
        "states": states_of(group.states),
    }


def _claimant(agent: Claimant) -> Json:
    return {
        "instance": shortened(agent.instance),
        "host_id": shortened(agent.host_id),
        "first_seen": to_rfc3339(agent.first_ms),
        "last_seen": to_rfc3339(agent.last_ms),
    }


def _card(card: Card) -> Json:
    return {
        "host": card.host,
        "gpu": card.gpu,
        "index": card.index,
        "name": card.name,
        "model": card.model,
        "mig": card.mig,
        "parent": card.parent,
        "expected_gpu_hours": hours(card.expected_gpu_ms),
        "observed_gpu_hours": hours(card.observed_gpu_ms),
        "unobserved_gpu_hours": hours(card.unobserved_gpu_ms),
        "gaps": card.gaps,
        "states": states_of(card.states),
    }


def _identity(identity: Identity) -> Json:
    return {
        "kind": identity.kind,
        "owner": identity.owner,
        "program": identity.program,
        "gpu_hours": hours(identity.gpu_ms),
        "unsplit_gpu_hours": hours(identity.unsplit_ms),
        "longest_idle_seconds": seconds(identity.longest_idle_ms),
        "sessions": identity.sessions,
        "first_seen": time(identity.first_ms),
        "last_seen": time(identity.last_ms),
        "states": states_of(identity.states),
    }
