"""The files of deploy/prometheus, as far as they can be judged without promtool, which tests/pipeline runs."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
import yaml

from servers.promtool import CASES, MARK, QUERIES, RULES, rules


def test_every_query_says_what_it_answers_and_in_which_unit() -> None:
    for file in QUERIES:
        first, _, rest = file.read_text("utf-8").partition("\n")
        assert first.startswith("# "), file.name
        assert len(first) > 30, file.name
        assert rest.strip(), file.name


def test_every_query_alert_and_recorded_series_has_a_case() -> None:
    queried = {
        each["expr"]
        for file in CASES
        for test in yaml.safe_load(file.read_text("utf-8"))["tests"]
        for each in test.get("promql_expr_test", ())
    }
    alerts = Counter(
        (each["alertname"], bool(each["exp_alerts"]))
        for file in CASES
        for test in yaml.safe_load(file.read_text("utf-8"))["tests"]
        for each in test.get("alert_rule_test", ())
    )
    for file in QUERIES:
        assert f"{MARK}{file.stem}" in queried
    for rule in rules():
        if "record" in rule:
            assert rule["record"] in queried
        else:
            assert alerts[rule["alert"], True], f"no case in which {rule['alert']} fires"
            assert alerts[rule["alert"], False], f"no case in which {rule['alert']} is silent"


@pytest.mark.parametrize("rule", [rule for rule in rules() if "alert" in rule], ids=lambda rule: rule["alert"])
def test_an_alert_has_a_grace_time_and_says_what_to_do(rule: dict[str, Any]) -> None:
    assert re.fullmatch(r"[1-9]\d*[mh]", rule["for"])
    assert set(rule["labels"]) == {"severity"}
    assert set(rule["annotations"]) == {"summary", "description"}


def test_names_of_rules_are_not_used_twice() -> None:
    counted = Counter(rule.get("alert") or rule["record"] for rule in rules())
    assert [name for name, count in counted.items() if count > 1] == []
    assert len(RULES) == len({file.stem for file in RULES})
