from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.allocations import allocated_card
from gua.core.allocation import Allocation, AllocationLook, AllocationMatcher, SourceHealth, belongs, parts, use
from gua.core.rules import State
from gua.core.tick import AllocationReading, CardReading, ProcessReading
from gua.core.words import AllocationStatus, Mig, ProcessList, ProcessType, Relation, Use

TS_MS = 1_774_413_000_000
SPAN_MS = 30_000
CARD = CardReading(uuid="GPU-a", duration_ms=SPAN_MS, gpu_time_ms=SPAN_MS, process_list=ProcessList.KNOWN)
JOB = Allocation(
    source="slurm",
    id="7",
    cards=frozenset({"GPU-a"}),
    since_ms=TS_MS - 3_600_000,
    owner="ada",
    uid=1000,
    kind="job",
    job_name="train",
    slurm_job_id="7",
)
POD = Allocation(
    source="kubernetes",
    id="lab/train-0",
    cards=frozenset({"GPU-a"}),
    since_ms=TS_MS - 3_600_000,
    pod_uid="6f1d",
    pod_name="train-0",
    pod_namespace="lab",
)
ADA = ProcessReading(pid=1, owner="ada", uid=1000, slurm_job_id="7")
BOB = ProcessReading(pid=2, owner="bob", uid=1001)
NOTHING_KNOWN = ProcessReading(pid=3)
XORG = ProcessReading(pid=4, owner="root", uid=0, type=ProcessType.IGNORED)


def look(*allocations: Allocation, reason: str | None = None, unknown: str | None = None) -> AllocationLook:
    unknown_cards = frozenset() if unknown is None else frozenset({unknown})
    return AllocationLook(
        allocations=allocations, sources=(SourceHealth(source="slurm", reason=reason, unknown_cards=unknown_cards),)
    )


def allocated(
    *allocations: Allocation, card: CardReading = CARD, matcher: AllocationMatcher | None = None, ts_ms: int = TS_MS
) -> CardReading:
    return allocated_card(matcher or AllocationMatcher(), card, look(*allocations), ts_ms=ts_ms)


def relation(card: CardReading, allocation: Allocation, beside: list[Allocation]) -> Relation:
    """Return how an allocation stands on a card; ``beside`` are the other allocations that have it."""
    found = allocated(allocation, *beside, card=card).allocations
    return next(each.relation for each in found if (each.source, each.id) == allocation.key)


def told(card: CardReading) -> list[tuple[str, Relation, int, int]]:
    return [(each.id, each.relation, each.duration_ms, each.gpu_time_ms) for each in card.allocations]


def with_processes(*processes: ProcessReading, listed: ProcessList = ProcessList.KNOWN) -> CardReading:
    return replace(CARD, processes=processes, process_list=listed)


# Looked at or not


def test_without_a_source_a_card_stays_as_it_was() -> None:
    assert allocated_card(AllocationMatcher(), CARD, AllocationLook(), ts_ms=TS_MS) == CARD
    assert parts(CARD, State.TRULY_IDLE) == ()


def test_a_card_that_every_source_leaves_out_is_unallocated() -> None:
    card = allocated()
    assert (card.allocation, card.unallocated_gpu_time_ms, card.allocations) == (
        AllocationStatus.UNALLOCATED,
        SPAN_MS,
        (),
    )


@pytest.mark.parametrize("found", [look(reason="cannot be read"), look(unknown="GPU-a")])
def test_a_card_that_a_failed_source_may_cover_is_unknown_and_never_free(found: AllocationLook) -> None:
    card = allocated_card(AllocationMatcher(), CARD, found, ts_ms=TS_MS)
    assert (card.allocation, card.unallocated_gpu_time_ms) == (AllocationStatus.UNKNOWN, None)
    assert [(part.use, part.gpu_time_ms) for part in parts(card, State.TRULY_IDLE)] == [(Use.UNKNOWN, SPAN_MS)]


def test_a_source_that_fails_for_one_card_still_covers_the_others() -> None:
    card = allocated_card(AllocationMatcher(), CARD, look(unknown="GPU-b"), ts_ms=TS_MS)
    assert card.allocation is AllocationStatus.UNALLOCATED


