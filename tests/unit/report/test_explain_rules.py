"""The lines of the rules that gua explain shows: the last of them gives the state that each case expects."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.explained import tick_row
from gua.core.facts import CardFacts, TypeTotals
from gua.core.rules import Rules, classify
from gua.core.words import ProcessList, ProcessType
from gua.report.explain.explain import branches
from gua.report.explain.model import facts_of

CASES = sorted((Path(__file__).parents[2] / "cases" / "rules").glob("*.json"))
MIB = 2**20
MEMORIES = st.one_of(st.none(), st.sampled_from([0, 99 * MIB, 100 * MIB, 100 * MIB + 1, 1124 * MIB, 1125 * MIB]))
UTILIZATIONS = st.one_of(st.none(), st.sampled_from([0, 999, 1000, 10_000]))
TOTALS = st.builds(
    TypeTotals,
    count=st.integers(0, 2),
    memory_bytes=st.sampled_from([0, 100 * MIB, 100 * MIB + 1]),
    unknown=st.integers(0, 1),
)


@pytest.mark.parametrize("case", [pytest.param(path, id=path.stem) for path in CASES])
def test_the_last_line_gives_the_state_that_the_case_expects(case: Path) -> None:
    data = json.loads(case.read_text("utf-8"))
    has_source = branches(facts_of(tick_row(data["card"])), Rules(**data.get("rules", {})))
    decided = has_source[-1]
    assert (decided.state, decided.reason) == (data["expect"]["state"], data["expect"]["reason"]), data["about"]
    assert [branch.fits for branch in has_source] == [False] * (len(has_source) - 1) + [True]
    assert all(branch.text for branch in has_source)


def test_every_line_of_the_rules_decides_some_case() -> None:
    cases = [json.loads(path.read_text("utf-8")) for path in CASES]
    deciding = {branches(facts_of(tick_row(case["card"])), Rules(**case.get("rules", {})))[-1].line for case in cases}
    assert deciding == {"1", "2", "3a", "3b", "3c", "4a", "4b", "4c", "5"}


@given(
    facts=st.builds(
        CardFacts,
        utilization=UTILIZATIONS,
        utilization_encoder=UTILIZATIONS,
        process_utilization_max=UTILIZATIONS,
        memory_used_bytes=MEMORIES,
        memory_limit_bytes=st.sampled_from([None, 1000 * MIB]),
        memory_reserved_bytes=st.sampled_from([None, 0]),
        memory_shared=st.sampled_from([None, False, True]),
        process_list=st.sampled_from([state for state in ProcessList if state is not ProcessList.KNOWN]),
        failed=st.sampled_from([None, False, True]),
    ),
    listed=st.one_of(st.none(), st.dictionaries(st.sampled_from(list(ProcessType)), TOTALS)),
)
def test_any_card_has_words_for_each_line_that_was_looked_at(
    facts: CardFacts, listed: dict[ProcessType, TypeTotals] | None
) -> None:
    if listed is not None:
        facts = replace(facts, process_list=ProcessList.KNOWN, processes=listed)
    verdict = classify(facts, Rules())
    has_source = branches(facts, Rules())
    assert [branch.line for branch in has_source] == [line.number for line in verdict.lines]
    assert all(branch.text and "None" not in branch.text for branch in has_source)
