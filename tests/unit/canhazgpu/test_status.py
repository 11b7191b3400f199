"""Its status page's situations, in its own words."""

from __future__ import annotations

from typing import Any

import pytest

from gua.canhazgpu.status import lasting, rows, table, usage, usage_table

NOW_MS = 1_751_913_987_000  # 2025-07-07T18:46:27Z
MB = 2**20


def card(
    index: int, used_mb: int | None, *holders: tuple[int, str, str, int], state: str = "idle-held"
) -> dict[str, Any]:
    return {
        "index": index,
        "uuid": f"GPU-{index}",
        "state": state,
        "reason": "lost" if state == "unknown" else None,
        "memory_used_bytes": None if used_mb is None else used_mb * MB,
        "sample_age_seconds": 5.0,
        "holders": [{"pid": pid, "comm": comm, "owner": owner, "uid": uid} for pid, comm, owner, uid in holders],
    }


def reservation(
    index: int, owner: str, uid: int, kind: str, *, ago_s: int, left_s: int | None = None
) -> dict[str, Any]:
    return {
        "cards": [f"GPU-{index}"],
        "gpus": [index],
        "owner": owner,
        "uid": uid,
        "kind": kind,
        "since_ms": NOW_MS - 1000 * ago_s,
        "until_ms": None if left_s is None else NOW_MS + 1000 * left_s,
        "ended_ms": None,
        "note": None,
    }


STATUS = {
    "cards": [
        card(1, 8452, (999, "python3", "alice", 1001)),
        card(0, 45, state="truly-idle"),
        card(2, 1024, (12345, "python3", "bob", 1002), (67890, "jupyter", "bob", 1002)),
        card(3, 4, state="truly-idle"),
        card(4, 2048, *((pid, "pytorch", name, pid) for pid, name in ((1, "alice"), (2, "bob"), (3, "charlie")))),
        card(5, None, state="unknown"),
        card(6, 3000, (7, "python", "eve", 1009)),
    ],
    "reservations": [
        reservation(1, "alice", 1001, "run", ago_s=930),
        reservation(3, "charlie", 1003, "manual", ago_s=3735, left_s=11_745),
        reservation(6, "charlie", 1003, "run", ago_s=60),
    ],
}


def found() -> list[dict[str, Any]]:
    return rows(STATUS, now_ms=NOW_MS, last_ends_ms={"GPU-0": NOW_MS - 1_815_000})


def test_json_has_the_fields_of_its_status_page() -> None:
    free, alice, bob, charlie, *_ = found()
    assert free == {
        "gpu_id": 0,
        "status": "AVAILABLE",
        "details": "free for 0h 30m 15s",
        "validation": "45MB used",
        "last_released": "2025-07-07T18:16:12Z",
    }
    assert alice == {
        "gpu_id": 1,
        "status": "IN_USE",
        "user": "alice",
        "duration": "0h 15m 30s",
        "type": "RUN",
        "details": "heartbeat 0h 0m 5s ago",
        "validation": "8452MB, 1 processes",
        "last_heartbeat": "2025-07-07T18:46:22Z",
    }
    assert bob == {
        "gpu_id": 2,
        "status": "UNRESERVED",
        "details": "WITHOUT RESERVATION",
        "validation": "1024MB used",
        "unreserved_users": ["bob"],
        "process_info": "1024MB used by PID 12345 (python3), PID 67890 (jupyter)",
    }
    assert charlie == {
        "gpu_id": 3,
        "status": "IN_USE",
        "user": "charlie",
        "duration": "1h 2m 15s",
        "type": "MANUAL",
        "details": "expires in 3h 15m 45s",
        "validation": "no usage detected",
        "expiry_time": "2025-07-07T22:02:12Z",
    }


@pytest.mark.parametrize(
    ("free", "details"),
    [
        ({"free_since": "2025-07-07T18:44:27Z", "free_is_lower_bound": False}, "free for 0h 2m 0s"),
        ({"free_since": "2025-07-07T13:46:27Z", "free_is_lower_bound": False}, "free for 0h 30m 15s"),
        ({"free_since": "2025-07-07T18:44:27Z", "free_is_lower_bound": True}, "free for 0h 30m 15s"),
        ({"free_since": None, "free_is_lower_bound": None}, "free for 0h 30m 15s"),
    ],
)
def test_a_card_that_somebody_used_without_a_reservation_is_free_since_then(free: dict[str, Any], details: str) -> None:
    status = {"cards": [{**card(0, 4, state="truly-idle"), **free}]}
    (status_row,) = rows(status, now_ms=NOW_MS, last_ends_ms={"GPU-0": NOW_MS - 1_815_000})
    assert (status_row["details"], status_row["last_released"]) == (details, "2025-07-07T18:16:12Z")