def test_an_allocation_of_another_source_counts_while_one_source_failed_and_the_rest_is_unknown() -> None:
    half = replace(JOB, since_ms=TS_MS - 10_000)
    card = allocated_card(AllocationMatcher(), CARD, look(half, reason="cannot be read"), ts_ms=TS_MS)
    assert (card.allocation, card.unallocated_gpu_time_ms) == (AllocationStatus.ALLOCATED, None)
    assert [(part.use, part.gpu_time_ms) for part in parts(card, State.TRULY_IDLE)] == [
        (Use.EMPTY, 10_000),
        (Use.UNKNOWN, 20_000),
    ]


# Begin and end


def test_a_tick_in_which_an_allocation_began_is_divided() -> None:
    card = allocated(replace(JOB, since_ms=TS_MS - 12_345))
    assert told(card) == [("7", Relation.NOBODY, 12_345, 12_345)]
    assert card.unallocated_gpu_time_ms == SPAN_MS - 12_345
    assert card.allocations[0].since_ms == TS_MS - 12_345


def test_an_allocation_that_ended_within_the_tick_keeps_the_relation_of_the_tick_before() -> None:
    matcher = AllocationMatcher()
    assert told(allocated(JOB, card=with_processes(ADA), matcher=matcher)) == [("7", Relation.OWNER, SPAN_MS, SPAN_MS)]
    ended = allocated(replace(JOB, until_ms=TS_MS + 10_000), matcher=matcher, ts_ms=TS_MS + SPAN_MS)
    assert told(ended) == [("7", Relation.OWNER, 10_000, 10_000)]
    assert ended.unallocated_gpu_time_ms == 20_000


def test_one_that_began_and_ended_within_a_tick_was_never_looked_at() -> None:
    short = replace(JOB, since_ms=TS_MS - 20_000, until_ms=TS_MS - 5_000)
    assert told(allocated(short, card=with_processes(ADA))) == [("7", Relation.UNKNOWN, 15_000, 15_000)]


def test_the_relation_of_one_that_ended_is_forgotten_with_it() -> None:
    matcher = AllocationMatcher()
    allocated(JOB, card=with_processes(ADA), matcher=matcher)
    for later in (TS_MS + SPAN_MS, TS_MS + 2 * SPAN_MS):
        allocated(matcher=matcher, ts_ms=later)
    again = replace(JOB, since_ms=TS_MS + 2 * SPAN_MS + 1, until_ms=TS_MS + 2 * SPAN_MS + 1_001)
    assert told(allocated(again, matcher=matcher, ts_ms=TS_MS + 3 * SPAN_MS)) == [("7", Relation.UNKNOWN, 1_000, 1_000)]


def test_the_relation_of_one_that_ended_is_forgotten_while_another_has_the_card() -> None:
    matcher = AllocationMatcher()
    other = replace(JOB, id="8", slurm_job_id="8")
    allocated(JOB, other, card=with_processes(ADA), matcher=matcher)
    for number in (1, 2, 3):
        between = (other,) if number % 2 else (other, replace(other, id="9"))
        allocated(*between, card=with_processes(ADA), matcher=matcher, ts_ms=TS_MS + number * SPAN_MS)
    again = replace(JOB, since_ms=TS_MS + 3 * SPAN_MS, until_ms=TS_MS + 4 * SPAN_MS - 1)
    card = allocated(again, other, card=with_processes(ADA), matcher=matcher, ts_ms=TS_MS + 4 * SPAN_MS)
    assert [each[:2] for each in told(card)] == [("7", Relation.UNKNOWN), ("8", Relation.OTHERS)]


def test_one_job_after_the_other_in_one_tick_each_has_its_part_and_its_relation() -> None:
    matcher = AllocationMatcher()
    allocated(JOB, card=with_processes(ADA), matcher=matcher)
    first = replace(JOB, until_ms=TS_MS + 10_000)
    second = replace(JOB, id="8", slurm_job_id="8", uid=1001, owner="bob", since_ms=TS_MS + 12_000)
    card = allocated(first, second, card=with_processes(BOB), matcher=matcher, ts_ms=TS_MS + SPAN_MS)
    assert told(card) == [("7", Relation.OWNER, 10_000, 10_000), ("8", Relation.OWNER, 18_000, 18_000)]
    assert card.unallocated_gpu_time_ms == 2_000


