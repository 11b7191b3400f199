"""Kinds of work: Python says of the names of a case what SQL says of them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from gua.core.workloads import SEVERAL, Work, declared, declared_in, together, workload_kind

CASE = Path(__file__).parents[2] / "sql" / "usage" / "a-kind-is-known-by-the-name-of-a-process"


def rows(name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (CASE / name).read_text("utf-8").splitlines()]


def test_kinds_are_those_of_the_case_that_sql_runs() -> None:
    programs = [row["program"] for row in rows("process_ticks.jsonl")]
    found = Counter(workload_kind(None if program is None else str(program)) for program in programs)
    assert found == {row["name"]: row["sessions"] for row in rows("expect.jsonl")}
    assert len(found) > 9


def test_a_server_beside_its_helpers_is_a_server_and_what_was_declared_comes_first() -> None:
    assert together([]) == Work(None, None)
    assert together([Work("Python"), Work("vLLM"), Work("other")]).kind == "vLLM"
    assert together([Work("vLLM"), Work("training")]).kind == "training"
    assert together([Work("Python", "qwen"), Work("Python"), Work("Python", "qwen")]).model == "qwen"
    assert together([Work("Python", "qwen"), Work("Python", "llama")]).model == SEVERAL


def test_a_jobs_name_or_comment_declares_by_two_words() -> None:
    assert declared_in("gua.kind=training") == Work("training", None)
    assert declared_in("nightly, gua.model=meta-llama/Llama-3;gua.kind=serving x=1") == Work(
        "serving", "meta-llama/Llama-3"
    )
    for text in (None, "", "train", "kind=training", "xgua.kind=training", "gua.kind=", "gua.team=x", "gua.model=a=b"):
        assert declared_in(text).kind is None, text
    assert declared_in("gua.model=" + "x" * 97) == Work(None, None)


def test_labels_that_are_none_are_left_out() -> None:
    assert declared({"kind": "serving", "model": "qwen"}) == Work("serving", "qwen")
    for value in (7, None, "", " x", "x\n", "\x1b[2J", "ä" * 49, ["qwen"]):
        assert declared({"kind": value, "model": "qwen"}) == Work(None, "qwen")
