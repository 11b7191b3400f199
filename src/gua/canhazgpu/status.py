"""Output of ``canhazgpu status`` as a table and as JSON from the agent's status, and its report of reserved hours.

Fields are those in canhazgpu's documentation of status. ``last_heartbeat``, which gua does not have, is the time of the
agent's last reading of the card.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from gua.core.moments import DAY_MS, HOUR_MS, to_ms, to_rfc3339
from gua.core.plaintext import aligned, few, safe
from gua.core.words import Mig

HELD_MB: Final = 1024
"""Memory above which canhazgpu classifies a card as used [MiB, in its output MB]."""
_MB: Final = 2**20
_SHOWN: Final = 2
_HEADINGS: Final = ("GPU", "STATUS", "USER", "DURATION", "TYPE", "MODEL", "DETAILS", "VALIDATION")
_LONGEST: Final = 120

Row = dict[str, Any]


def rows(
    status: Mapping[str, Any], *, now_ms: int, last_ends_ms: Mapping[str, int], threshold_mb: int = HELD_MB
) -> list[Row]:
    """Return one row per card in index order, each with the fields that apply.

    ``status`` is the agent's own. ``last_ends_ms`` has the end of each card's last reservation [Unix ms] by UUID.
    """
    by_card = {card: each for each in status.get("reservations") or () for card in each["cards"]}
    # The unallocated slices of a partitioned GPU cannot be reserved.
    cards = [card for card in status.get("cards") or () if card.get("mig") != Mig.PARENT]
    cards.sort(key=lambda card: (card.get("index") is None, card.get("index") or 0))
    return [
        _row(
            card,
            by_card.get(card["uuid"]) or by_card.get(card.get("parent")),
            now_ms,
            last_ends_ms.get(card["uuid"]),
            threshold_mb,
        )
        for card in cards
    ]


def _row(
    card: Mapping[str, Any],
    reservation: Mapping[str, Any] | None,
    now_ms: int,
    last_end_ms: int | None,
    threshold_mb: int,
) -> Row:
    used_mb = None if card.get("memory_used_bytes") is None else card["memory_used_bytes"] // _MB
    holders = card.get("holders") or []
    row: Row = {"gpu_id": card.get("index"), **_model(reservation, holders)}
    if reservation is not None:
        return row | _reserved(card, reservation, used_mb, holders, now_ms)
    others = [each for each in card.get("allocations") or () if each.get("source") != "gua"]
    if others:
        allocation = others[0]
        seconds = allocation.get("allocated_seconds")
        return row | {
            "status": "IN_USE",
            "user": str(allocation.get("owner") or allocation.get("uid") or "unknown"),
            **({} if seconds is None else {"duration": lasting(round(seconds * 1000))}),
            "type": str(allocation["source"]).upper(),
            "details": f"allocated by {allocation['source']} {allocation['id']}",
            "validation": _validation(used_mb, holders),
        }
    if card.get("state") == "unknown" or used_mb is None:
        return row | {"status": "ERROR", "error": f"unknown: {card.get('reason') or 'memory cannot be read'}"}
    if used_mb > threshold_mb or holders:
        processes = f"{used_mb}MB used by {_processes(holders)}" if holders else f"{used_mb}MB used"
        return row | {
            "status": "UNRESERVED",
            "details": "WITHOUT RESERVATION",
            "validation": f"{used_mb}MB used",
            "unreserved_users": sorted({_user(holder) for holder in holders}),
            "process_info": processes,
        }
    since = card.get("free_since")
    free_since_ms = max(
        last_end_ms or 0,
        # The end of its last reservation does not include use without a reservation.
        to_ms(datetime.fromisoformat(since)) if since and card.get("free_is_lower_bound") is False else 0,
    )
    free = f"free for {lasting(now_ms - free_since_ms)}" if free_since_ms else "never used"
    row |= {"status": "AVAILABLE", "details": free, "validation": f"{used_mb}MB used"}
    return row if last_end_ms is None else row | {"last_released": to_rfc3339(last_end_ms)}


def _validation(used_mb: int | None, holders: Sequence[Mapping[str, Any]]) -> str:
    return f"{used_mb}MB, {len(holders)} processes" if holders else "no usage detected"


def _model(reservation: Mapping[str, Any] | None, holders: Sequence[Mapping[str, Any]]) -> Row:
    """Return the card's served model: as the reservation declares, else as a process has it."""
    models = (reservation or {}).get("workload_model"), *(holder.get("workload_model") for holder in holders)
    model = next((each for each in models if each), None)
    if model is None:
        return {}
    provider, slash, _ = model.partition("/")
    return {"model": {"provider": provider if slash else "", "model": model}}


