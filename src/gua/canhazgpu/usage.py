"""What ``canhazgpu report`` prints: reserved hours by user."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gua.canhazgpu.status import columns
from gua.core.durations import to_rfc3339
from gua.core.plaintext import safe

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_LONGEST: Final = 64


def usage(reservations: Sequence[Mapping[str, Any]], *, days: int, now_ms: int) -> dict[str, Any]:
    """Return its JSON object: GPU-hours of reservations within the last days, by user, the most first."""
    since_ms = now_ms - days * _DAY_MS
    hours: defaultdict[str, float] = defaultdict(float)
    counts: Counter[tuple[str, str]] = Counter()
    for each in reservations:
        begin, end = max(each["since_ms"], since_ms), min(each["ended_ms"] or now_ms, now_ms)
        if begin < end:
            hours[each["owner"]] += (end - begin) * len(each["cards"]) / _HOUR_MS
            counts[each["owner"], each["kind"]] += 1
    total = sum(hours.values())
    return {
        "users": [
            {
                "name": name,
                "gpu_hours": gpu_hours,
                "percentage": 100 * gpu_hours / total,
                "run_count": counts[name, "run"],
                "manual_count": counts[name, "manual"],
            }
            for name, gpu_hours in sorted(hours.items(), key=lambda item: (-item[1], item[0]))
        ],
        "total_gpu_hours": total,
        "total_reservations": counts.total(),
        "unique_users": len(hours),
        "start_date": to_rfc3339(since_ms),
        "end_date": to_rfc3339(now_ms),
        "days": days,
    }


def table(found: Mapping[str, Any]) -> str:
    """Return the same as a table."""
    lines = [("User", "GPU Hours", "Percentage", "Run", "Manual")] + [
        (
            safe(user["name"], _LONGEST),
            f"{user['gpu_hours']:.2f}",
            f"{user['percentage']:.2f}%",
            str(user["run_count"]),
            str(user["manual_count"]),
        )
        for user in found["users"]
    ]
    total = f"{found['total_gpu_hours']:.2f} GPU-hours, {found['total_reservations']} reservations"
    return f"{columns(lines)}\nTotal: {total}, {found['unique_users']} users, last {found['days']} days\n"
