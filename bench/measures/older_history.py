"""A database as gpu-usage-audit 1.8 makes one: eight cards at 30 s, with a process or two on most of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from fakes.older_database import START, OlderDatabase

CARDS = 8
INTERVAL_SECONDS = 30
TICKS_A_DAY = 86_400 // INTERVAL_SECONDS
_NAMES = ("python3", "pt_main_thread", "jupyter-lab", "vllm", "ray::IDLE")
_CARD = (
    "ts", "gpu_uuid", "util_pct", "run_id", "gpu_index", "memory_used_mb", "temperature_c", "power_w", "usage_state",
)  # fmt: skip
_PROCESS = (
    "ts", "gpu_uuid", "pid", "mem_used_mb", "loginuid_user", "owner_user", "run_id", "gpu_index", "process_name",
    "process_type",
)  # fmt: skip


def write(path: Path, *, days: int, hours: int = 24) -> int:
    """Write the first hours of so many days; return how many rows of processes they have. The same every time."""
    database = OlderDatabase(path, "1.7")
    database.host("gpu-node")
    run = database.run(INTERVAL_SECONDS)
    database.connection.executemany(
        "INSERT INTO gpu_device VALUES (?, 'NVIDIA H100 80GB HBM3', 81559, '', '')",
        [(_uuid(card),) for card in range(CARDS)],
    )
    processes = 0
    for day in range(days):
        database.insert("gpu_sample", _CARD, _cards(day, run, hours))
        rows = list(_processes(day, run, hours))
        processes += len(rows)
        database.insert("proc_sample", _PROCESS, rows)
    database.close()
    return processes


def _uuid(card: int) -> str:
    return f"GPU-{card:08d}-0000-0000-0000-000000000000"


def _moments(day: int, hours: int) -> Iterator[tuple[int, str]]:
    for tick in range(day * TICKS_A_DAY, day * TICKS_A_DAY + hours * TICKS_A_DAY // 24):
        yield tick, (START + timedelta(seconds=tick * INTERVAL_SECONDS, microseconds=tick * 37 % 900_000)).isoformat()


def _use(card: int, tick: int) -> tuple[int, int]:
    """Return utilization and how many processes there are: some train, some hold, some stand empty."""
    hour = tick // 120 + card * 5
    busy = hour % 7 < 3
    return (40 + (tick + card) % 60 if busy else tick % 4), 0 if hour % 11 == 0 and not busy else 1 + card % 2


def _cards(day: int, run: int, hours: int) -> Iterator[tuple[object, ...]]:
    for tick, ts in _moments(day, hours):
        for card in range(CARDS):
            util, count = _use(card, tick)
            used = 590 + count * (20_000 + card * 100 + tick // 500 % 64)
            state = "active" if util > 5 else "idle_held" if count else "idle"
            yield ts, _uuid(card), util, run, card, used, 30 + util // 3, 70 + util * 4, state


def _processes(day: int, run: int, hours: int) -> Iterator[tuple[object, ...]]:
    for tick, ts in _moments(day, hours):
        for card in range(CARDS):
            for number in range(_use(card, tick)[1]):
                user = f"user{(card + number + day // 3) % 6}"
                mib = 20_000 + card * 100 + tick // 500 % 64
                yield (
                    ts, _uuid(card), 1_000 + card * 100 + number + day * 10, mib, None if number else user, user, run,
                    card, _NAMES[(card + number + day) % len(_NAMES)], "compute",
                )  # fmt: skip
