from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fakes.clock import FakeClock
from gua.agent.card_status import card_status, follow
from gua.agent.coverage import Outcome
from gua.agent.sampler import Sampler
from gua.core.ports import Mark, RawCard, RawProcess, UtilizationSample
from gua.core.rules import Rules
from gua.core.tick import (
    CardReading,
    ErrorCount,
    Origin,
    ProcessList,
    ProcessReading,
    ReadError,
    Source,
    Tick,
)
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


def test_a_clock_that_was_set_back_makes_no_tick_and_the_reason_is_told() -> None:
    clock = FakeClock()
    agent = sampler(Cards(clock, WHOLE))
    mark = agent.sample(None).mark
    clock.wall -= 5_000
    waiting = agent.sample(mark)
    assert (waiting.tick, waiting.outcome) == (None, Outcome.WAITING)


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
def test_in_another_pid_namespace_it_is_unknown_who_used_the_card_and_nobody_idles(used: float) -> None:
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
