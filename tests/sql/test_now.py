"""The views of the present, on ticks of the last minutes, and of what agents say of themselves."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from sql.cases import internal_views
from sql.engine import Engine

GIB = 2**30


def ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def card(seconds_ago: float, *, gpu: str = "GPU-a", utilization: int = 0, used: int = 8 * GIB) -> dict[str, Any]:
    return {
        "host": "node-1",
        "gpu": gpu,
        "ts": ago(seconds_ago),
        "duration_ms": 30_000,
        "gpu_time_ms": 30_000,
        "interval_ms": 30_000,
        "utilization": utilization,
        "memory_used_bytes": used,
        "memory_reserved_bytes": 0,
        "process_list": "known",
    }


def process(seconds_ago: float, pid: int, utilization: int | None = 0) -> dict[str, Any]:
    return {
        "host": "node-1",
        "gpu": "GPU-a",
        "ts": ago(seconds_ago),
        "pid": pid,
        "created": ago(3600),
        "duration_ms": 30_000,
        "gpu_time_ms": 10_000,
        "owner": "alice",
        "program": "python",
        "type": "compute",
        "utilization": utilization,
    }


def insert_cards(engine: Engine, rows: list[dict[str, Any]]) -> None:
    engine.insert_rows("card_ticks", rows)
    engine.insert_rows(
        "card_seen",
        [
            {name: row[name] for name in ("host", "gpu")}
            | {"first_seen": row["ts"], "last_seen": row["ts"], "longest_ms": 30_000}
            for row in rows
        ],
    )


def seconds_since(time: str) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds()


def test_a_card_that_was_seen_just_now_has_the_state_of_its_newest_tick(engine: Engine) -> None:
    insert_cards(engine, [card(70, utilization=9000), card(40), card(10)])
    (row,) = engine.select("SELECT * FROM gua.current_cards")
    assert (row["state"], row["reason"], row["last_state"], row["stale"]) == ("idle-held", None, "idle-held", False)
    assert 10_000 <= row["age_ms"] < 60_000
    assert 55_000 < row["in_state_ms"] < 65_000
    assert 65 < seconds_since(row["since"]) < 120


def test_a_card_is_stale_after_three_intervals_without_a_tick(engine: Engine) -> None:
    insert_cards(engine, [card(60, gpu="GPU-a"), card(91, gpu="GPU-b", used=0)])
    rows = engine.select("SELECT gpu, stale, state, last_state FROM gua.current_cards ORDER BY gpu")
    assert [tuple(row.values()) for row in rows] == [
        ("GPU-a", False, "idle-held", "idle-held"),
        ("GPU-b", True, "unobserved", "truly-idle"),
    ]


def test_a_tick_two_minutes_ahead_counts_as_newest_and_one_decades_ahead_is_ignored(engine: Engine) -> None:
    insert_cards(engine, [card(-120), {**card(0), "ts": "2106-01-01T00:00:00Z"}])
    (row,) = engine.select("SELECT age_ms, stale, state FROM gua.current_cards")
    assert -120_000 <= row["age_ms"] < -60_000
    assert (row["stale"], row["state"]) == (False, "idle-held")


def test_a_holder_is_idle_since_the_start_of_the_episode_that_goes_on(engine: Engine) -> None:
    times = [101, 71, 41, 11]
    stamps = {seconds: ago(seconds) for seconds in times}
    insert_cards(engine, [{**card(seconds), "ts": stamps[seconds]} for seconds in times])
    born = ago(3600)
    states: dict[int, list[int | None]] = {
        1: [9000, 0, None, 0],  # idle, unknown, idle: 71 + 30 s ago
        2: [0, 0, 0, 9000],  # at work
        3: [0, 0, 0, None],  # not known: not idle
        4: [0, 0, 9000, 0],  # only the newest tick
    }
    engine.insert_rows(
        "process_ticks",
        [
            {**process(seconds, pid, utilization), "ts": stamps[seconds], "created": born}
            for pid, row in states.items()
            for seconds, utilization in zip(times, row, strict=True)
        ],
    )
    rows = engine.select("SELECT * FROM gua.current_holders ORDER BY pid")
    assert [(row["pid"], row["state"], row["idle_ms"]) for row in rows] == [
        (1, "idle", 60_000),
        (2, "active", None),
        (3, "unknown", None),
        (4, "idle", 30_000),
    ]
    since = {row["pid"]: datetime.fromisoformat(row["idle_since"]) for row in rows if row["idle_since"] is not None}
    # Since the first of these ticks began; to the second.
    begun = {pid: datetime.fromisoformat(stamps[at]) - timedelta(seconds=30) for pid, at in ((1, 71), (4, 11))}
    assert since.keys() == begun.keys()
    assert all(abs(since[pid] - begun[pid]) < timedelta(seconds=1) for pid in begun)
    assert {row["card_state"] for row in rows} == {"idle-held"}


def parts_read(engine: Engine, query: str, table: str) -> tuple[int, int]:
    """Return how many parts of a table's the engine would read, and how many there are."""
    plan = "\n".join(line["explain"] for line in engine.select(f"EXPLAIN indexes = 1 {query}"))
    found = re.search(r"Parts: (\d+)/(\d+)", plan[plan.index(f"({table})") :])
    assert found, plan
    return int(found[1]), int(found[2])


