"""Days of processes merged in gua.process_days: the same numbers as from hours and from ticks."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gua.report.hours import choose_hours, read_of
from gua.store.database import Store
from gua.store.report_views import report_views
from sql.engine import Engine, same

BY_THE_HOUR = {"days": [-1], "unmerged_since_ms": 0}
GIB = 2**30
MINUTES = 10
MIDNIGHT = datetime(2026, 3, 25, tzinfo=UTC)
TICKS = 3 * 24 * 60 // MINUTES


def moment(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def fill(engine: Engine, chance: random.Random) -> None:
    """Insert three days of two cards, from 09:00: processes that begin, end, idle, change names, and holes."""
    cards: list[dict[str, Any]] = []
    processes: list[dict[str, Any]] = []
    for gpu in ("GPU-a", "GPU-b"):
        running = {pid: {"utilization": 0, "owner": "ana", "program": "python"} for pid in (1, 2, 3)}
        used_bytes = 0
        for tick in range(TICKS):
            end = MIDNIGHT + timedelta(hours=9, minutes=(tick + 1) * MINUTES)
            if chance.random() < 0.04:
                continue  # a hole
            for pid, one in running.items():
                if chance.random() < 0.04:
                    one["utilization"] = chance.choice([0, 0, 0, 5_000, None])
                if chance.random() < 0.01:
                    one["owner"] = chance.choice(["ana", "ben"])
                if chance.random() < 0.01:
                    one["is_away"] = not one.get("is_away", False)
                if one.get("is_away"):
                    continue
                processes.append(
                    {
                        "host": "node-1",
                        "gpu": gpu,
                        "ts": moment(end),
                        "pid": pid,
                        "created": moment(MIDNIGHT),
                        "duration_ms": MINUTES * 60_000,
                        "gpu_time_ms": MINUTES * 20_000,
                        "type": "compute",
                        "utilization": one["utilization"],
                        "owner": one["owner"],
                        "program": one["program"],
                        "memory_bytes": chance.choice([GIB, 2 * GIB, None]),
                    }
                )
            if chance.random() < 0.03:
                used_bytes = chance.choice([0, 8 * GIB])
            busy = chance.choice([0, 0, 0, 9_000]) if chance.random() < 0.2 else 0
            cards.append(
                {
                    "host": "node-1",
                    "gpu": gpu,
                    "ts": moment(end),
                    "duration_ms": MINUTES * 60_000,
                    "gpu_time_ms": MINUTES * 60_000,
                    "interval_ms": MINUTES * 60_000,
                    "utilization": busy,
                    "memory_used_bytes": used_bytes,
                    "memory_reserved_bytes": 0,
                    "process_list": "known",
                }
            )
    engine.insert_rows("card_ticks", cards)
    engine.insert_rows("process_ticks", processes)
    engine.insert_rows(
        "card_seen",
        [
            {"host": "node-1", "gpu": gpu, "first_seen": cards[0]["ts"], "last_seen": cards[-1]["ts"]}
            | {"longest_ms": MINUTES * 60_000}
            for gpu in ("GPU-a", "GPU-b")
        ],
    )
    engine.insert_rows("card_info", [{"host": "node-1", "gpu": gpu, "model": "H100"} for gpu in ("GPU-a", "GPU-b")])


def answers(engine: Engine, bounds: dict[str, Any], read: dict[str, object]) -> dict[str, list[Any]]:
    """Return the rows of the views that read merged days, in an order of their own."""
    priced = {"price_models": ["H100", "H100"], "price_starts": [0, ms(MIDNIGHT + timedelta(days=1, hours=5))]}
    rows = {
        f"usage {by}": engine.rows("usage", {**bounds, **read, **priced, "by": by})
        for by in ("owner", "identity", "host", "model")
    }
    rows["holders"] = engine.rows("holders", {**bounds, **read, **priced})
    return {name: sorted(found, key=repr) for name, found in rows.items()}


def test_merged_days_give_the_numbers_of_hours_and_ticks(engine: Engine) -> None:
    fill(engine, random.Random(0))  # noqa: S311 - a fixed order, not a secret
    engine.count_hours()
    start = MIDNIGHT + timedelta(hours=9)
    price_start_ms = ms(MIDNIGHT + timedelta(days=1, hours=5))
    for since, until in (
        (start, start + timedelta(days=3)),
        (start + timedelta(hours=3, minutes=7), start + timedelta(days=2, hours=20)),
    ):
        bounds = {"since_ms": ms(since), "until_ms": ms(until), "hosts": ["node-1"]}
        hours = choose_hours(engine.reader, bounds)
        merged = {hour.hour // 24 for hour in hours if hour.is_merged}
        assert len(merged) >= 1
        of_hours = {**read_of(bounds, hours), **BY_THE_HOUR}
        of_ticks = read_of(bounds, choose_hours(engine.reader, bounds, from_ticks=True))
        # A day in which a price starts is read by the hour.
        of_days = read_of(bounds, hours, price_starts_ms=[price_start_ms])
        assert price_start_ms // 86_400_000 not in of_days["days"]
        expected = answers(engine, bounds, of_hours)
        assert same(answers(engine, bounds, of_days), expected)
        assert same(answers(engine, bounds, of_ticks), expected)
        of_every_day = {**bounds, **read_of(bounds, hours), "by": "owner"}
        expected_rows = engine.rows("usage", {**of_every_day, **BY_THE_HOUR})
        assert same(sorted(engine.rows("usage", of_every_day), key=repr), sorted(expected_rows, key=repr))


def test_a_day_with_changed_hours_is_read_hourly_until_it_is_merged_again(engine: Engine) -> None:
    fill(engine, random.Random(9))  # noqa: S311 - a fixed order, not a secret
    engine.count_hours()
    start = MIDNIGHT + timedelta(hours=9)
    bounds = {"since_ms": ms(start), "until_ms": ms(start + timedelta(days=3)), "hosts": []}
    before = read_of(bounds, choose_hours(engine.reader, bounds))["days"]
    late = MIDNIGHT + timedelta(days=1, hours=6)
    engine.insert_rows("hour_marks", [{"host": "node-1", "hour": moment(late), "marks": 1, "marked": moment(late)}])

    changed = read_of(bounds, choose_hours(engine.reader, bounds))["days"]
    engine.count_hours()

    assert set(before) - set(changed) == {ms(late) // 86_400_000}
    assert read_of(bounds, choose_hours(engine.reader, bounds))["days"] == before
    assert engine.select("SELECT * FROM gua.due_days") == []


def test_rows_from_ticks_have_the_columns_of_the_rollups_in_their_order(engine: Engine) -> None:
    if not isinstance(engine.writer, Store):
        pytest.skip("its columns are those of the others")
    hours = {"since_ms": 0, "until_ms": 1, "hosts": [], "tick_hours": [-1]}
    for view, table in (
        ("tick_cards", "hourly_cards"),
        ("tick_card_intervals", "card_intervals"),
        ("tick_process_intervals", "process_intervals"),
        ("tick_allocation_intervals", "allocation_intervals"),
        ("tick_sources", "hourly_sources"),
    ):
        described = engine.writer.select(f"DESCRIBE TABLE ({report_views().query(view)})", hours)
        of_rollup = {"written", "marks", "fingerprint", "first_ms"}
        columns = [row["name"] for row in described if row["name"] not in of_rollup]
        stored = [row["name"] for row in engine.writer.select(f"DESCRIBE TABLE gua.{table}")]

        assert columns == [name for name in stored if name not in of_rollup], view