@pytest.mark.parametrize(
    ("since_ms", "until_ms"), [(TS_MS - 60_000, TS_MS - 30_000), (TS_MS, None), (TS_MS + 900, None), (TS_MS, TS_MS)]
)
def test_one_that_covers_nothing_of_the_tick_is_none_of_it(since_ms: int, until_ms: int | None) -> None:
    card = allocated(replace(JOB, since_ms=since_ms, until_ms=until_ms))
    assert (card.allocation, card.allocations) == (AllocationStatus.UNALLOCATED, ())


def test_one_that_will_end_later_has_the_whole_tick_and_says_when() -> None:
    (reading,) = allocated(replace(JOB, until_ms=TS_MS + 60_000)).allocations
    assert (reading.duration_ms, reading.until_ms) == (SPAN_MS, TS_MS + 60_000)


# Clock steps


def test_a_clock_set_back_before_the_allocation_leaves_the_card_allocated() -> None:
    matcher = AllocationMatcher()
    allocated(JOB, card=with_processes(ADA), matcher=matcher)
    back_ms = TS_MS - 2 * 3_600_000
    for ts_ms in (back_ms, back_ms + SPAN_MS):
        assert told(allocated(JOB, card=with_processes(ADA), matcher=matcher, ts_ms=ts_ms)) == [
            ("7", Relation.OWNER, SPAN_MS, SPAN_MS)
        ]


def test_a_clock_set_forward_leaves_the_card_allocated() -> None:
    matcher = AllocationMatcher()
    allocated(JOB, matcher=matcher)
    assert told(allocated(JOB, matcher=matcher, ts_ms=TS_MS + 86_400_000)) == [("7", Relation.NOBODY, SPAN_MS, SPAN_MS)]


# Several at once


def test_several_at_once_have_equal_parts_to_the_millisecond() -> None:
    three = [replace(JOB, id=name, slurm_job_id=name) for name in "abc"]
    card = allocated(*three, card=replace(CARD, duration_ms=100, gpu_time_ms=100))
    assert [each.gpu_time_ms for each in card.allocations] == [34, 33, 33]
    assert [each.duration_ms for each in card.allocations] == [100, 100, 100]
    assert card.unallocated_gpu_time_ms == 0


def test_overlapping_ones_share_only_what_they_have_at_the_same_time() -> None:
    first = replace(JOB, id="a", until_ms=TS_MS - 10_000)
    second = replace(JOB, id="b", since_ms=TS_MS - 20_000)
    assert [(each.id, each.gpu_time_ms) for each in allocated(first, second).allocations] == [
        ("a", 10_000 + 5_000),
        ("b", 5_000 + 10_000),
    ]


def test_the_order_of_sources_changes_nothing() -> None:
    some = [replace(JOB, id=name) for name in ("10", "9", "b", "a")]
    assert allocated(*some) == allocated(*reversed(some))


def test_the_same_source_and_id_twice_counts_once() -> None:
    assert told(allocated(JOB, JOB)) == [("7", Relation.NOBODY, SPAN_MS, SPAN_MS)]


# MIG


