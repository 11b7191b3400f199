"""What ``gua top`` shows as one JSON object, schema "gua.top/1"."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from gua.core.durations import to_rfc3339
from gua.report.top.model import UNOBSERVED, Snapshot, TopCard, TopHolder

SCHEMA: Final = "gua.top/1"


def render_top_json(snapshot: Snapshot, cards: Iterable[TopCard], holders: Iterable[TopHolder]) -> str:
    """Return the cards and holders as JSON; seconds, bytes, ratios, watts, unknown is null, times RFC 3339 UTC."""
    promised = snapshot.promised
    told = {
        "schema": SCHEMA,
        "source": snapshot.source,
        "where": snapshot.where,
        "time": to_rfc3339(snapshot.taken_ms),
        "conditions": list(snapshot.conditions),
        "states": dict(snapshot.states),
        "promised": None if promised is None else {"allocated_cards": promised[0], "empty_cards": promised[1]},
        "cards": [_card(card) for card in cards],
        "holders": [_holder(holder) for holder in holders],
    }
    return json.dumps(told, indent=2, allow_nan=False) + "\n"


def _card(card: TopCard) -> dict[str, Any]:
    return {
        "host": card.host,
        "gpu": card.gpu,
        "index": card.index,
        "name": card.name,
        "mig": card.mig,
        "state": card.state,
        "last_state": card.last_state if card.state == UNOBSERVED else None,
        "reason": card.reason,
        "state_seconds": _seconds(card.state_ms),
        "state_is_lower_bound": card.at_least,
        "age_seconds": card.age_ms / 1000,
        "utilization": card.utilization,
        "held_lower_bytes": card.held_bytes,
        "memory_used_bytes": card.used_bytes,
        "memory_limit_bytes": card.limit_bytes,
        "power_watts": card.power_watts,
        "temperature_celsius": card.temperature_celsius,
        "free_seconds": _seconds(card.free_ms),
        "free_is_lower_bound": card.free_at_least,
        "allocation": card.allocation,
        "allocations": [
            {
                "source": each.source,
                "id": each.id,
                "owner": each.owner,
                "job_name": each.job_name,
                "use": each.use,
                "use_seconds": _seconds(each.use_ms),
                "use_is_lower_bound": each.at_least,
                "until": None if each.until_ms is None else to_rfc3339(each.until_ms),
            }
            for each in card.allocations
        ],
    }


def _holder(holder: TopHolder) -> dict[str, Any]:
    return {
        "host": holder.host,
        "gpu": holder.gpu,
        "index": holder.index,
        "pid": holder.pid,
        "created": None if holder.created_ms is None else to_rfc3339(holder.created_ms),
        "owner": holder.owner,
        "program": holder.program,
        "type": holder.type,
        "state": holder.state,
        "idle_seconds": _seconds(holder.idle_ms),
        "idle_is_lower_bound": holder.at_least,
        "memory_bytes": holder.memory_bytes,
        "utilization": holder.utilization,
        "container_id": holder.container_id,
        "pod_uid": holder.pod_uid,
        "slurm_job_id": holder.slurm_job_id,
        "systemd_unit": holder.systemd_unit,
    }


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
