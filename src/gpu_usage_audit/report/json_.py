"""The report as one JSON object, schema ``gua.report/1``: keys are added, never changed."""

from __future__ import annotations

import json
from typing import Final

from gpu_usage_audit.core.durations import to_rfc3339
from gpu_usage_audit.report.model import (
    IDLE_HELD,
    MS_PER_HOUR,
    STATES,
    TRULY_IDLE,
    Card,
    Claimant,
    Group,
    Identity,
    Report,
    States,
    share,
)
from gpu_usage_audit.report.troubles import shortened

SCHEMA: Final = "gua.report/1"
_DECIMALS = 6
Json = dict[str, object]


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
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def to_json(report: Report) -> Json:
    """Return the report as an object ready for JSON, its keys always in the same order."""
    coverage = report.coverage
    return {
        "schema": SCHEMA,
        "window": {
            "since": to_rfc3339(report.window.since_ms),
            "until": to_rfc3339(report.window.until_ms),
            "timezone": report.window.timezone,
        },
        "hosts": list(report.hosts),
        "sources": sorted({extent.source for extent in report.extents}),
        "rules": {setting.key: _number(setting.value) for setting in report.rules},
        "coverage": {
            "expected_gpu_hours": _hours(coverage.expected_gpu_ms),
            "observed_gpu_hours": _hours(coverage.observed_gpu_ms),
            "unobserved_gpu_hours": _hours(coverage.unobserved_gpu_ms),
            "ratio": _ratio(coverage.ratio),
            "gaps": coverage.gaps,
            "effective_since": _time(coverage.effective_since_ms),
            "effective_until": _time(coverage.effective_until_ms),
        },
        "unknown": {reason.reason: _hours(reason.gpu_ms) for reason in report.unknown},
        "headline": {
            "card_ticks": report.headline.card_ticks,
            "states": {
                state: {
                    "card_ticks": time.card_ticks,
                    "gpu_hours": _hours(time.gpu_ms),
                    "share": _ratio(report.headline.shares[state]),
                }
                for state, time in report.headline.states.items()
            },
        },
        "idle_capacity": {
            state: {
                "gpu_hours": _hours(report.headline.states[state].gpu_ms),
                "equivalent_gpus": _ratio(report.headline.equivalent_gpus[state]),
            }
            for state in (IDLE_HELD, TRULY_IDLE)
        },
        "cards": [_card(card) for card in report.cards],
        "identities": [_identity(identity) for identity in report.identities],
        "time_of_day": [{"hour": hour, "states": _states(states)} for hour, states in enumerate(report.time_of_day)],
        "overlaps": [
            {
                "host": overlap.host,
                "observed_hours": _hours(overlap.observed_ms),
                "elapsed_hours": _hours(overlap.elapsed_ms),
            }
            for overlap in report.overlaps
        ],
        "filters": [{"key": one.key, "values": list(one.values)} for one in report.filters],
        "rollups": [
            {"by": rollup.by, "groups": [_group(group) for group in rollup.groups]} for rollup in report.rollups
        ],
        "silent": [{"host": one.host, "since": to_rfc3339(one.since_ms)} for one in report.silent],
        "claimed": [
            {"host": claim.host, "agents": [_claimant(agent) for agent in claim.agents]} for claim in report.claimed
        ],
        "skewed": [
            {"host": one.host, "ahead_seconds": _seconds(one.ahead_ms), "behind_seconds": _seconds(one.behind_ms)}
            for one in report.skewed
        ],
    }


def _group(group: Group) -> Json:
    return {
        "group": group.name,
        "hosts": group.hosts,
        "cards": group.cards,
        "expected_gpu_hours": _hours(group.expected_gpu_ms),
        "observed_gpu_hours": _hours(group.observed_gpu_ms),
        "unobserved_gpu_hours": _hours(group.unobserved_gpu_ms),
        "ratio": _ratio(group.ratio),
        "gaps": group.gaps,
        "states": _states(group.states),
    }


def _claimant(agent: Claimant) -> Json:
    return {
        "instance": shortened(agent.instance),
        "host_id": shortened(agent.host_id),
        "first_seen": to_rfc3339(agent.first_ms),
        "last_seen": to_rfc3339(agent.last_ms),
    }


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _card(card: Card) -> Json:
    return {
        "host": card.host,
        "gpu": card.gpu,
        "index": card.index,
        "name": card.name,
        "model": card.model,
        "mig": card.mig,
        "parent": card.parent,
        "expected_gpu_hours": _hours(card.expected_gpu_ms),
        "observed_gpu_hours": _hours(card.observed_gpu_ms),
        "unobserved_gpu_hours": _hours(card.unobserved_gpu_ms),
        "gaps": card.gaps,
        "states": _states(card.states),
    }


def _identity(identity: Identity) -> Json:
    return {
        "kind": identity.kind,
        "owner": identity.owner,
        "program": identity.program,
        "gpu_hours": _hours(identity.gpu_ms),
        "unsplit_gpu_hours": _hours(identity.unsplit_ms),
        "states": _states(identity.states),
    }


def _states(states: States) -> Json:
    """Return all four states; ticks are left out where several identities share them."""
    return {
        state: {
            **({} if time.card_ticks is None else {"card_ticks": time.card_ticks}),
            "gpu_hours": _hours(time.gpu_ms),
            "share": _ratio(share(states, state)),
        }
        for state in STATES
        for time in [states[state]]
    }


def _hours(milliseconds: float) -> float:
    return round(milliseconds / MS_PER_HOUR, _DECIMALS)


def _ratio(value: float | None) -> float | None:
    return None if value is None else round(value, _DECIMALS)


def _number(value: float) -> float:
    return int(value) if value == int(value) else round(value, _DECIMALS)


def _time(unix_ms: int | None) -> str | None:
    return None if unix_ms is None else to_rfc3339(unix_ms)
