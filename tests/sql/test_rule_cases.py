"""The rules as SQL: the cases that Python runs through too (tests/cases/rules)."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from sql.engine import Engine

CASES = {
    path.stem: json.loads(path.read_text("utf-8"))
    for path in sorted((Path(__file__).parents[1] / "cases" / "rules").glob("*.json"))
}
COMPARED = ("state", "reason", "threshold_bytes", "held_lower_bytes", "held_upper_bytes", "without_process")


def by_settings() -> list[tuple[dict[str, float], dict[str, Any]]]:
    """Return the cases grouped by the settings that they run under."""
    groups: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for name, case in CASES.items():
        groups[json.dumps(case.get("rules", {}), sort_keys=True)][name] = case
    return [(json.loads(settings), cases) for settings, cases in groups.items()]


def test_every_case_has_the_state_that_it_expects(engine: Engine) -> None:
    wrong, judged = {}, 0
    for settings, cases in by_settings():
        engine.clear()
        if settings:
            engine.insert_rows("settings", ({"key": key, "value": value} for key, value in settings.items()))
        engine.insert_rows(
            "card_ticks",
            (
                {"host": "h", "gpu": name, "ts": "2026-03-25T12:00:00Z", "duration_ms": 30_000, **case["card"]}
                for name, case in cases.items()
            ),
        )
        found = {row["gpu"]: {column: row[column] for column in COMPARED} for row in engine.rows("card_states", None)}
        judged += len(found)
        wrong |= {
            name: {"found": found.get(name), "expected": case["expect"], "about": case["about"]}
            for name, case in cases.items()
            if found.get(name) != {"without_process": None, **case["expect"]}
        }
    assert wrong == {}
    assert judged == len(CASES) >= 40