def _reserved(
    card: Mapping[str, Any],
    reservation: Mapping[str, Any],
    used_mb: int | None,
    holders: Sequence[Mapping[str, Any]],
    now_ms: int,
) -> Row:
    row: Row = {
        "status": "IN_USE",
        "user": reservation["owner"],
        "duration": lasting(now_ms - reservation["since_ms"]),
        "type": reservation["kind"].upper(),
    }
    if reservation["note"]:
        row["note"] = reservation["note"]
    until_ms = reservation["until_ms"]
    if until_ms is not None:
        row |= {"details": f"expires in {lasting(until_ms - now_ms)}", "expiry_time": to_rfc3339(until_ms)}
    else:
        sampled_ms = now_ms - round((card.get("sample_age_seconds") or 0) * 1000)
        row |= {"details": f"heartbeat {lasting(now_ms - sampled_ms)} ago", "last_heartbeat": to_rfc3339(sampled_ms)}
    row["validation"] = _validation(used_mb, holders)
    others = sorted({_user(holder) for holder in holders if holder.get("uid") not in {None, reservation["uid"]}})
    return row | ({"foreign_users": others} if others else {})


def table(cards: Sequence[Row]) -> str:
    """Return the rows as canhazgpu's table; scripts parse its columns."""
    lines = [_HEADINGS, tuple("-" * len(heading) for heading in _HEADINGS), *map(_cells, cards)]
    return "".join(f"{line}\n" for line in aligned(lines))


def _cells(row: Row) -> tuple[str, ...]:
    users = row.get("unreserved_users")
    if users is None:
        user, details = row.get("user", "-"), row.get("details") or row.get("error") or "-"
        validation = row.get("validation", "-")
    else:
        user, details, validation = _people(users), row["process_info"], "-"
    texts = (
        "-" if row["gpu_id"] is None else str(row["gpu_id"]),
        row["status"],
        user,
        row.get("duration", "-"),
        row.get("type", "-"),
        row.get("model", {}).get("model", "-"),
        details,
        validation,
    )
    return tuple(safe(str(text), _LONGEST) for text in texts)


def _people(users: Sequence[str]) -> str:
    *before, last = users or ["unknown"]
    return f"users {', '.join(before)} and {last}" if before else f"user {last}"


def _processes(holders: Sequence[Mapping[str, Any]]) -> str:
    return few([f"PID {holder['pid']} ({holder.get('comm') or 'unknown process'})" for holder in holders], _SHOWN)


def _user(holder: Mapping[str, Any]) -> str:
    return str(holder.get("owner") or ("unknown" if holder.get("uid") is None else holder["uid"]))


def lasting(length_ms: int) -> str:
    """Return a duration in canhazgpu's format: ``1h 2m 15s``."""
    seconds = max(0, length_ms) // 1000
    return f"{seconds // 3600}h {seconds // 60 % 60}m {seconds % 60}s"


_LONGEST_NAME: Final = 64


def usage(reservations: Sequence[Mapping[str, Any]], *, days: int, now_ms: int) -> dict[str, Any]:
    """Return canhazgpu's JSON: GPU-hours of reservations in the last ``days``, by user, largest first."""
    since_ms = now_ms - days * DAY_MS
    hours: defaultdict[str, float] = defaultdict(float)
    counts: Counter[tuple[str, str]] = Counter()
    for each in reservations:
        begin, end = max(each["since_ms"], since_ms), min(each["ended_ms"] or now_ms, now_ms)
        if begin < end:
            hours[each["owner"]] += (end - begin) * len(each["cards"]) / HOUR_MS
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


def usage_table(report: Mapping[str, Any]) -> str:
    """Return the result of :func:`usage` as a table."""
    lines = [("User", "GPU Hours", "Percentage", "Run", "Manual")] + [
        (
            safe(user["name"], _LONGEST_NAME),
            f"{user['gpu_hours']:.2f}",
            f"{user['percentage']:.2f}%",
            str(user["run_count"]),
            str(user["manual_count"]),
        )
        for user in report["users"]
    ]
    total = f"{report['total_gpu_hours']:.2f} GPU-hours, {report['total_reservations']} reservations"
    table = "\n".join(aligned(lines))
    return f"{table}\n\nTotal: {total}, {report['unique_users']} users, last {report['days']} days\n"
