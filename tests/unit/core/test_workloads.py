"""Kinds of work: Python says of the names of a case what SQL says of them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from gua.core.workloads import workload_kind

CASE = Path(__file__).parents[2] / "sql" / "usage" / "a-kind-is-known-by-the-name-of-a-process"


def rows(name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (CASE / name).read_text("utf-8").splitlines()]


def test_kinds_are_those_of_the_case_that_sql_runs() -> None:
    programs = [row["program"] for row in rows("process_ticks.jsonl")]
    found = Counter(workload_kind(None if program is None else str(program)) for program in programs)
    assert found == {row["name"]: row["sessions"] for row in rows("expect.jsonl")}
    assert len(found) > 9