def test_what_cannot_be_read_is_an_error_and_others_on_a_reserved_card_are_named() -> None:
    *_, unreadable, foreign = found()
    assert unreadable == {"gpu_id": 5, "status": "ERROR", "error": "unknown: lost"}
    assert foreign["foreign_users"] == ["eve"]


def test_what_a_scheduler_allocated_or_is_a_part_of_a_reserved_gpu_is_not_available() -> None:
    job = {"source": "slurm", "id": "7", "owner": "ana", "uid": 1, "allocated_seconds": 90.0}
    status = {
        "cards": [
            {**card(0, 4, state="truly-idle"), "allocations": [job]},
            {**card(1, 4, state="truly-idle"), "mig": "parent"},
            {**card(1, 4, state="truly-idle"), "uuid": "MIG-1", "mig": "instance", "parent": "GPU-1"},
        ],
        "reservations": [reservation(1, "bob", 2, "manual", ago_s=60, left_s=60)],
    }
    allocated, instance = rows(status, now_ms=NOW_MS, last_ends_ms={})
    assert allocated == {
        "gpu_id": 0,
        "status": "IN_USE",
        "user": "ana",
        "duration": "0h 1m 30s",
        "type": "SLURM",
        "details": "allocated by slurm 7",
        "validation": "no usage detected",
    }
    assert (instance["status"], instance["user"]) == ("IN_USE", "bob")


def test_the_table_has_its_columns() -> None:
    lines = table(found()).splitlines()
    assert lines[0].split() == ["GPU", "STATUS", "USER", "DURATION", "TYPE", "MODEL", "DETAILS", "VALIDATION"]
    assert " ".join(lines[2].split()) == "0 AVAILABLE - - - - free for 0h 30m 15s 45MB used"
    text = table(found())
    assert "users alice, bob and charlie" in text
    assert "2048MB used by PID 1 (pytorch), PID 2 (pytorch) and 1 more" in text
    assert text.count("AVAILABLE") == 1


def test_hostile_names_stay_on_their_line() -> None:
    status = {"cards": [card(0, 5000, (1, "x\n\x1b[2J", "bob\r\n", 1))], "reservations": []}
    shown = table(rows(status, now_ms=NOW_MS, last_ends_ms={}))
    assert shown.count("\n") == 3
    assert "\x1b" not in shown


def test_reserved_hours_by_user() -> None:
    hour = 3600
    held = [
        {**reservation(0, "alice", 1, "run", ago_s=4 * hour), "ended_ms": NOW_MS - 2 * hour * 1000},
        {**reservation(1, "bob", 2, "manual", ago_s=hour), "cards": ["GPU-1", "GPU-2"]},
        {**reservation(1, "bob", 2, "run", ago_s=40 * 24 * hour), "ended_ms": NOW_MS - 31 * 24 * hour * 1000},
        {**reservation(3, "bob", 2, "run", ago_s=2 * hour), "ended_ms": NOW_MS - hour * 1000},
    ]
    made = usage(held, days=30, now_ms=NOW_MS)
    assert [(user["name"], user["gpu_hours"], user["run_count"], user["manual_count"]) for user in made["users"]] == [
        ("bob", 3.0, 1, 1),
        ("alice", 2.0, 1, 0),
    ]
    assert (made["total_gpu_hours"], made["total_reservations"], made["unique_users"], made["days"]) == (5.0, 3, 2, 30)
    assert "Total: 5.00 GPU-hours, 3 reservations, 2 users, last 30 days" in usage_table(made)
    assert usage([], days=1, now_ms=NOW_MS)["users"] == []


def test_lengths_are_written_as_it_writes_them() -> None:
    assert [lasting(1000 * seconds) for seconds in (0, 59, 930, 90_061)] == [
        "0h 0m 0s",
        "0h 0m 59s",
        "0h 15m 30s",
        "25h 1m 1s",
    ]


def test_a_model_is_the_declared_one_else_that_of_a_process() -> None:
    served = card(0, 4096, (7, "vllm", "alice", 1001))
    served["holders"][0]["workload_model"] = "meta-llama/Llama-2-7b"
    declared = {**reservation(1, "bob", 1002, "run", ago_s=60), "workload_model": "mine"}
    found = rows(
        {"cards": [served, card(1, 4), card(2, 4)], "reservations": [declared]}, now_ms=NOW_MS, last_ends_ms={}
    )
    assert [row.get("model") for row in found] == [
        {"provider": "meta-llama", "model": "meta-llama/Llama-2-7b"},
        {"provider": "", "model": "mine"},
        None,
    ]
    lines = table(found).splitlines()[2:]
    assert [("Llama-2-7b" in line, " mine " in line) for line in lines] == [
        (True, False),
        (False, True),
        (False, False),
    ]
