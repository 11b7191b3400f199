"""The cards as they are now: since when they are in their state, and judged again by another threshold."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.cards import GIB, INTERVAL_MS, MIB, START_MS, allocated, allocation, card, process, tick
from gua.agent.card_status import (
    MOST_ALLOCATIONS,
    MOST_HOLDERS,
    Standing,
    card_status,
    facts_status,
    follow,
    in_order,
    parse_facts,
    parse_rules,
    reclassify,
)
from gua.core.facts import card_facts
from gua.core.rules import Rules, State, classify
from gua.core.tick import CardReading
from gua.core.words import AllocationStatus, ProcessList, ProcessType, Relation, Use

RULES = Rules()


def after(*ticks: tuple[int, tuple[CardReading, ...]]) -> dict[str, Standing]:
    """Return the cards after ticks at these intervals from the start."""
    known: dict[str, Standing] = {}
    for place, cards in ticks:
        known = follow(known, tick(START_MS + place * INTERVAL_MS, *cards), RULES)
    return known


def status_of(standing: Standing) -> dict[str, Any]:
    return json.loads(json.dumps(card_status(standing, RULES, age_seconds=1.5)))


def test_a_card_seen_first_may_have_been_in_its_state_before() -> None:
    one = after((1, (card(busy=0.9),)))["GPU-1"]
    assert (one.verdict.state, one.state.at_least) == (State.ACTIVE, True)
    assert one.state.since_ms == START_MS


def test_ticks_in_a_row_make_one_stretch() -> None:
    one = after(*((place, (card(busy=0.9),)) for place in range(1, 11)))["GPU-1"]
    assert (one.state.since_ms, one.ts_ms, one.state.at_least) == (START_MS, START_MS + 10 * INTERVAL_MS, True)


def test_a_change_that_was_seen_begins_a_stretch_of_known_length() -> None:
    one = after((1, (card(busy=0.9),)), (2, (card(held=GIB),)), (3, (card(held=GIB),)))["GPU-1"]
    assert (one.verdict.state, one.state.at_least) == (State.IDLE_HELD, False)
    assert one.state.since_ms == START_MS + INTERVAL_MS


def test_another_reason_for_unknown_is_the_same_state() -> None:
    lost = card(failed=True)
    unreadable = card(busy=None, held=GIB)
    one = after((1, (card(),)), (2, (lost,)), (3, (unreadable,)))["GPU-1"]
    assert (one.verdict.state, one.state.since_ms) == (State.UNKNOWN, START_MS + INTERVAL_MS)


@pytest.mark.parametrize(("hole", "known"), [(1, True), (2, True), (2.5, False), (100, False)])
def test_a_hole_of_more_than_two_intervals_ends_what_is_known(hole: float, *, known: bool) -> None:
    first, later = (card(busy=0.9), card(busy=0.9))
    before = follow({}, tick(START_MS, card()), RULES)
    before = follow(before, tick(START_MS + INTERVAL_MS, first), RULES)
    one = follow(before, tick(int(START_MS + INTERVAL_MS * (2 + hole)), later), RULES)["GPU-1"]
    assert one.state.at_least is not known
    assert (one.state.since_ms == START_MS) is known


def test_a_clock_set_back_ends_what_is_known() -> None:
    known = after((100, (card(busy=0.9),)), (101, (card(busy=0.9),)))
    one = follow(known, tick(START_MS, card(busy=0.9)), RULES)["GPU-1"]
    assert (one.state.at_least, one.state.since_ms) == (True, START_MS - INTERVAL_MS)


def test_a_card_leaves_after_two_ticks_without_it() -> None:
    other = card("GPU-2", index=1)
    assert set(after((1, (card(), other)), (2, (other,)))) == {"GPU-1", "GPU-2"}
    assert set(after((1, (card(), other)), (2, (other,)), (3, (other,)))) == {"GPU-2"}


def test_a_card_that_missed_one_tick_keeps_its_stretch() -> None:
    one = after((1, (card(busy=0.9),)), (2, ()), (3, (card(busy=0.9),)))["GPU-1"]
    assert (one.state.since_ms, one.missed) == (START_MS, 0)


@pytest.mark.parametrize(
    ("actions", "since", "is_lower_bound"),
    [
        ([1], 0, True),
        ([0, 1, 4], 1, False),
        ([1, 0, 2], 2, False),
        ([0, 1, None, 1], 3, True),
        ([0, 99], 1, False),
        ([1, 0], None, False),
        ([None], None, False),
    ],
)
def test_a_card_needs_recovery_since_its_first_action_in_a_row(
    actions: list[int | None], since: int | None, *, is_lower_bound: bool
) -> None:
    told = status_of(after(*((n + 1, (card(recovery_action=each),)) for n, each in enumerate(actions)))["GPU-1"])
    seconds = None if since is None else (len(actions) - since) * INTERVAL_MS / 1000
    assert (told["recovery_action"], told["recovery_seconds"]) == (actions[-1], seconds)
    assert told["recovery_is_lower_bound"] is is_lower_bound


def test_a_gap_makes_the_time_of_a_recovery_action_a_lower_bound() -> None:
    told = status_of(after((1, (card(recovery_action=0),)), (9, (card(recovery_action=1),)))["GPU-1"])
    assert (told["recovery_seconds"], told["recovery_is_lower_bound"]) == (INTERVAL_MS / 1000, True)


def test_cards_stand_by_index_and_a_partitioned_one_before_its_instances() -> None:
    known = after(
        (
            1,
            (
                card("MIG-1", index=1, parent="GPU-B"),
                card("GPU-C", index=None),
                card("GPU-B", index=1),
                card("GPU-A", index=0),
            ),
        )
    )
    assert [one.card.uuid for one in in_order(known)] == ["GPU-A", "GPU-B", "MIG-1", "GPU-C"]


def test_the_largest_of_many_holders_are_listed_and_all_are_counted() -> None:
    crowd = tuple(process(pid, pid * MIB) for pid in range(1, 101))
    shown = status_of(after((1, (card(processes=crowd),)))["GPU-1"])
    assert shown["holders_total"] == 100
    assert [one["pid"] for one in shown["holders"]] == list(range(100, 100 - MOST_HOLDERS, -1))


def test_zero_is_reported_as_zero_and_unknown_as_null() -> None:
    shown = status_of(after((1, (card(busy=0.0, power_watts=None, temperature_celsius=0.0),)))["GPU-1"])
    assert (shown["utilization"], shown["power_watts"], shown["temperature_celsius"]) == (0.0, None, 0.0)
    assert shown["memory_used_bytes"] == 0


def uses_of(*cards_: CardReading, hole: float = 0) -> list[tuple[str, float, bool]]:
    """Return the use of each allocation of a card after ticks in a row, for how long, and whether at least."""
    known: dict[str, Standing] = {}
    for place, reading in enumerate(cards_, 1):
        late = hole if place == len(cards_) else 0
        known = follow(known, tick(int(START_MS + (place + late) * INTERVAL_MS), reading), RULES)
    shown = status_of(known["GPU-1"])["allocations"]
    return [(each["use"], each["use_seconds"] / 30, each["use_is_lower_bound"]) for each in shown]


EMPTY = card(**allocated(allocation(relation=Relation.NOBODY, since_ms=START_MS + INTERVAL_MS)))
USED = card(busy=0.9, **allocated(allocation(since_ms=START_MS + INTERVAL_MS)))
FREE = card(**allocated())


def test_an_allocation_stands_with_its_use_and_since_when() -> None:
    assert uses_of(FREE, EMPTY, EMPTY) == [("empty", 2, False)]
    assert uses_of(FREE, EMPTY, USED, EMPTY) == [("empty", 1, False)]
    assert uses_of(FREE, USED, USED, USED) == [("used", 3, False)]


def test_an_allocation_from_before_the_first_tick_may_have_been_so_for_longer() -> None:
    older = card(**allocated(allocation(relation=Relation.NOBODY, since_ms=START_MS - 1)))
    assert uses_of(older, older) == [("empty", 2, True)]
    assert uses_of(older, USED, older) == [("empty", 1, False)]
    assert uses_of(FREE, older, older, hole=2.5) == [("empty", 1, True)]


def test_unknown_ticks_do_not_end_a_use() -> None:
    not_known = card(**allocated(allocation(relation=Relation.UNKNOWN, since_ms=START_MS + INTERVAL_MS)))
    assert uses_of(FREE, EMPTY, not_known, not_known) == [("unknown", 2, False)]
    assert uses_of(FREE, EMPTY, not_known, not_known, EMPTY) == [("empty", 4, False)]
    assert uses_of(FREE, EMPTY, not_known, USED) == [("used", 1, False)]
    assert uses_of(FREE, not_known, EMPTY) == [("empty", 1, False)]


def test_one_that_began_within_a_tick_is_as_old_as_it_is() -> None:
    part = allocated(allocation(relation=Relation.NOBODY, since_ms=START_MS + 20_000, duration_ms=10_000))
    assert uses_of(card(**part)) == [("empty", 10 / 30, False)]


def test_one_that_ended_within_the_tick_has_the_card_no_more() -> None:
    ended = card(**allocated(allocation(until_ms=START_MS + INTERVAL_MS)))
    shown = status_of(after((1, (ended,)))["GPU-1"])
    assert (shown["allocation"], shown["allocations"], shown["allocations_total"]) == ("allocated", [], 0)


def test_a_status_reports_a_cards_allocation_and_null_without_a_source() -> None:
    for reading, expected in ((card(), None), (FREE, "unallocated"), (EMPTY, "allocated")):
        assert status_of(after((1, (reading,)))["GPU-1"])["allocation"] == expected
    unknown = card(allocation=AllocationStatus.UNKNOWN)
    assert status_of(after((1, (unknown,)))["GPU-1"])["allocation"] == "unknown"


def test_an_allocation_is_reported_with_all_known_fields() -> None:
    (shown,) = status_of(after((1, (USED,)), (3, (USED,)))["GPU-1"])["allocations"]
    assert shown == {
        "source": "slurm",
        "id": "77",
        "owner": "ana",
        "uid": 1000,
        "kind": None,
        "job_name": "train",
        "pod_uid": None,
        "pod_name": None,
        "pod_namespace": None,
        "workload_kind": None,
        "workload_model": None,
        "since": "2026-03-25T00:00:30Z",
        "until": None,
        "allocated_seconds": 60,
        "relation": "owner",
        "use": "used",
        "use_since": "2026-03-25T00:00:00Z",
        "use_seconds": 90,
        "use_is_lower_bound": False,
    }


def free_of(*cards_: CardReading) -> tuple[float | None, bool | None, str | None]:
    """Return for how many ticks a card is free after ticks in a row, whether at least, and its previous owner."""
    shown = status_of(after(*((place, (reading,)) for place, reading in enumerate(cards_, 1)))["GPU-1"])
    seconds, after_ = shown["free_seconds"], shown["free_after"]
    assert (shown["free_since"] is None) == (seconds is None)
    return None if seconds is None else seconds / 30, shown["free_is_lower_bound"], after_ and after_["owner"]


def test_a_card_is_free_since_it_was_given_back_however_long_it_is_idle() -> None:
    # Five hours allocated to somebody who was never there, a tick every 30 s, and given back two minutes ago.
    assert free_of(*[EMPTY] * 600, *[FREE] * 4) == (4, False, "ana")
    assert free_of(*[USED] * 3, FREE) == (1, False, "ana")
    assert free_of(*[card(busy=0.9, **allocated())] * 3, FREE, FREE) == (2, False, None)
    assert free_of(FREE, FREE) == (2, True, None)
    assert free_of(FREE, EMPTY) == (None, None, None)
    assert free_of(FREE, card(held=GIB, **allocated())) == (None, None, None)
    assert free_of(card(), card()) == (2, True, None)


def test_a_card_is_free_from_the_end_of_what_ended_within_the_tick() -> None:
    ended = card(**allocated(allocation(until_ms=START_MS + INTERVAL_MS + 20_000, duration_ms=20_000)))
    assert free_of(EMPTY, ended, FREE) == (1 + 10 / 30, False, "ana")
    assert free_of(FREE, ended) == (10 / 30, False, "ana")


def test_a_card_whose_allocation_is_unknown_is_not_reported_as_free() -> None:
    not_known = card(allocation=AllocationStatus.UNKNOWN)
    assert free_of(FREE, not_known) == (None, None, None)
    assert free_of(EMPTY, FREE, not_known, FREE) == (3, False, "ana")
    assert free_of(not_known, not_known, FREE) == (1, True, None)


def test_another_threshold_does_not_know_since_when_a_card_is_free() -> None:
    shown = status_of(after((1, (EMPTY,)), (2, (FREE,)))["GPU-1"])
    judged = reclassify({**shown, "state": State.IDLE_HELD}, RULES)
    assert (judged["free_since"], judged["free_after"]) == (None, None)


@pytest.mark.parametrize("strange_ms", [None, -1, 10**18])
def test_a_time_out_of_range_is_reported_as_null(strange_ms: int | None) -> None:
    reading = card(**allocated(allocation(since_ms=strange_ms, until_ms=10**18)))
    (shown,) = status_of(after((1, (reading,)))["GPU-1"])["allocations"]
    assert (shown["since"], shown["until"]) == (None, None)


def test_some_of_many_allocations_are_listed_and_all_are_counted() -> None:
    many = [allocation(str(number)) for number in range(100)]
    shown = status_of(after((1, (card(**allocated(*many)),)))["GPU-1"])
    assert (len(shown["allocations"]), shown["allocations_total"]) == (MOST_ALLOCATIONS, 100)


def test_another_threshold_judges_the_use_again() -> None:
    held = card(held=GIB, **allocated(allocation(relation=Relation.NOBODY)))
    shown = status_of(after((1, (held,)))["GPU-1"])
    assert shown["allocations"][0]["use"] == Use.UNKNOWN
    (judged,) = reclassify(shown, replace(RULES, held_memory_bytes=2 * GIB))["allocations"]
    assert (judged["use"], judged["use_since"], judged["use_seconds"]) == (Use.EMPTY, None, None)
    assert reclassify(shown, RULES) == shown


def test_a_status_from_before_allocations_is_judged_as_ever() -> None:
    shown = status_of(after((1, (card(held=GIB),)))["GPU-1"])
    older = {name: value for name, value in shown.items() if not name.startswith("allocation")}
    assert reclassify(older, RULES) == older


sizes = st.none() | st.integers(0, 100 * GIB)
ratios = st.none() | st.floats(0, 1)
processes = st.builds(
    lambda pid, memory, utilization, kind: process(pid, memory, utilization=utilization, type=kind),
    st.integers(1, 2**22),
    sizes,
    ratios,
    st.sampled_from(list(ProcessType)),
)
cards = st.builds(
    card,
    busy=ratios,
    utilization_encoder=ratios,
    memory_used_bytes=sizes,
    memory_limit_bytes=sizes,
    memory_reserved_bytes=sizes,
    memory_shared=st.none() | st.booleans(),
    failed=st.none() | st.booleans(),
    process_list=st.sampled_from(list(ProcessList)),
    processes=st.lists(processes, max_size=4).map(tuple),
)


@given(cards)
def test_a_status_carries_everything_that_the_rules_look_at(reading: CardReading) -> None:
    facts = card_facts(reading)
    assert parse_facts(json.loads(json.dumps(facts_status(facts)))) == facts


@given(cards)
def test_the_agents_own_threshold_judges_a_card_as_the_agent_did(reading: CardReading) -> None:
    shown = status_of(after((1, (reading,)))["GPU-1"])
    assert reclassify(shown, RULES) == shown


@given(cards, st.integers(0, 100 * GIB))
def test_another_threshold_judges_as_the_rules_do(reading: CardReading, threshold: int) -> None:
    shown = status_of(after((1, (reading,)))["GPU-1"])
    rules = replace(RULES, held_memory_bytes=threshold)
    verdict = classify(card_facts(reading), rules)
    judged = reclassify(shown, rules)
    assert (judged["state"], judged["reason"]) == (verdict.state, verdict.reason)
    assert judged["threshold_bytes"] == threshold


def test_a_state_by_another_threshold_has_no_known_beginning() -> None:
    shown = status_of(after((1, (card(held=GIB),)))["GPU-1"])
    judged = reclassify(shown, replace(RULES, held_memory_bytes=2 * GIB))
    assert (shown["state"], judged["state"]) == ("idle-held", "truly-idle")
    assert (judged["since"], judged["state_seconds"], judged["state_is_lower_bound"]) == (None, None, None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"utilization": "90"},
        {"utilization": True},
        {"memory_used_bytes": -1},
        {"memory_used_bytes": 1e9},
        {"failed": 1},
        {"process_list": "perhaps"},
        {"processes": []},
        {"processes": {"compute": [1, 2]}},
        {"processes": {"compute": [1, None, 0]}},
        {"processes": {"other": [1, 2, 3]}},
    ],
)
def test_facts_of_a_wrong_kind_are_refused(wrong: dict[str, object]) -> None:
    shown = {**facts_status(card_facts(card())), **wrong}
    with pytest.raises(ValueError):  # noqa: PT011 - whatever is wrong is one error
        parse_facts(shown)


@pytest.mark.parametrize("wrong", [{}, {"active_utilization": 0.1}, {"active_utilization": "x"}])
def test_rules_of_a_wrong_kind_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not the rules"):
        parse_rules(wrong)


def test_time_without_a_process_begins_with_its_first_tick_and_ends_with_a_process() -> None:
    def seconds(*seen: int | None, busy: float = 0.93, last: int | None = None) -> float | None:
        ticks = [
            (place, (card(busy=busy, memory_used_bytes=MIB, processes_seen=one),)) for place, one in enumerate(seen, 1)
        ]
        if last is not None:
            ticks[-1] = (last, ticks[-1][1])
        found = status_of(after(*ticks)["GPU-1"])["without_process_seconds"]
        assert found is None or isinstance(found, float)
        return found

    interval = INTERVAL_MS / 1000
    assert seconds(0) == interval
    assert seconds(1, 0, 0, 0) == 3 * interval
    assert seconds(0, 0, 1) is None
    assert seconds(0, 0, None) is None
    assert seconds(0, 0, busy=0.05) is None
    assert seconds(0, 0, 0, last=9) == interval, "a hole begins it anew"


def test_another_threshold_of_memory_leaves_time_without_a_process_of_an_active_card() -> None:
    status = status_of(after((1, (card(busy=0.93, memory_used_bytes=MIB, processes_seen=0),)))["GPU-1"])
    assert reclassify(status, Rules(held_memory_bytes=0))["without_process_seconds"] is None
    assert reclassify(status, RULES)["without_process_seconds"] == INTERVAL_MS / 1000
