"""An explanation as one JSON object, schema "gua.explain/1": every value of every tick, in its unit."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Final

from gua.core.durations import to_rfc3339
from gua.report.explain.explain import ExplainedPart, ExplainedTick, Explanation
from gua.report.explain.model import (
    CARD_VALUES,
    FLAG,
    JUDGED_VALUES,
    PROCESS_FACTS,
    PROCESS_VALUES,
    ExplainedProcessRow,
    TickRow,
    Value,
)
from gua.report.explain.text import UNOBSERVED

SCHEMA: Final = "gua.explain/1"
_OF_CARD: Final = ("name", "mig", "parent", "driver_version", "pci", "source")
_WHOSE: Final = ("owner", "uid", "kind", "job_name", "pod_uid", "pod_name", "pod_namespace")


def render_explanation_json(told: Explanation) -> str:
    """Return the explanation as JSON; times are RFC 3339 UTC, unknown is null, ``state`` unobserved without a tick."""
    card, tick = told.card, told.covering
    explained = {
        "schema": SCHEMA,
        "host": card.host,
        "card": {
            "gpu": card.gpu,
            "index": card.gpu_index,
            **{name: getattr(card, name) for name in _OF_CARD},
            "interval_seconds": None if card.interval_ms is None else card.interval_ms / 1000,
            "first_seen": to_rfc3339(card.first_ms),
            "last_seen": to_rfc3339(card.last_ms),
        },
        "time": to_rfc3339(told.at_ms),
        "timezone": told.timezone,
        "state": UNOBSERVED if tick is None else tick.row.state,
        "reason": None if tick is None else tick.row.reason,
        "rule": None if tick is None else tick.branches[-1].line,
        "rules": [asdict(one) for one in told.settings],
        "covered_by": None if tick is None else to_rfc3339(tick.ts_ms),
        "before": _span(told.before),
        "after": _span(told.after),
        "ticks": [_tick(one) for one in told.ticks],
    }
    return json.dumps(explained, indent=2, allow_nan=False) + "\n"


def _span(span: tuple[int, int] | None) -> dict[str, str] | None:
    return None if span is None else {"start": to_rfc3339(span[0]), "end": to_rfc3339(span[1])}


def _tick(tick: ExplainedTick) -> dict[str, Any]:
    return {
        "time": to_rfc3339(tick.ts_ms),
        "start": to_rfc3339(tick.start_ms),
        "state": tick.row.state,
        "reason": tick.row.reason,
        "rule": tick.branches[-1].line,
        "rules_agree": tick.agrees,
        "lines": [branch._asdict() for branch in tick.branches],
        "judged": _values(JUDGED_VALUES, tick.row),
        "values": _values(CARD_VALUES, tick.row),
        "processes": [_process(process) for process in tick.processes],
        "parts": [_part(part) for part in tick.parts],
    }


def _part(part: ExplainedPart) -> dict[str, Any]:
    row = part.row
    return {
        "source": row.source or None,
        "allocation_id": row.allocation_id or None,
        **{name: getattr(row, name) for name in _WHOSE},
        "since": None if row.since_ms is None else to_rfc3339(row.since_ms),
        "until": None if row.until_ms is None else to_rfc3339(row.until_ms),
        "relation": row.relation if row.source else None,
        "use": row.use,
        "line": part.lines[-1].line,
        "rules_agree": part.agrees,
        "lines": [one._asdict() for one in part.lines],
        "covered_seconds": row.duration_ms / 1000,
        "gpu_seconds": row.gpu_time_ms / 1000,
    }


def _process(process: ExplainedProcessRow) -> dict[str, Any]:
    return {
        "pid": process.pid,
        "created": None if process.created_ms is None else to_rfc3339(process.created_ms),
        "state": process.state,
        **{fact.column: fact.of(process) for fact in PROCESS_FACTS},
        "values": _values(PROCESS_VALUES, process),
    }


def _values(values: Iterable[Value], row: TickRow | ExplainedProcessRow) -> list[dict[str, Any]]:
    return [
        {
            "name": value.column,
            "value": value.number(value.of(row)),
            "unit": None if value.unit == FLAG else value.unit,
        }
        for value in values
    ]
