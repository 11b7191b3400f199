"""What became of what was allocated, as SQL: the cases that Python runs through too (tests/cases/allocation)."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from sql.engine import Engine

CASES = {
    path.stem: json.loads(path.read_text("utf-8"))
    for path in sorted((Path(__file__).parents[1] / "cases" / "allocation").glob("*.json"))
}
AT = {"host": "h", "ts": "2026-03-25T12:00:00Z"}


def insert(engine: Engine, cases: dict[str, Any]) -> None:
    engine.insert_rows("card_ticks", ({**AT, "gpu": name, **case["card"]} for name, case in cases.items()))
    engine.insert_rows(
        "allocation_ticks",
        (
            {**AT, "gpu": name, "allocation_id": each["id"], **{key: each[key] for key in each.keys() - {"id"}}}
            for name, case in cases.items()
            for each in case["allocations"]
        ),
    )


def test_every_case_has_the_parts_that_it_expects(engine: Engine) -> None:
    groups: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for name, case in CASES.items():
        groups[json.dumps(case.get("rules", {}))][name] = case
    wrong, judged = {}, 0
    for settings, cases in groups.items():
        engine.clear()
        if json.loads(settings):
            engine.insert_rows(
                "settings", ({"key": key, "value": value} for key, value in json.loads(settings).items())
            )
        insert(engine, cases)
        found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in engine.rows("allocation_states", None):
            assert row["state"] == CASES[row["gpu"]]["expect"]["state"], row["gpu"]
            part = {name: row[name] for name in ("source", "use", "is_shared", "gpu_time_ms")}
            found[row["gpu"]].append({**part, "id": row["allocation_id"]})
        for name, case in cases.items():
            judged += 1
            if by_name(found[name]) != by_name(case["expect"]["parts"]):
                wrong[name] = {"found": found[name], "expected": case["expect"]["parts"], "about": case["about"]}
    assert wrong == {}
    assert judged == len(CASES) >= 40


def test_hours_have_the_same_uses_from_ticks_and_counted(engine: Engine) -> None:
    cases = {name: case for name, case in CASES.items() if not case.get("rules")}
    insert(engine, cases)
    expected: defaultdict[tuple[str, str], int] = defaultdict(int)
    for name, case in cases.items():
        for part in case["expect"]["parts"]:
            expected[name, part["use"]] += part["gpu_time_ms"]
    for _ in range(2):
        found: defaultdict[tuple[str, str], int] = defaultdict(int)
        for row in engine.rows("allocation_hours", None):
            found[row["gpu"], row["use"]] += row["gpu_time_ms"]
        assert found == {key: ms for key, ms in expected.items() if ms}
        engine.count_hours()


def by_name(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the parts in one order."""
    return sorted(parts, key=lambda part: (part["source"], part["id"], part["use"], part["gpu_time_ms"]))
