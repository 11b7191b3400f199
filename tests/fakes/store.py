"""A store that answers with the rows it was given, and records its queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import pytest

from gua.app import opening
from gua.core.view import View
from gua.report.views import SHARED

HOUR_MS = 3_600_000
SINCE_MS = 1_774_396_800_000  # 2026-03-25T00:00:00Z
UNTIL_MS = SINCE_MS + 48 * HOUR_MS
DAY_MS = 24 * HOUR_MS
A_FULL_PART = 1_000_000
STATES = ("active", "idle-held", "truly-idle", "unknown")


def whole(view: View[Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with every column that is read: what a test left out is 0, nothing or unknown."""
    empty = {
        name: next(value for value in (None, 0, [], [0, 0, 0], {}, "", "active", "unknown") if column.check(value))
        for name, column in view.columns.items()
    }
    return {**empty, **row}


_OFTEN_EMPTY = {
    "card_streaks",
    "holders",
    "prices",
    "allocations",
    "allocation_names",
    "allocation_sources",
    "idle_time",
    "right_size",
    "card_sizes",
    "slow_cards",
    "activity",
    "activity_owners",
    "busy_with_few_sms",
    "notices",
}


class FakeStore:
    """Rows by view. No hour is rolled up, and there are so many ticks that no streaks are made of them."""

    def __init__(self, views: Mapping[str, Any]) -> None:
        self.views: dict[str, Any] = deepcopy(dict(views))
        self.asked: list[tuple[str, dict[str, object]]] = []

    @property
    def is_concurrent(self) -> bool:
        return False

    is_embedded = True

    def rows(self, view: str, parameters: Mapping[str, object]) -> Iterable[dict[str, Any]]:
        self.asked.append((view, dict(parameters)))
        found = self.views.get(view, []) if view in _OFTEN_EMPTY else self.views[view]
        return (whole(SHARED[view], row) for row in found)


def extent(host: str, source: str = "agent", **values: object) -> dict[str, Any]:
    return {
        "host": host,
        "source": source,
        "cards": 1,
        "first_ms": SINCE_MS,
        "last_ms": UNTIL_MS,
        "interval_ms": 300_000,
        **values,
    }


def rules(**changed: float) -> list[dict[str, Any]]:
    shipped = {"active_utilization": 0.1, "held_memory_bytes": 104_857_600.0, "held_memory_ratio": 0.0}
    return [
        {"key": key, "value": changed.get(key, value), "is_default": int(key not in changed)}
        for key, value in shipped.items()
    ]


def card(host: str, gpu: str, hours: tuple[float, float, float, float], **values: object) -> dict[str, Any]:
    """Return a row of ``overview``: GPU-hours of the four states, a tick every five minutes."""
    observed = sum(hours)
    row: dict[str, Any] = {
        "host": host,
        "gpu": gpu,
        "gpu_index": 0,
        "name": "NVIDIA H100 80GB HBM3",
        "model": None,
        "mig": "none",
        "parent": None,
        "expected_gpu_ms": observed * HOUR_MS,
        "observed_gpu_ms": observed * HOUR_MS,
        "unobserved_gpu_ms": 0.0,
        "gaps": 0,
        "effective_since_ms": SINCE_MS,
        "effective_until_ms": UNTIL_MS,
    }
    for state, state_hours in zip(STATES, hours, strict=True):
        column = state.replace("-", "_")
        row[f"{column}_gpu_ms"] = state_hours * HOUR_MS
        row[f"{column}_card_ticks"] = round(state_hours * 12)
    return {**row, **values}


def identity(
    owner: str | None, program: str | None, hours: tuple[float, float, float], unsplit: float | None = None
) -> dict[str, Any]:
    """Return a row of ``usage``: GPU-hours on cards that were active, idle-held and unknown."""
    active, idle_held, unknown = (round(value * HOUR_MS * 1000) for value in hours)
    durations_ms = sum(hours) * HOUR_MS if unsplit is None else unsplit * HOUR_MS
    return {
        "name": owner,
        "program": program,
        "active_us": active,
        "idle_held_us": idle_held,
        "unknown_us": unknown,
        "process_ms": round(durations_ms),
    }


