"""Notices of the demo: those that a policy would have sent to the holders of the simulated lab. Nothing is sent."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from gua.notices.held import Held, HeldCard, HeldState, HolderKind, Notice, NoticeResult
from gua.notices.record import channel_name, notice_row
from gua.store.database import Store

STEPS: Final = ((2 * 3_600_000, "mailto://smtp.example.org"), (8 * 3_600_000, "slack://"))
"""Idle time [ms] and channel of the two steps of the demo's rule."""
RULE: Final = "idle"
_IDS: Final = """
SELECT
    host,
    gpu,
    pid,
    created,
    any(slurm_job_id) AS job,
    any(pod_uid) AS pod
FROM gua.process_ticks FINAL
GROUP BY ALL
"""


def record_notices(store: Store, *, since_ms: int, until_ms: int) -> None:
    """Record the notices of a window (Unix ms): of each idle streak one after 2 hours, and one after 8 hours.

    Each holder gets each step once.
    """
    ids = {(row["host"], row["gpu"], row["pid"], row["created"]): row for row in store.select(_IDS)}
    streaks = store.rows("idle_streaks", {"since_ms": since_ms, "until_ms": until_ms, "hosts": []})
    rows: dict[tuple[object, object], dict[str, object]] = {}
    for streak in sorted(streaks, key=lambda row: (row["start"], row["gpu"], row["pid"])):
        key = (streak["host"], streak["gpu"], streak["pid"], streak["created"])
        for row in _notices(streak, ids[key]):
            rows.setdefault((row["holder"], row["step"]), row)
    if rows:
        store.insert_json("notices", [*rows.values()])


def _notices(streak: Mapping[str, Any], ids: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    """Yield the rows of a streak's notices."""
    since_ms, created_ms = _ms(streak["start"]), _ms(streak["created"])
    kind, holder = HolderKind.PROCESS, f"{streak['host']} {streak['pid']} {created_ms}"
    if ids["job"] or ids["pod"]:
        kind, holder = (HolderKind.JOB, ids["job"]) if ids["job"] else (HolderKind.POD, ids["pod"])
    for number, (after_ms, channel) in enumerate(STEPS, start=1):
        if streak["idle_ms"] < after_ms:
            return
        held = Held(
            state=HeldState.IDLE_HELD,
            kind=kind,
            key=holder,
            cards=(HeldCard(host=streak["host"], gpu=streak["gpu"]),),
            owner=streak["owner"],
            program=streak["program"],
            pid=streak["pid"],
            since_ms=since_ms,
            idle_ms=after_ms,
            last_ms=since_ms + after_ms,
        )
        yield notice_row(
            Notice(rule=RULE, step=number, reminder=1, held=held, to=()),
            channel=channel_name(1, channel),
            message=f"{holder} {number}",
            result=NoticeResult.SENT,
            sent_ms=held.last_ms,
            written_ms=held.last_ms,
        )


def _ms(moment: datetime) -> int:
    return round(moment.replace(tzinfo=UTC).timestamp() * 1000)
