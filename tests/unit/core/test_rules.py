"""The rules, case by case (tests/cases/rules, which the SQL runs too) and as properties of any card."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gua.core import metrics
from gua.core.errors import UsageError
from gua.core.facts import CardFacts, TypeTotals, card_facts
from gua.core.rules import (
    ProcessState,
    Reason,
    Rules,
    State,
    classify,
    counted,
    process_state,
    threshold_bytes,
    without_process,
)
from gua.core.tick import CardReading, ProcessReading
from gua.core.words import ProcessList, ProcessType

CASES = sorted((Path(__file__).parents[2] / "cases" / "rules").glob("*.json"))
COLUMNS = {
    column.name for metric in metrics.CATALOGUE if metric.subject is metrics.Subject.CARD for column in metric.columns
} | {"process_list", "memory_shared", "mig"}
COUNTED = [kind for kind in ProcessType if kind is not ProcessType.IGNORED]
GIB = 2**30
MIB = 2**20


def facts_of(card: dict[str, Any]) -> CardFacts:
    processes = {
        kind: TypeTotals(
            count=card[f"process_count_{kind}"],
            memory_bytes=card[f"process_memory_{kind}_bytes"],
            unknown=card[f"process_unknown_{kind}"],
        )
        for kind in ProcessType
        if f"process_count_{kind}" in card
    }
    failed = card.get("failed")
    return CardFacts(
        utilization=card.get("utilization"),
        utilization_encoder=card.get("utilization_encoder"),
        utilization_decoder=card.get("utilization_decoder"),
        process_utilization_max=card.get("process_utilization_max"),
        memory_used_bytes=card.get("memory_used_bytes"),
        memory_limit_bytes=card.get("memory_limit_bytes"),
        memory_reserved_bytes=card.get("memory_reserved_bytes"),
        memory_shared=card.get("memory_shared"),
        process_list=ProcessList(card.get("process_list", "absent")),
        processes=processes or None,
        failed=None if failed is None else bool(failed),
        processes_seen=card.get("processes_seen"),
    )


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    case = json.loads(path.read_text())
    facts, rules = facts_of(case["card"]), Rules(**case.get("rules", {}))
    verdict = classify(facts, rules)
    assert {
        "state": verdict.state,
        "reason": verdict.reason,
        "threshold_bytes": verdict.threshold_bytes,
        "held_lower_bytes": verdict.held_lower_bytes,
        "held_upper_bytes": verdict.held_upper_bytes,
        "without_process": without_process(facts, rules),
    } == {"without_process": None, **case["expect"]}, case["about"]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_speaks_only_of_stored_columns_and_known_settings(path: Path) -> None:
    case = json.loads(path.read_text())
    assert set(case) <= {"about", "rules", "card", "expect"}
    assert set(case["card"]) <= COLUMNS
    assert set(case.get("rules", {})) <= {"active_utilization", "held_memory_bytes", "held_memory_ratio"}


def test_the_cases_reach_every_state_and_reason() -> None:
    reached = Counter(
        (expect["state"], expect["reason"]) for path in CASES for expect in [json.loads(path.read_text())["expect"]]
    )
    assert len(CASES) >= 60
    known = {(state.value, None) for state in State if state is not State.UNKNOWN}
    assert set(reached) == known | {("unknown", reason.value) for reason in Reason}
    assert min(reached.values()) >= 3


@pytest.mark.parametrize(
    "settings",
    [
        {"active_utilization": 0.0},
        {"active_utilization": 0.00009},
        {"active_utilization": 1.01},
        {"active_utilization": -0.1},
        {"active_utilization": math.nan},
        {"active_utilization": math.inf},
        {"held_memory_bytes": -1},
        {"held_memory_ratio": -0.01},
        {"held_memory_ratio": 1.01},
        {"held_memory_ratio": math.nan},
    ],
)
def test_a_setting_outside_its_range_is_refused_by_name(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(settings))):
        Rules(**settings)


def test_the_shipped_settings_are_10_percent_100_mib_and_no_ratio() -> None:
    assert Rules() == Rules(active_utilization=0.10, held_memory_bytes=104_857_600, held_memory_ratio=0.0)
    assert Rules().active_from == 1000


@pytest.mark.parametrize(
    ("utilization", "state"),
    [
        (None, ProcessState.UNKNOWN),
        (0, ProcessState.IDLE),
        (999, ProcessState.IDLE),
        (1000, ProcessState.ACTIVE),
        (10_000, ProcessState.ACTIVE),
    ],
)
def test_a_process_is_active_from_the_threshold_and_unknown_without_a_value(
    utilization: int | None, state: ProcessState
) -> None:
    assert process_state(utilization, Rules()) is state


def test_a_reading_is_judged_as_it_is_stored() -> None:
    # 0.09996 is stored as 1000 of 10,000: the report sees 10 %, so status must too.
    card = CardReading(uuid="GPU-1", duration_ms=1, gpu_time_ms=1, utilization=0.09996)
    assert classify(card_facts(card), Rules()).state is State.ACTIVE
    assert classify(card_facts(replace(card, utilization=0.09994)), Rules()).state is State.UNKNOWN


def test_the_verdict_has_the_largest_known_utilization() -> None:
    rules = Rules()
    assert classify(CardFacts(), rules).utilization is None
    assert classify(CardFacts(utilization_encoder=0), rules).utilization == 0
    assert classify(CardFacts(utilization=3, process_utilization_max=7), rules).utilization == 7


def card(memory_used_bytes: int | None, *processes: TypeTotals, **changes: Any) -> CardFacts:  # noqa: ANN401 - any field
    facts = CardFacts(
        utilization=0,
        memory_used_bytes=memory_used_bytes,
        memory_reserved_bytes=0,
        process_list=ProcessList.KNOWN,
        processes=dict(zip((ProcessType.COMPUTE, ProcessType.IGNORED), processes, strict=False)),
    )
    return replace(facts, **changes)


@pytest.mark.parametrize(
    ("facts", "lower", "upper"),
    [
        (card(5 * GIB), 5 * GIB, 5 * GIB),
        (card(5 * GIB, memory_reserved_bytes=None), 4 * GIB, 5 * GIB),
        (card(600 * MIB, memory_reserved_bytes=None), 0, 600 * MIB),
        (card(100 * MIB, TypeTotals(), TypeTotals(count=1, memory_bytes=120 * MIB)), 0, 0),
        (card(5 * GIB, TypeTotals(count=1, memory_bytes=6 * GIB)), 6 * GIB, 6 * GIB),
        (card(5 * GIB, process_list=ProcessList.PID_NAMESPACE, processes=None), 0, 5 * GIB),
        (card(None), 0, None),
    ],
)
def test_what_is_held_is_never_below_0(facts: CardFacts, lower: int, upper: int | None) -> None:
    verdict = classify(facts, Rules())
    assert (verdict.held_lower_bytes, verdict.held_upper_bytes) == (lower, upper)


# Values around what decides, so that chance meets the boundaries.
UTILIZATIONS = st.none() | st.sampled_from([0, 1, 999, 1000, 10_000]) | st.integers(0, 10_000)
MEMORIES = st.sampled_from([0, 1, 100 * MIB, 100 * MIB + 1, GIB, GIB + 100 * MIB, GIB + 100 * MIB + 1]) | st.integers(
    0, 96 * GIB
)


@st.composite
def totals(draw: st.DrawFn) -> TypeTotals:
    unknown = draw(st.integers(0, 2))
    known = draw(st.integers(0, 2))
    return TypeTotals(count=known + unknown, memory_bytes=draw(MEMORIES) if known else 0, unknown=unknown)


@st.composite
def cards(draw: st.DrawFn) -> CardFacts:
    process_list = draw(st.sampled_from(ProcessList))
    known = process_list is ProcessList.KNOWN
    return CardFacts(
        utilization=draw(UTILIZATIONS),
        utilization_encoder=draw(UTILIZATIONS),
        utilization_decoder=draw(UTILIZATIONS),
        process_utilization_max=draw(UTILIZATIONS),
        memory_used_bytes=draw(st.none() | MEMORIES),
        memory_limit_bytes=draw(st.none() | MEMORIES),
        memory_reserved_bytes=draw(st.none() | MEMORIES),
        memory_shared=draw(st.sampled_from([None, False, True])),
        process_list=process_list,
        processes=draw(st.fixed_dictionaries({kind: totals() for kind in ProcessType})) if known else None,
        failed=draw(st.sampled_from([None, False, False, True])),
    )


RULES = st.builds(
    Rules,
    active_utilization=st.sampled_from([0.0001, 0.05, 0.1, 1.0]),
    held_memory_bytes=MEMORIES,
    held_memory_ratio=st.sampled_from([0.0, 0.01, 0.5, 1.0]),
)


@given(cards(), RULES)
def test_every_card_has_one_state_and_a_reason_exactly_if_it_is_unknown(facts: CardFacts, rules: Rules) -> None:
    verdict = classify(facts, rules)
    assert verdict == classify(facts, rules)
    assert verdict.state in State
    assert (verdict.reason is not None) == (verdict.state is State.UNKNOWN)


@given(cards(), RULES)
def test_a_range_has_its_lower_end_below_its_upper_end(facts: CardFacts, rules: Rules) -> None:
    verdict = classify(facts, rules)
    assert verdict.held_lower_bytes >= 0
    assert verdict.held_upper_bytes is None or verdict.held_lower_bytes <= verdict.held_upper_bytes


@given(cards(), RULES)
def test_a_card_is_active_exactly_if_something_ran_and_it_is_not_lost(facts: CardFacts, rules: Rules) -> None:
    verdict = classify(facts, rules)
    ran = verdict.utilization is not None and verdict.utilization >= rules.active_from
    assert (verdict.state is State.ACTIVE) == (ran and not facts.failed)
    assert (verdict.reason is Reason.LOST) == bool(facts.failed)


@given(cards(), RULES, st.integers(1, GIB), st.sampled_from(COUNTED))
def test_more_memory_of_a_process_never_frees_a_held_card(
    facts: CardFacts, rules: Rules, more: int, kind: ProcessType
) -> None:
    if facts.processes is None or facts.processes[kind].count == facts.processes[kind].unknown:
        return
    grown = replace(facts.processes[kind], memory_bytes=facts.processes[kind].memory_bytes + more)
    before = classify(facts, rules).state
    after = classify(replace(facts, processes={**facts.processes, kind: grown}), rules).state
    assert (before, after) != (State.IDLE_HELD, State.TRULY_IDLE)
    assert (before, after) != (State.ACTIVE, State.TRULY_IDLE)


@given(cards(), RULES, st.integers(1, GIB))
def test_more_usage_never_frees_a_held_card(facts: CardFacts, rules: Rules, more: int) -> None:
    if facts.memory_used_bytes is None:
        return
    after = classify(replace(facts, memory_used_bytes=facts.memory_used_bytes + more), rules).state
    assert (classify(facts, rules).state, after) != (State.IDLE_HELD, State.TRULY_IDLE)


@given(cards(), RULES)
def test_a_card_is_never_idle_held_while_its_general_utilization_is_unknown(facts: CardFacts, rules: Rules) -> None:
    assert classify(replace(facts, utilization=None), rules).state is not State.IDLE_HELD


@given(cards(), RULES)
def test_a_process_of_unknown_memory_is_never_truly_idle(facts: CardFacts, rules: Rules) -> None:
    if counted(facts).unknown:
        assert classify(facts, rules).state is not State.TRULY_IDLE


@given(cards(), RULES)
def test_a_utilization_that_cannot_be_read_makes_an_idle_held_card_unknown(facts: CardFacts, rules: Rules) -> None:
    if classify(facts, rules).state is State.IDLE_HELD:
        assert classify(replace(facts, utilization=None), rules).reason is Reason.UTILIZATION


@given(cards(), RULES)
def test_a_truly_idle_card_holds_no_more_than_the_threshold_for_certain(facts: CardFacts, rules: Rules) -> None:
    verdict = classify(facts, rules)
    if verdict.state is State.TRULY_IDLE:
        assert verdict.held_lower_bytes <= threshold_bytes(facts, rules)


@given(st.integers(0, 10_000))
def test_a_card_without_processes_and_memory_is_active_or_truly_idle(utilization: int) -> None:
    facts = card(0, utilization=utilization)
    assert classify(facts, Rules()).state is (State.ACTIVE if utilization >= 1000 else State.TRULY_IDLE)


def test_processes_of_a_list_that_is_not_known_do_not_count() -> None:
    reading = CardReading(
        uuid="GPU-1",
        duration_ms=1,
        gpu_time_ms=1,
        utilization=0.0,
        process_list=ProcessList.FAILED,
        processes=(ProcessReading(pid=1, memory_bytes=GIB),),
    )
    assert counted(card_facts(reading)) == TypeTotals()