INSTANCE = replace(CARD, uuid="MIG-1", gpu_time_ms=SPAN_MS * 3 // 7, mig=Mig.INSTANCE, parent="GPU-a")
PARENT = replace(CARD, gpu_time_ms=SPAN_MS * 4 // 7, mig=Mig.PARENT)


def test_an_allocated_gpu_is_allocated_with_its_instances() -> None:
    assert told(allocated(JOB, card=INSTANCE)) == [("7", Relation.NOBODY, SPAN_MS, SPAN_MS * 3 // 7)]
    assert told(allocated(JOB, card=PARENT)) == [("7", Relation.NOBODY, SPAN_MS, SPAN_MS * 4 // 7)]


def test_an_allocated_instance_does_not_allocate_its_gpu() -> None:
    job = replace(JOB, cards=frozenset({"MIG-1"}))
    assert allocated(job, card=INSTANCE).allocation is AllocationStatus.ALLOCATED
    assert allocated(job, card=PARENT).allocation is AllocationStatus.UNALLOCATED


def test_one_that_names_the_gpu_and_its_instance_counts_once_on_the_instance() -> None:
    both = replace(JOB, cards=frozenset({"MIG-1", "GPU-a"}))
    beside = replace(JOB, id="8", slurm_job_id="8", cards=frozenset({"MIG-1"}))
    assert told(allocated(both, card=INSTANCE)) == [("7", Relation.NOBODY, SPAN_MS, SPAN_MS * 3 // 7)]
    assert [each.id for each in allocated(beside, both, card=INSTANCE).allocations] == ["7", "8"]


def test_a_source_that_fails_for_a_gpu_fails_for_its_instances() -> None:
    assert (
        allocated_card(AllocationMatcher(), INSTANCE, look(unknown="GPU-a"), ts_ms=TS_MS).allocation
        is AllocationStatus.UNKNOWN
    )
    assert (
        allocated_card(AllocationMatcher(), PARENT, look(unknown="MIG-1"), ts_ms=TS_MS).allocation
        is AllocationStatus.UNALLOCATED
    )


def test_a_card_without_gpu_time_reports_its_allocation() -> None:
    card = allocated(JOB, card=replace(PARENT, gpu_time_ms=0))
    assert told(card) == [("7", Relation.NOBODY, SPAN_MS, 0)]
    assert parts(card, State.TRULY_IDLE)[0].gpu_time_ms == 0


# Who belongs to an allocation


@pytest.mark.parametrize(
    ("process", "allocation", "expected"),
    [
        # A Slurm job id decides before a user id does.
        (ADA, JOB, True),
        (replace(ADA, slurm_job_id="8"), JOB, False),
        (replace(BOB, slurm_job_id="7"), JOB, True),
        (replace(ADA, slurm_job_id=None), JOB, True),
        (BOB, JOB, False),
        # A user id decides before a name does; 0 is root, a known user.
        (ProcessReading(pid=1, uid=0, owner="root"), replace(JOB, uid=0, slurm_job_id=None), True),
        (ProcessReading(pid=1, uid=0, owner="ada"), JOB, False),
        (ProcessReading(pid=1, owner="ada"), JOB, True),
        (ProcessReading(pid=1, owner="bob"), JOB, False),
        # Of a user without a name the number is known, which no name says anything about.
        (ProcessReading(pid=1, uid=1000, owner="1000"), replace(JOB, uid=None), None),
        (ProcessReading(pid=1, uid=1000, owner="ada"), replace(JOB, uid=None, owner="1000"), True),
        (ProcessReading(pid=1, uid=1000, owner="ada"), replace(JOB, uid=None, owner="1001"), None),
        (ProcessReading(pid=1, uid=1000, owner="1000"), replace(JOB, uid=None, owner="1000"), True),
        # Nothing that both know.
        (NOTHING_KNOWN, JOB, None),
        (ProcessReading(pid=1, slurm_job_id="7"), replace(JOB, slurm_job_id=None), None),
        (ADA, replace(JOB, slurm_job_id=None, uid=None, owner=None), None),
        # Pods: by uid, else by namespace and name.
        (ProcessReading(pid=1, uid=0, pod_uid="6f1d"), POD, True),
        (ProcessReading(pid=1, uid=0, pod_uid="aaaa"), POD, False),
        (ProcessReading(pid=1, uid=0, pod_uid="aaaa", pod_name="train-0", pod_namespace="lab"), POD, False),
        (ProcessReading(pid=1, uid=0, pod_name="train-0", pod_namespace="lab"), POD, True),
        (ProcessReading(pid=1, uid=0, pod_name="train-0", pod_namespace="dev"), POD, False),
        (
            ProcessReading(pid=1, uid=0, pod_uid="aaaa", pod_name="train-0", pod_namespace="lab"),
            replace(POD, pod_uid=None),
            True,
        ),
        (ProcessReading(pid=1, uid=0, pod_uid="aaaa"), replace(POD, pod_uid=None), None),
        (BOB, POD, False),
        (NOTHING_KNOWN, POD, None),
    ],
)
def test_a_process_belongs_by_what_both_sides_know(
    process: ProcessReading, allocation: Allocation, *, expected: bool | None
) -> None:
    assert belongs(process, allocation) is expected


@pytest.mark.parametrize(
    ("processes", "expected"),
    [
        ((), Relation.NOBODY),
        ((XORG,), Relation.NOBODY),
        ((ADA,), Relation.OWNER),
        ((ADA, XORG), Relation.OWNER),
        ((ADA, BOB), Relation.BOTH),
        ((BOB,), Relation.OTHERS),
        ((NOTHING_KNOWN,), Relation.UNKNOWN),
        ((NOTHING_KNOWN, BOB), Relation.UNKNOWN),
        ((NOTHING_KNOWN, ADA), Relation.OWNER),
        ((NOTHING_KNOWN, ADA, BOB), Relation.BOTH),
    ],
)
def test_a_relation_depends_on_the_owners_of_counted_processes(
    processes: tuple[ProcessReading, ...], expected: Relation
) -> None:
    assert relation(with_processes(*processes), JOB, []) is expected


@pytest.mark.parametrize("listed", [each for each in ProcessList if each is not ProcessList.KNOWN])
def test_without_a_list_a_relation_is_unknown_even_if_somebody_is_seen(listed: ProcessList) -> None:
    assert relation(with_processes(ADA, listed=listed), JOB, []) is Relation.UNKNOWN
    assert told(allocated(JOB, card=with_processes(listed=listed)))[0][1] is Relation.UNKNOWN


def test_co_owners_of_a_shared_card_do_not_count_as_others() -> None:
    other = replace(JOB, id="8", slurm_job_id="8", uid=1001, owner="bob")
    assert relation(with_processes(BOB), JOB, [other]) is Relation.CO_OWNERS
    assert relation(with_processes(ADA, BOB), JOB, [other]) is Relation.OWNER
    stranger = ProcessReading(pid=9, owner="eve", uid=1002)
    assert relation(with_processes(BOB, stranger), JOB, [other]) is Relation.OTHERS
    assert [each[1] for each in told(allocated(JOB, other, card=with_processes(BOB)))] == [
        Relation.CO_OWNERS,
        Relation.OWNER,
    ]


def test_two_jobs_of_one_user_on_one_card_are_distinguished_by_job() -> None:
    other = replace(JOB, id="8", slurm_job_id="8")
    assert [each[1] for each in told(allocated(JOB, other, card=with_processes(ADA)))] == [
        Relation.OWNER,
        Relation.CO_OWNERS,
    ]


def test_a_process_that_may_be_the_other_allocations_leaves_the_relation_unknown() -> None:
    nameless = replace(JOB, id="8", slurm_job_id="8", uid=None, owner=None)
    assert relation(with_processes(BOB), JOB, [nameless]) is Relation.UNKNOWN


def test_an_allocation_that_ended_within_the_tick_is_no_co_owner_at_its_end() -> None:
    matcher = AllocationMatcher()
    other = replace(JOB, id="8", slurm_job_id="8", uid=1001, owner="bob")
    allocated(JOB, other, matcher=matcher)
    card = allocated(
        JOB,
        replace(other, until_ms=TS_MS + 1_000),
        card=with_processes(BOB),
        matcher=matcher,
        ts_ms=TS_MS + SPAN_MS,
    )
    assert [each[1] for each in told(card)] == [Relation.OTHERS, Relation.NOBODY]


def test_a_relation_follows_who_comes_and_goes() -> None:
    matcher, found = AllocationMatcher(), []
    for number, processes in enumerate(((), (ADA,), (ADA, BOB), (BOB,), ())):
        card = allocated(JOB, card=with_processes(*processes), matcher=matcher, ts_ms=TS_MS + number * SPAN_MS)
        found.append(card.allocations[0].relation)
    assert found == [Relation.NOBODY, Relation.OWNER, Relation.BOTH, Relation.OTHERS, Relation.NOBODY]


def test_a_relation_follows_allocations_that_begin_and_end_while_processes_stay() -> None:
    matcher, found = AllocationMatcher(), []
    other = replace(JOB, id="8", slurm_job_id="8", uid=1001, owner="bob")
    for number, allocations in enumerate(((JOB,), (JOB, other), (other,), ())):
        card = allocated(*allocations, card=with_processes(ADA), matcher=matcher, ts_ms=TS_MS + number * SPAN_MS)
        found.append([each.relation for each in card.allocations])
    assert found == [[Relation.OWNER], [Relation.OWNER, Relation.CO_OWNERS], [Relation.OTHERS], []]


# The table of uses


@pytest.mark.parametrize(
    ("relations", "expected"),
    [
        ((Relation.OWNER, Relation.BOTH), (Use.USED, Use.HELD, Use.HELD, Use.UNKNOWN)),
        ((Relation.OTHERS,), (Use.USED_BY_OTHERS, Use.USED_BY_OTHERS, Use.USED_BY_OTHERS, Use.UNKNOWN)),
        ((Relation.CO_OWNERS,), (Use.EMPTY, Use.EMPTY, Use.EMPTY, Use.UNKNOWN)),
        ((Relation.NOBODY,), (Use.UNKNOWN, Use.UNKNOWN, Use.EMPTY, Use.UNKNOWN)),
        ((Relation.SOLE,), (Use.USED, Use.HELD, Use.EMPTY, Use.UNKNOWN)),
        ((Relation.UNKNOWN,), (Use.UNKNOWN,) * 4),
        ((None,), (Use.UNALLOCATED_USE, Use.UNALLOCATED_USE, Use.FREE, Use.UNKNOWN)),
    ],
)
def test_the_table_of_uses(relations: tuple[Relation | None, ...], expected: tuple[Use, ...]) -> None:
    states = (State.ACTIVE, State.IDLE_HELD, State.TRULY_IDLE, State.UNKNOWN)
    for of in relations:
        assert tuple(use(state, of) for state in states) == expected


def test_every_state_and_relation_has_one_use() -> None:
    assert all(isinstance(use(state, of), Use) for state, of in product(State, (*Relation, None)))


spans = st.tuples(st.integers(-60_000, 60_000), st.none() | st.integers(-60_000, 60_000))
ticks_of_spans = st.lists(st.lists(spans, max_size=6), min_size=1, max_size=4)


@given(
    ticks_of_spans,
    st.integers(1, 40_000),
    st.integers(0, 7),
    st.sampled_from([None, "no answer"]),
    st.sampled_from(State),
)
@settings(max_examples=200, deadline=None)
def test_the_parts_of_a_card_tick_sum_to_its_gpu_time(
    ticks: list[list[tuple[int, int | None]]], duration_ms: int, sevenths: int, reason: str | None, state: State
) -> None:
    matcher = AllocationMatcher()
    for number, spans_ in enumerate(ticks):
        card = replace(CARD, duration_ms=duration_ms, gpu_time_ms=duration_ms * sevenths // 7)
        allocations = [
            replace(JOB, id=str(place), since_ms=TS_MS + since, until_ms=None if until is None else TS_MS + until)
            for place, (since, until) in enumerate(spans_)
        ]
        found = look(*allocations, reason=reason)
        after = allocated_card(matcher, card, found, ts_ms=TS_MS + number * duration_ms)
        assert sum(part.gpu_time_ms for part in parts(after, state)) == after.gpu_time_ms
        assert all(0 < each.duration_ms <= duration_ms for each in after.allocations)
        assert all(0 <= each.gpu_time_ms <= each.duration_ms for each in after.allocations)
        assert (after.unallocated_gpu_time_ms is None) is (reason is not None)


_PEOPLE = st.lists(st.sampled_from([ADA, BOB, XORG, NOTHING_KNOWN]), max_size=3, unique=True)


@given(st.lists(st.tuples(st.integers(1, 3), _PEOPLE, st.sampled_from([0, 1, 2]), st.booleans()), max_size=12))
@settings(max_examples=100, deadline=None)
def test_ticks_that_are_remembered_are_those_that_are_worked_out(
    ticks: list[tuple[int, list[ProcessReading], int, bool]],
) -> None:
    matcher = AllocationMatcher()
    for duration_ms, processes, jobs, is_listed in ticks:
        listed = ProcessList.KNOWN if is_listed else ProcessList.FAILED
        card = replace(CARD, duration_ms=duration_ms, gpu_time_ms=duration_ms, processes=tuple(processes))
        card = replace(card, process_list=listed)
        going_on = [replace(JOB, id=str(number), slurm_job_id=str(7 + number)) for number in range(jobs)]
        # Each anew and by the long way, as none of these ends within the tick: nothing of before counts.
        ending = [replace(each, until_ms=TS_MS + 1) for each in going_on]
        expected = [replace(each, until_ms=None) for each in allocated(*ending, card=card).allocations]
        assert list(allocated(*going_on, card=card, matcher=matcher).allocations) == expected


def test_instances_that_came_and_went_are_forgotten() -> None:
    matcher = AllocationMatcher()
    for number in range(5_000):
        uuid = f"MIG-{number}"
        allocated(replace(JOB, cards=frozenset({uuid})), card=replace(CARD, uuid=uuid), matcher=matcher)
    assert len(matcher._at_end) <= 4_096  # noqa: SLF001 - memory is no behaviour that a caller sees


def test_a_reading_has_all_known_fields_of_the_allocation() -> None:
    (reading,) = allocated(replace(POD, kind="pod", until_ms=TS_MS + 1)).allocations
    assert reading == AllocationReading(
        source="kubernetes",
        id="lab/train-0",
        relation=Relation.NOBODY,
        duration_ms=SPAN_MS,
        gpu_time_ms=SPAN_MS,
        since_ms=TS_MS - 3_600_000,
        until_ms=TS_MS + 1,
        kind="pod",
        pod_uid="6f1d",
        pod_name="train-0",
        pod_namespace="lab",
    )
    (reading,) = allocated(JOB).allocations
    assert (reading.owner, reading.uid, reading.job_name) == ("ada", 1000, "train")


def test_an_allocation_is_of_the_kind_of_its_owners_processes_and_of_what_was_declared() -> None:
    matcher = AllocationMatcher()
    mine = ProcessReading(pid=1, uid=1000, owner="ada", comm="python3", slurm_job_id="7")
    server = replace(mine, pid=2, comm="VLLM::EngineCor", workload_model="qwen")
    strange = replace(mine, pid=3, uid=1001, owner="bo", comm="ollama", slurm_job_id="8", workload_model="llama")
    ignored = replace(mine, pid=4, comm="ollama", type=ProcessType.IGNORED)
    job = replace(JOB, slurm_job_id="7")

    def found(*processes: ProcessReading, of: Allocation = job) -> tuple[str | None, str | None]:
        (reading,) = allocated(of, card=with_processes(*processes), matcher=matcher).allocations
        return reading.workload_kind, reading.workload_model

    assert found(mine, strange, ignored) == ("Python", None)
    assert found(mine, server, strange) == ("vLLM", "qwen")
    assert found(mine, replace(mine, comm="jupyter-lab")) == ("Jupyter", None)
    assert found(strange) == (None, None)
    assert found() == (None, None)
    declared = replace(job, workload_kind="training", workload_model="my-model")
    assert found(mine, server, of=declared) == ("training", "my-model")
    assert found(of=declared) == ("training", "my-model")
    assert found(mine, server, of=replace(job, workload_kind="training")) == ("training", "qwen")


def test_processes_have_what_was_declared_of_their_own_allocation_alone() -> None:
    mine = ProcessReading(pid=1, uid=1000, owner="ada", comm="python3", slurm_job_id="7")
    detected = replace(mine, pid=2, workload_model="qwen")
    strange = replace(mine, pid=3, uid=1001, owner="bo", slurm_job_id="8")
    ignored = replace(mine, pid=4, type=ProcessType.IGNORED)
    job = replace(JOB, slurm_job_id="7", workload_kind="training", workload_model="llama")
    card = allocated(job, card=with_processes(mine, detected, strange, ignored))
    assert [(each.workload_kind, each.workload_model) for each in card.processes] == [
        ("training", "llama"),
        ("training", "qwen"),
        (None, None),
        (None, None),
    ]
    plain = with_processes(mine, strange)
    assert allocated(JOB, card=plain).processes == plain.processes
