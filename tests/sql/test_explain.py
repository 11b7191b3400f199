"""What gua explain says is what the views say: every case of the rules through the store and its explanation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from gua.report.explain.explain import ExplainRequest, explain
from sql.engine import Engine
from sql.test_rule_cases import CASES, by_settings

NOON = datetime(2026, 3, 25, 12, tzinfo=UTC)


def test_every_case_of_the_rules_is_explained_as_the_views_judge_it(engine: Engine) -> None:
    wrong, judged = {}, 0
    for settings, cases in by_settings():
        engine.clear()
        if settings:
            engine.insert_rows("settings", ({"key": key, "value": value} for key, value in settings.items()))
        times = [(NOON + timedelta(seconds=30 * number)).isoformat() for number in range(len(cases))]
        engine.insert_rows(
            "card_seen",
            [{"host": "h", "gpu": "g", "first_seen": times[0], "last_seen": times[-1], "longest_ms": 30_000}],
        )
        engine.insert_rows(
            "card_ticks",
            (
                {"host": "h", "gpu": "g", "ts": ts, "duration_ms": 30_000, **case["card"]}
                for ts, case in zip(times, cases.values(), strict=True)
            ),
        )
        now_ms = int(NOON.timestamp() * 1000) + 86_400_000
        result = explain(
            engine.reader,
            ExplainRequest(words=("h", "g", times[0]), around="500", timezone="UTC", now_ms=now_ms),
        )
        for tick, (name, case) in zip(result.ticks, cases.items(), strict=True):
            judged += 1
            found = {"state": tick.row.state, "reason": tick.row.reason}
            if not tick.agrees or found != {key: case["expect"][key] for key in found}:
                wrong[name] = (tick.branches[-1], found, case["expect"])
    assert wrong == {}
    assert judged == len(CASES)