def test_only_the_days_around_the_newest_tick_are_read(engine: Engine) -> None:
    insert_cards(engine, [card(86_400 * day) for day in range(20)])
    read, there = parts_read(engine, "SELECT * FROM gua.current_cards", "gua.card_ticks")
    assert read <= 3 < there


def test_a_card_long_gone_does_not_make_the_days_between_be_read(engine: Engine) -> None:
    engine.insert_rows("card_ticks", [card(86_400 * day) for day in range(20)])
    seen = {"host": "node-1", "first_seen": ago(86_400 * 20), "longest_ms": 30_000}
    engine.insert_rows(
        "card_seen",
        [{**seen, "gpu": "GPU-a", "last_seen": ago(0)}, {**seen, "gpu": "GPU-z", "last_seen": ago(86_400 * 15)}],
    )
    read, there = parts_read(engine, "SELECT * FROM gua.current_cards", "gua.card_ticks")
    assert read <= 6 < there


def point(metric: str, value: float, time: str, **attributes: str) -> dict[str, Any]:
    return {
        "ResourceAttributes": {"host.name": "node-1", "service.instance.id": "one", "service.version": "9"},
        "ScopeName": "gua",
        "MetricName": metric,
        "Attributes": attributes,
        "StartTimeUnix": time,
        "TimeUnix": time,
        "Value": value,
        "Flags": 0,
    }


def test_each_tick_of_an_agents_own_metrics_is_one_row_if_raw_points_are_stored(engine: Engine) -> None:
    time = ago(60)  # raw points are soon dropped
    for _ in range(2):  # the Collector may deliver twice
        engine.insert_rows(
            "otel_metrics_gauge",
            [
                point("gua.agent.tick.duration", 0.25, time),
                point("gua.agent.tick.lateness", 0.0, time),
                point("gua.agent.spool.ticks", 3, time),
            ],
        )
        engine.insert_rows(
            "otel_metrics_sum",
            [
                {**each, "AggregationTemporality": 2, "IsMonotonic": True}
                for each in (
                    point("gua.agent.errors", 2, time, call="nvmlDeviceGetPowerUsage", code="15"),
                    point("gua.agent.errors", 5, time, call="nvmlDeviceGetPowerUsage", code="999"),
                )
            ],
        )
    row = {
        "host": "node-1",
        "instance": "one",
        "version": "9",
        "tick_duration_seconds": 0.25,
        "tick_lateness_seconds": 0,
        "spool_ticks": 3,
        "spool_bytes": None,
        "dropped_ticks": None,
        "errors": 7,
    }
    found = engine.select("SELECT * EXCEPT (ts) FROM gua.agent_ticks")
    assert found == ([row] if engine.name == "served" else [])


def test_plain_views_can_be_introspected_and_read_by_tools_that_know_nothing_of_them(engine: Engine) -> None:
    names = [
        row["name"]
        for row in engine.select("SELECT name FROM system.tables WHERE database = 'gua' AND engine = 'View'")
    ]
    assert {"card_states", "current_cards", "current_holders", "agent_ticks"} <= set(names)
    for name in names:
        described = engine.select(f"DESCRIBE TABLE gua.{name}")
        listed = engine.select(f"SELECT name, type FROM system.columns WHERE database = 'gua' AND table = '{name}'")
        assert [(row["name"], row["type"]) for row in described] == [(row["name"], row["type"]) for row in listed], name
        assert listed, name
        assert name in internal_views() or not [row for row in listed if "Aggregate" in row["type"]], name
        engine.select(f"SELECT * FROM gua.{name} LIMIT 10")
