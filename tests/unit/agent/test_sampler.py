from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fakes.clock import FakeClock
from gua.agent.card_status import card_status, follow
from gua.agent.sampler import Outcome, Sampler
from gua.core.allocation import Allocation, AllocationLook, CardKey, SourceHealth
from gua.core.idleness import counts_as_idle
from gua.core.ports import Activity, AllocationSources, Mark, RawCard, RawProcess, UtilizationSample
from gua.core.rules import Rules
from gua.core.tick import AllocationSourceReading, CardReading, ErrorCount, Origin, ProcessReading, ReadError, Tick
from gua.core.words import AllocationStatus, ProcessList, Relation, Source
from gua.otlp.encode import encode

ORIGIN = Origin(host="gpu01", source=Source.AGENT, interval_ms=30_000)
WHOLE = RawCard(
    reading=CardReading(
        uuid="GPU-a", duration_ms=1, gpu_time_ms=0, process_list=ProcessList.KNOWN, utilization=0.2, energy_total_mj=500
    ),
    gpu_fraction=(1, 1),
    processes=(),
)


class Cards:
    """Takes a fifth of a second to answer."""

    def __init__(self, clock: FakeClock, *cards: RawCard, errors: Sequence[ReadError] = ()) -> None:
        self.clock = clock
        self.cards = list(cards)
        self.errors = errors

    def read(self) -> tuple[Sequence[RawCard], Sequence[ReadError]]:
        self.clock.advance(200)
        return self.cards, self.errors

    def close(self) -> None:
        pass


class People:
    def identify(self, process: RawProcess) -> ProcessReading:
        return ProcessReading(
            pid=process.pid, uid=process.pid, memory_bytes=process.memory_bytes, utilization=process.utilization
        )


def sampler(cards: Cards, *, initial: bool = True) -> Sampler:
    return Sampler(cards=cards, processes=People(), clock=cards.clock, origin=ORIGIN, initial_pid_namespace=initial)


def tick_of(cards: Cards, mark: Mark | None = None, *, initial: bool = True) -> Tick:
    tick = sampler(cards, initial=initial).sample(mark).tick
    assert tick is not None
    return tick


def raw_process(pid: int) -> RawProcess:
    return RawProcess(pid=pid, lists=frozenset({"compute"}), memory_bytes=1, utilization=None)


def test_a_first_tick_ends_when_the_cards_were_read_and_covers_the_agents_age() -> None:
    clock = FakeClock()
    started_ms = clock.wall_ms()
    tick = tick_of(Cards(clock, WHOLE))
    assert (tick.ts_ms, tick.cards[0].duration_ms, tick.cards[0].gpu_time_ms) == (started_ms + 200, 200, 200)
    assert tick.origin is ORIGIN
    assert tick.agent is not None
    assert (tick.agent.started_ms, tick.agent.tick_duration_seconds) == (started_ms, 0.2)


def test_a_tick_covers_the_time_since_the_mark_and_becomes_the_next_mark() -> None:
    clock = FakeClock()
    agent = sampler(Cards(clock, WHOLE))
    first = agent.sample(None)
    clock.advance(29_800)
    second = agent.sample(first.mark)
    assert second.tick is not None
    assert second.tick.cards[0].duration_ms == 30_000
    assert second.mark == Mark(ts_ms=clock.wall_ms(), monotonic_ms=clock.monotonic_ms(), boot_id="boot")


def test_a_clock_set_back_makes_no_tick_and_the_outcome_is_waiting() -> None:
    clock = FakeClock()
    agent = sampler(Cards(clock, WHOLE))
    mark = agent.sample(None).mark
    clock.wall -= 5_000
    waiting = agent.sample(mark)
    assert (waiting.tick, waiting.outcome) == (None, Outcome.WAITING)


def test_a_mark_of_a_time_that_its_boot_has_not_reached_is_counted_and_its_idle_clocks_are_not_believed() -> None:
    clock = FakeClock()
    raw = replace(WHOLE, processes=(replace(raw_process(7), utilization=0.0),))
    agent = sampler(Cards(clock, raw))
    mark = agent.sample(None).mark
    clock.advance(29_800)
    ahead = replace(mark, monotonic_ms=mark.monotonic_ms + 10**12)
    found = agent.sample(ahead)
    assert found.outcome is Outcome.MARK_AHEAD
    assert found.tick is not None
    assert found.tick.agent is not None
    assert found.tick.agent.errors == (ErrorCount(call="clock", code="mark_ahead", count=1),)
    assert found.tick.cards[0].duration_ms == 30_000
    assert found.tick.cards[0].processes[0].idle_ms == 30_000
    assert agent.sample(found.mark).outcome is not Outcome.MARK_AHEAD


