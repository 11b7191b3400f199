from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gua.core.facts import CardFacts, TypeTotals, busiest, card_facts, ratio, totals_by_type
from gua.core.tick import CardReading, ProcessReading
from gua.core.words import ProcessList, ProcessType

PROCESSES = (
    ProcessReading(pid=1, memory_bytes=100, utilization=0.25),
    ProcessReading(pid=2, memory_bytes=0, utilization=0.0),
    ProcessReading(pid=3, memory_bytes=None, utilization=None),
    ProcessReading(pid=4, type=ProcessType.IGNORED, memory_bytes=7),
)


def card(process_list: ProcessList, *processes: ProcessReading, utilization: float | None = None) -> CardReading:
    return CardReading(
        uuid="GPU-1",
        duration_ms=30_000,
        gpu_time_ms=30_000,
        process_list=process_list,
        processes=processes,
        utilization=utilization,
    )


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (None, None),
        (0.0, 0),
        (1.0, 10_000),
        (0.1, 1_000),
        (0.09994, 999),
        (0.09996, 1_000),
        (0.29, 2_900),
        (0.57, 5_700),
        (0.00005, 0),
        (0.00025, 2),
    ],
)
def test_a_ratio_is_stored_in_ten_thousandths_rounded_half_to_even(value: float | None, stored: int | None) -> None:
    assert ratio(value) == stored


@given(st.integers(0, 10_000))
def test_a_stored_ratio_survives_the_way_over_the_wire(stored: int) -> None:
    assert ratio(stored / 10_000) == stored


def test_the_driver_s_whole_percents_are_stored_exactly() -> None:
    assert [ratio(percent / 100) for percent in range(101)] == [percent * 100 for percent in range(101)]


def test_totals_count_known_memory_and_how_many_are_unknown_by_type() -> None:
    assert totals_by_type(PROCESSES) == {
        ProcessType.COMPUTE: TypeTotals(count=3, memory_bytes=100, unknown=1),
        ProcessType.GRAPHICS: TypeTotals(),
        ProcessType.MPS: TypeTotals(),
        ProcessType.IGNORED: TypeTotals(count=1, memory_bytes=7, unknown=0),
    }


def test_a_process_without_memory_is_not_one_of_unknown_memory() -> None:
    assert totals_by_type((ProcessReading(pid=1, memory_bytes=0),))[ProcessType.COMPUTE] == TypeTotals(count=1)


def test_an_empty_known_list_has_totals_of_0_for_every_type() -> None:
    assert card_facts(card(ProcessList.KNOWN)).processes == {kind: TypeTotals() for kind in ProcessType}


@pytest.mark.parametrize("process_list", [ProcessList.FAILED, ProcessList.PID_NAMESPACE, ProcessList.ABSENT])
def test_a_list_that_is_not_known_has_no_totals(process_list: ProcessList) -> None:
    assert card_facts(card(process_list, *PROCESSES)).processes is None


def test_the_busiest_process_is_the_largest_known_utilization() -> None:
    assert busiest(PROCESSES) == 0.25
    assert busiest(PROCESSES[1:]) == 0.0
    assert busiest(PROCESSES[2:]) is None
    assert busiest(()) is None


def test_a_process_s_utilization_is_seen_also_where_the_list_is_not_known() -> None:
    assert card_facts(card(ProcessList.PID_NAMESPACE, *PROCESSES)).process_utilization_max == 2_500


def test_a_reading_without_known_values_gives_facts_without_known_values() -> None:
    assert card_facts(card(ProcessList.ABSENT)) == CardFacts()
    facts = CardFacts()
    assert {getattr(facts, field.name) for field in fields(facts)} == {None, ProcessList.ABSENT}


def test_zeros_of_a_reading_stay_zeros() -> None:
    facts = card_facts(
        CardReading(
            uuid="GPU-1",
            duration_ms=1,
            gpu_time_ms=0,
            utilization=0.0,
            utilization_encoder=0.0,
            utilization_decoder=0.0,
            memory_used_bytes=0,
            memory_limit_bytes=0,
            memory_reserved_bytes=0,
            memory_shared=False,
            failed=False,
        )
    )
    assert facts == CardFacts(
        utilization=0,
        utilization_encoder=0,
        utilization_decoder=0,
        memory_used_bytes=0,
        memory_limit_bytes=0,
        memory_reserved_bytes=0,
        memory_shared=False,
        failed=False,
    )
    assert facts.utilization is not None