def store_of(
    cards: list[dict[str, Any]],
    *,
    extents: list[dict[str, Any]] | None = None,
    identities: Sequence[dict[str, Any]] = (),
    **views: object,
) -> FakeStore:
    """Return a store of these cards."""
    return FakeStore(
        {
            "extent": extents or [extent(host) for host in sorted({row["host"] for row in cards})],
            "rules": rules(),
            "overview": cards,
            "hours": [
                {"hour": day_ms // HOUR_MS, "is_counted": False, "card_ticks": A_FULL_PART}
                for day_ms in (SINCE_MS, SINCE_MS + DAY_MS)
            ],
            "usage": list(identities),
            "time_of_day": [],
            "costs": [],
            "labels": [],
            "fleet": [],
            "host_name_conflicts": [],
            **views,
        }
    )


def lab() -> FakeStore:
    """Return two hosts over two days with everything a report has to be careful about."""
    cards = [
        card("gpu-1", "GPU-aaaaaaaa-0000-4000-8000-000000000001", (30.25, 10.0, 6.75, 0.0), gaps=1)
        | {"expected_gpu_ms": 48 * HOUR_MS, "unobserved_gpu_ms": HOUR_MS}
        | {"observed_ms": 50 * HOUR_MS, "elapsed_ms": 48 * HOUR_MS},
        card("gpu-1", "GPU-aaaaaaaa-0000-4000-8000-000000000002", (0.0, 47.99, 0.0, 0.01), gpu_index=1)
        | {"reasons": [("pid_namespace", 1, 0.01 * HOUR_MS)]},
        card("gpu-1", "GPU-aaaaaaaa-0000-4000-8000-000000000003", (0.0, 0.0, 20.571, 0.0), gpu_index=2, mig="parent"),
        card(
            "gpu-1",
            "MIG-bbbbbbbb-0000-4000-8000-000000000001",
            (0.0, 0.0, 0.0, 20.571),
            gpu_index=2,
            name="NVIDIA H100 80GB HBM3 MIG 3g.40gb",
            mig="instance",
            parent="GPU-aaaaaaaa-0000-4000-8000-000000000003",
        )
        | {"reasons": [("utilization", 247, 20.571 * HOUR_MS)]},
        card(
            "lab-2\u202e.example\x1b[31m",
            "GPU-cccccccc-0000-4000-8000-000000000001",
            (0.0, 0.0, 12.0, 0.0),
            gpu_index=None,
            name=None,
            gaps=2,
        )
        | {"expected_gpu_ms": 24 * HOUR_MS, "unobserved_gpu_ms": 12 * HOUR_MS},
        card("lab-2\u202e.example\x1b[31m", "GPU-cccccccc-0000-4000-8000-000000000002", (0.0, 0.0, 0.0, 0.0), name="L4")
        | {"expected_gpu_ms": 24 * HOUR_MS, "unobserved_gpu_ms": 24 * HOUR_MS, "gaps": 1},
    ]
    identities = [
        identity("ana", "python3", (25.0, 50.0, 0.0), unsplit=78.0),
        identity("ana", "python3\x1b]0;owned\x07", (0.25, 0.0, 0.0)),
        identity(None, None, (0.0, 0.0, 10.0), unsplit=20.0),
        identity("chen", "训练任务的一个很长的名字而已", (5.0, 0.0, 0.0)),
        identity("root", "tiny", (0.0, 0.0, 0.01)),
    ]
    return store_of(
        cards,
        extents=[
            extent("gpu-1", cards=4),
            extent("lab-2\u202e.example\x1b[31m", "import", cards=2, interval_ms=30_000, last_ms=SINCE_MS + DAY_MS),
        ],
        identities=identities,
        rules=rules(held_memory_bytes=536_870_912.0),
        time_of_day=[
            {"hour": hour, "state": state, "gpu_ms": part * HOUR_MS, "card_ticks": round(part * 12)}
            for hour in range(23)
            for state, part in zip(STATES, (hour % 5 * 0.7, 2.1, 0.001 if hour == 4 else 1.7, 0.9), strict=True)
        ],
    )


def behind_report(made: FakeStore, monkeypatch: pytest.MonkeyPatch) -> FakeStore:
    """Put a store behind ``gua report`` of a user without a state directory."""

    @contextmanager
    def open_reader(_: str | None) -> Iterator[FakeStore]:
        yield made

    monkeypatch.setattr(opening, "open_reader", open_reader)
    monkeypatch.setenv("GUA_HOME", "/nonexistent/.gua")
    return made