def test_gpu_time_is_the_span_weighted_by_the_cards_share() -> None:
    parent, instance = replace(WHOLE, gpu_fraction=(3, 7)), replace(WHOLE, gpu_fraction=(4, 7))
    cards = tick_of(Cards(FakeClock(), parent, instance)).cards
    assert [card.gpu_time_ms for card in cards] == [200 * 3 // 7, 200 * 4 // 7]


def test_gpu_time_is_attributed_to_the_holders() -> None:
    raw = replace(WHOLE, processes=(raw_process(7), raw_process(8)))
    (card,) = tick_of(Cards(FakeClock(), raw)).cards
    assert [process.gpu_time_ms for process in card.processes] == [100, 100]


@pytest.mark.parametrize(
    ("listed", "believed"),
    [
        (ProcessList.KNOWN, ProcessList.PID_NAMESPACE),
        (ProcessList.FAILED, ProcessList.PID_NAMESPACE),
        (ProcessList.ABSENT, ProcessList.ABSENT),
    ],
)
def test_in_another_pid_namespace_no_list_is_believed(listed: ProcessList, believed: ProcessList) -> None:
    raw = replace(WHOLE, reading=replace(WHOLE.reading, process_list=listed))
    assert tick_of(Cards(FakeClock(), raw)).cards[0].process_list is listed
    assert tick_of(Cards(FakeClock(), raw), initial=False).cards[0].process_list is believed


@pytest.mark.parametrize("used", [0.0, 0.9])
def test_in_another_pid_namespace_processes_are_unknown_and_never_idle(used: float) -> None:
    clock = FakeClock()
    raw = replace(WHOLE, processes=tuple(replace(raw_process(pid), utilization=used) for pid in (7, 8)))
    agent = sampler(Cards(clock, raw), initial=False)
    first = agent.sample(None)
    clock.advance(29_800)
    sample = agent.sample(first.mark)
    assert first.tick is not None
    assert sample.tick is not None
    (card,) = sample.tick.cards
    assert [(one.utilization, one.idle_ms) for one in card.processes] == [(None, None)] * 2
    assert sum(one.gpu_time_ms or 0 for one in card.processes) == card.gpu_time_ms, "somebody's, whoever it is"
    assert {(clock.idle_ms, clock.zero_polls) for clock in sample.mark.clocks.values()} == {(0, 0)}
    told = encode(sample.tick)
    assert b"gua.process.gpu.time" in told
    of_use = (b"gua.process.gpu.utilization", b"gua.gpu.process.utilization.max", b"gua.process.idle.duration")
    assert not [name for name in of_use if name in told]
    (standing,) = follow(follow({}, first.tick, Rules()), sample.tick, Rules()).values()
    status = card_status(standing, Rules(), age_seconds=0)
    assert [(one["state"], one["utilization"]) for one in status["holders"]] == [("unknown", None)] * 2
    assert standing.facts.process_utilization_max is None


def test_utilization_is_the_spans_and_not_the_moments() -> None:
    clock = FakeClock()
    now_ms = clock.wall_ms()
    busy = UtilizationSample(start_ms=now_ms - 1_000, end_ms=now_ms + 150, utilization=1.0, largest=1.0)
    (card,) = tick_of(Cards(clock, replace(WHOLE, samples=(busy,)))).cards
    assert (card.utilization, card.utilization_max, card.utilization_coverage_ms) == (
        pytest.approx(0.75 * 1.0 + 0.25 * 0.2),
        1.0,
        150,
    )


@pytest.mark.parametrize(
    ("reading", "told"),
    [
        ({"utilization": 0.5}, (12_000, 1_080_000, 9_000)),
        ({"utilization": 0.0}, (12_000, 1_080_000, 9_000)),
        # While a video engine is busy, seconds without a kernel are not idle ones.
        ({"utilization": 0.5, "utilization_encoder": 0.1}, (None, None, None)),
        ({"utilization": 0.5, "utilization_decoder": 0.8}, (None, None, None)),
        ({"utilization": 0.5, "utilization_decoder": 0.09}, (12_000, 1_080_000, 9_000)),
    ],
)
def test_idle_seconds_are_reported_unless_a_video_engine_was_busy(
    reading: dict[str, float], told: tuple[int | None, ...]
) -> None:
    clock = FakeClock()
    now_ms = clock.wall_ms()
    mean = reading["utilization"]
    sample = UtilizationSample(now_ms - 20_000, now_ms, mean, 1.0, 12_000, 9_000, 1_080_000.0)
    cards = Cards(clock, replace(WHOLE, reading=replace(WHOLE.reading, **reading), samples=(sample,)))
    mark = Mark(ts_ms=now_ms - 30_000, monotonic_ms=clock.monotonic_ms() - 30_000, boot_id=clock.boot_id())
    tick = sampler(cards).sample(mark).tick
    assert tick is not None
    (card,) = tick.cards
    assert card.utilization_coverage_ms == 20_000
    assert (card.idle_time_ms, card.idle_energy_mj, card.idle_energy_coverage_ms) == told


@pytest.mark.parametrize(
    ("span_ms", "is_told"),
    [(30_000, True), (33_000, True), (27_000, True), (33_001, False), (300_000, False), (0, False)],
)
def test_activity_is_reported_if_its_span_matches_the_ticks(span_ms: int, *, is_told: bool) -> None:
    clock = FakeClock()
    activity = Activity(sm_utilization=0.03, tensor_utilization=0.0)
    cards = Cards(clock, replace(WHOLE, activity=activity, activity_ms=span_ms))
    mark = Mark(ts_ms=clock.wall_ms() - 29_800, monotonic_ms=clock.monotonic_ms() - 29_800, boot_id=clock.boot_id())
    tick = sampler(cards).sample(mark).tick
    assert tick is not None
    (card,) = tick.cards
    assert (card.duration_ms, card.sm_utilization, card.tensor_utilization) == (
        (30_000, 0.03, 0.0) if is_told else (30_000, None, None)
    )


def test_an_active_process_on_an_idle_held_card_leaves_idle_seconds_unknown() -> None:
    busy = (ProcessReading(pid=1, utilization=0.4),)
    assert not counts_as_idle(0.02, encoder=0.0, decoder=None, processes=busy)
    assert counts_as_idle(0.3, encoder=0.0, decoder=None, processes=busy)
    assert counts_as_idle(0.02, encoder=None, decoder=None, processes=(ProcessReading(pid=1, utilization=0.05),))


def test_energy_is_what_the_counter_gained_since_the_tick_before() -> None:
    clock = FakeClock()
    cards = Cards(clock, WHOLE)
    agent = sampler(cards)

    def next_energy(total_mj: int | None, mark: Mark | None) -> tuple[int | None, Mark]:
        clock.advance(29_800)
        cards.cards = [replace(WHOLE, reading=replace(WHOLE.reading, energy_total_mj=total_mj))]
        sample = agent.sample(mark)
        assert sample.tick is not None
        return sample.tick.cards[0].energy_mj, sample.mark

    energy, mark = next_energy(500, None)
    assert energy is None
    energy, mark = next_energy(800, mark)
    assert energy == 300
    energy, mark = next_energy(800, mark)
    assert energy == 0
    energy, mark = next_energy(50, mark)
    assert energy is None, "the driver was loaded anew"
    energy, mark = next_energy(None, mark)
    assert energy is None
    energy, mark = next_energy(900, mark)
    assert energy is None
    clock.advance(60_000)
    energy, mark = next_energy(950, mark)
    assert energy is None, "after a break the counter covers more than the tick"


def test_errors_travel_with_the_tick_and_are_counted() -> None:
    errors = [ReadError(call="nvmlDeviceGetName", code="NO_PERMISSION", uuid=uuid) for uuid in ("GPU-a", "GPU-b")]
    agent = sampler(Cards(FakeClock(), WHOLE, errors=errors))
    agent.sample(None)
    tick = agent.sample(None).tick
    assert tick is not None
    assert tick.errors == tuple(errors)
    assert tick.agent is not None
    assert tick.agent.errors == (ErrorCount(call="nvmlDeviceGetName", code="NO_PERMISSION", count=4),)


def test_what_fails_beside_the_cards_is_counted_and_is_no_error_of_the_tick() -> None:
    cards, failed = Cards(FakeClock(), WHOLE), [ReadError(call="kubelet GET /pods", code="403")]
    agent = Sampler(
        cards=cards,
        processes=People(),
        clock=cards.clock,
        origin=ORIGIN,
        initial_pid_namespace=True,
        besides=lambda: [failed.pop()] if failed else [],
    )
    first = agent.sample(None)
    for tick in (first.tick, agent.sample(first.mark).tick):
        assert tick is not None
        assert tick.agent is not None
        assert tick.errors == ()
        assert tick.agent.errors == (ErrorCount(call="kubelet GET /pods", code="403", count=1),)


class Sources:
    """Returns what it was given, and records its queries."""

    def __init__(
        self, *allocations: Allocation, sources: Sequence[SourceHealth] = (SourceHealth(source="slurm"),)
    ) -> None:
        self.allocations = allocations
        self.sources = tuple(sources)
        self.asked: list[tuple[int, int, list[CardKey]]] = []
        self.error: Exception | None = None

    def look(self, since_ms: int, now_ms: int, cards: Sequence[CardKey]) -> AllocationLook:
        self.asked.append((since_ms, now_ms, list(cards)))
        if self.error is not None:
            raise self.error
        return AllocationLook(allocations=self.allocations, sources=self.sources)


def allocating(cards: Cards, sources: AllocationSources) -> Sampler:
    return Sampler(
        cards=cards,
        processes=People(),
        clock=cards.clock,
        origin=ORIGIN,
        initial_pid_namespace=True,
        allocations=sources,
    )


JOB = Allocation(source="slurm", id="7", cards=frozenset({"GPU-a"}), since_ms=0, uid=7)


def test_without_sources_allocation_is_not_looked_at() -> None:
    tick = tick_of(Cards(FakeClock(), WHOLE))
    assert (tick.cards[0].allocation, tick.allocation_sources) == (None, ())


def test_sources_are_queried_for_the_ticks_span_with_all_identifiers_of_every_card() -> None:
    clock, sources = FakeClock(), Sources()
    reading = replace(WHOLE.reading, index=3, pci="0000:0f:00.0", parent="GPU-p")
    allocating(
        Cards(clock, replace(WHOLE, reading=reading, minor=5, gpu_instance_id=2, compute_instance_id=1)), sources
    ).sample(None)
    now_ms = clock.wall_ms()
    assert sources.asked == [(now_ms - 200, now_ms, [CardKey("GPU-a", 3, 5, "0000:0f:00.0", "GPU-p", 2, 1)])]


def test_sources_receive_the_pods_that_have_processes_on_each_card() -> None:
    class InPods(People):
        def identify(self, process: RawProcess) -> ProcessReading:
            return replace(super().identify(process), pod_uid={7: "uid-a", 8: "uid-b"}.get(process.pid))

    clock, sources = FakeClock(), Sources()
    raw = replace(WHOLE, processes=tuple(map(raw_process, (7, 8, 9))))
    Sampler(
        cards=Cards(clock, raw, replace(WHOLE, reading=replace(WHOLE.reading, uuid="GPU-b"))),
        processes=InPods(),
        clock=clock,
        origin=ORIGIN,
        initial_pid_namespace=True,
        allocations=sources,
    ).sample(None)
    assert [card.pods for card in sources.asked[0][2]] == [{"uid-a", "uid-b"}, set()]


def test_a_tick_has_the_allocation_of_each_card_and_its_relation() -> None:
    clock = FakeClock()
    other = replace(WHOLE, reading=replace(WHOLE.reading, uuid="GPU-b"))
    cards = Cards(clock, replace(WHOLE, processes=(raw_process(7), raw_process(8))), other)
    tick = allocating(cards, Sources(JOB)).sample(None).tick
    assert tick is not None
    allocated, free = tick.cards
    assert allocated.allocation is AllocationStatus.ALLOCATED
    assert [(each.id, each.relation, each.gpu_time_ms) for each in allocated.allocations] == [("7", Relation.BOTH, 200)]
    assert (allocated.unallocated_gpu_time_ms, allocated.gpu_time_ms, len(allocated.processes)) == (0, 200, 2)
    assert (free.allocation, free.unallocated_gpu_time_ms) == (AllocationStatus.UNALLOCATED, 200)
    assert tick.allocation_sources == (AllocationSourceReading(source="slurm", duration_ms=200),)


def test_with_an_untrusted_process_list_the_relation_is_unknown() -> None:
    clock = FakeClock()
    agent = Sampler(
        cards=Cards(clock, replace(WHOLE, processes=(raw_process(7),))),
        processes=People(),
        clock=clock,
        origin=ORIGIN,
        initial_pid_namespace=False,
        allocations=Sources(JOB),
    )
    tick = agent.sample(None).tick
    assert tick is not None
    assert tick.cards[0].allocations[0].relation is Relation.UNKNOWN


def test_a_failed_source_is_reported_with_its_reason_and_no_card_is_free() -> None:
    sources = Sources(sources=[SourceHealth(source="files"), SourceHealth(source="slurm", reason="no answer")])
    tick = allocating(Cards(FakeClock(), WHOLE), sources).sample(None).tick
    assert tick is not None
    assert (tick.cards[0].allocation, tick.cards[0].unallocated_gpu_time_ms) == (AllocationStatus.UNKNOWN, None)
    assert [(each.source, each.reason) for each in tick.allocation_sources] == [("files", None), ("slurm", "no answer")]


def test_sources_that_break_cost_no_tick_and_are_right_again_after_it() -> None:
    clock, sources = FakeClock(), Sources(JOB)
    agent = allocating(Cards(clock, WHOLE), sources)
    mark = agent.sample(None).mark
    sources.error = RuntimeError("\x1b[2J")
    clock.advance(29_800)
    broken = agent.sample(mark)
    assert broken.tick is not None
    assert broken.tick.cards[0].allocation is AllocationStatus.UNKNOWN
    assert [(each.source, each.reason) for each in broken.tick.allocation_sources] == [
        ("slurm", "unexpected RuntimeError")
    ]
    assert broken.tick.agent is not None
    assert broken.tick.agent.errors == (ErrorCount(call="allocation", code="RuntimeError", count=1),)
    sources.error = None
    clock.advance(29_800)
    whole = agent.sample(broken.mark).tick
    assert whole is not None
    assert (whole.cards[0].allocation, whole.cards[0].duration_ms) == (AllocationStatus.ALLOCATED, 30_000)


def test_sources_that_never_worked_have_failed_by_a_name_of_their_own() -> None:
    sources = Sources()
    sources.error = OSError()
    tick = allocating(Cards(FakeClock(), WHOLE), sources).sample(None).tick
    assert tick is not None
    assert [(each.source, each.reason) for each in tick.allocation_sources] == [("sources", "unexpected OSError")]


def test_an_allocation_that_is_none_costs_its_card_only_what_is_known_of_it() -> None:
    broken = replace(JOB, since_ms=None)  # type: ignore[arg-type] # by a source that keeps no contract
    other = replace(WHOLE, reading=replace(WHOLE.reading, uuid="GPU-b"))
    tick = allocating(Cards(FakeClock(), WHOLE, other), Sources(broken)).sample(None).tick
    assert tick is not None
    assert [card.allocation for card in tick.cards] == [AllocationStatus.UNKNOWN, AllocationStatus.UNALLOCATED]
    assert (tick.cards[0].unallocated_gpu_time_ms, tick.cards[0].allocations) == (None, ())


def test_processes_seen_are_those_of_both_lists_and_of_the_samples_between_them() -> None:
    clock = FakeClock()
    cards = Cards(clock, WHOLE)
    agent = sampler(cards)
    mark: Mark | None = None

    def seen(
        *pids: int, unlisted: frozenset[int] = frozenset(), known: bool = True, wait_ms: int = 29_800
    ) -> int | None:
        nonlocal mark
        clock.advance(wait_ms)
        listed = ProcessList.KNOWN if known else ProcessList.FAILED
        reading = replace(WHOLE.reading, process_list=listed)
        cards.cards = [replace(WHOLE, reading=reading, processes=tuple(map(raw_process, pids)), unlisted=unlisted)]
        sample = agent.sample(mark)
        mark = sample.mark
        assert sample.tick is not None
        return sample.tick.cards[0].processes_seen

    assert seen() is None, "the list at the start of the first tick is unknown"
    assert seen() == 0
    assert seen(7, 8) == 2
    assert seen(9) == 3
    assert seen() == 1, "a process that ended in the tick used the card"
    assert seen(unlisted=frozenset({5})) == 1, "a process between two lists had samples"
    assert seen(7, unlisted=frozenset({7})) == 1
    assert seen(known=False) is None
    assert seen() is None, "the list at the start is unknown"
    assert seen() == 0
    assert seen(wait_ms=120_000) is None, "after a break the tick does not begin at the list before"
    assert seen() == 0


def test_in_another_pid_namespace_processes_seen_are_unknown() -> None:
    clock = FakeClock()
    agent = sampler(Cards(clock, WHOLE), initial=False)
    first = agent.sample(None)
    clock.advance(29_800)
    second = agent.sample(first.mark).tick
    assert second is not None
    assert second.cards[0].processes_seen is None
