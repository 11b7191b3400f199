"""The allocations of the simulated week's cards, and their use, beside an account by the week's script."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from fakes.allocated_week import MONDAY_MS, account, moment, state_of, told
from gua.core.allocation import parts
from gua.core.tick import Tick
from gua.core.words import AllocationStatus, Relation
from gua.otlp.decode import decode, ticks_of_lines
from gua.otlp.encode import encode
from gua.sim.calendar import HOUR_MS, MINUTE_MS
from gua.sim.host import DAY_MS, Scenario, demo_origin, simulate, simulate_from


@pytest.fixture(scope="module")
def week() -> list[Tick]:
    return list(simulate(Scenario()))


def test_the_week_s_uses_are_those_of_its_script(week: list[Tick]) -> None:
    found, expected = told(week), account(week)

    assert {key: round(ms / HOUR_MS, 3) for key, ms in found.items() if ms > MINUTE_MS} == {
        key: pytest.approx(ms / HOUR_MS, abs=0.002) for key, ms in expected.items() if ms > MINUTE_MS
    }
    assert {use for _, use in found} == {
        "used",
        "held",
        "used-by-others",
        "empty",
        "unallocated-use",
        "free",
        "unknown",
    }


@pytest.mark.parametrize(("seed", "interval_ms"), [(7, 120_000), (3, 600_000)])
def test_the_account_holds_for_other_people_s_numbers_and_intervals(seed: int, interval_ms: int) -> None:
    ticks = list(simulate(Scenario(seed=seed, interval_ms=interval_ms, ticks=2 * DAY_MS // interval_ms)))
    found, expected = told(ticks), account(ticks)

    for key in found.keys() | expected.keys():
        assert found[key] == pytest.approx(expected[key], abs=3 * len(ticks)), key


def test_the_uses_sum_to_the_observed_hours(week: list[Tick]) -> None:
    for tick in week:
        for card in tick.cards:
            assert sum(part.gpu_time_ms for part in parts(card, state_of(card))) == card.gpu_time_ms


def test_a_tuesday_worked_out_by_hand() -> None:
    """24 hours, every minute; a list in 800 fails, which makes some minutes of allocated cards unknown."""
    ticks = list(
        simulate(Scenario(interval_ms=MINUTE_MS, ticks=24 * 60), end_ms=MONDAY_MS + 2 * DAY_MS + 500, interrupted=False)
    )
    hours = {key: ms / HOUR_MS for key, ms in told(ticks).items() if ms > HOUR_MS // 2}

    assert hours == {
        # GPU 0 is hers all day; on GPU 7 is root's container from 13:00 to 22:00, and no other process.
        ("ana", "used"): pytest.approx(24 - hours["ana", "held"], abs=0.3),
        ("ana", "held"): pytest.approx(24 - hours["ana", "used"], abs=0.3),
        ("ana", "empty"): pytest.approx(15, abs=0.3),
        ("ana", "used-by-others"): pytest.approx(9, abs=0.3),
        # Two cards, all day.
        ("bo", "used"): pytest.approx(48, abs=0.3),
        # From 10:00 to 18:15, with 3 h 40 min of that by halves with dana; fay's process runs from 10:05 to 18:10.
        ("fay", "used"): pytest.approx(8.25 - 11 / 6 - hours["fay", "held"], abs=0.3),
        ("fay", "held"): pytest.approx(8.25 - 11 / 6 - hours["fay", "used"], abs=0.3),
        ("dana", "used"): pytest.approx(11 / 6 - hours["dana", "held"], abs=0.1),
        ("dana", "held"): pytest.approx(11 / 6 - hours["dana", "used"], abs=0.1),
        # An instance of 3 of 7 slices, allocated all day, without a process.
        ("kofi", "empty"): pytest.approx(24 * 3 / 7, abs=0.1),
        ("svc-llm", "used"): pytest.approx(24 - hours["svc-llm", "held"], abs=0.3),
        ("svc-llm", "held"): pytest.approx(24 - hours["svc-llm", "used"], abs=0.3),
        # GPU 5 outside of fay's hours and the slice of seven that no instance has.
        ("-", "free"): pytest.approx(24 - 8.25 + 24 / 7, abs=0.1),
        # What a crashed job left on GPU 3.
        ("-", "unallocated-use"): pytest.approx(24, abs=0.1),
        # hugo's instance; the driver does not report its utilization.
        ("-", "unknown"): pytest.approx(24 * 3 / 7, abs=0.3),
    }


def at(ticks: Sequence[Tick], text: str) -> Tick:
    return next(tick for tick in ticks if tick.ts_ms > MONDAY_MS + moment(text))


def test_while_slurm_is_silent_its_cards_are_unknown_and_the_pod_s_is_not(week: list[Tick]) -> None:
    silent, before, after = at(week, "Wed 11:30"), at(week, "Wed 10:50"), at(week, "Wed 12:00")

    assert [(each.source, each.reason) for each in silent.allocation_sources] == [
        ("kubernetes", None),
        ("slurm", "no answer within 3 s"),
    ]
    assert [card.allocation for card in silent.cards if card.index != 2] == [AllocationStatus.UNKNOWN] * 9
    assert silent.cards[2].allocation is AllocationStatus.ALLOCATED
    assert all(card.unallocated_gpu_time_ms is None for card in silent.cards)
    for tick in (before, after):
        assert [each.reason for each in tick.allocation_sources] == [None, None]
        assert tick.cards[0].allocation is AllocationStatus.ALLOCATED


def test_a_job_that_ends_before_its_limit_says_so_when_it_ends(week: list[Tick]) -> None:
    running = at(week, "Wed 06:00").cards[1].allocations[0]
    ended = next(
        card.allocations[0]
        for tick in week
        for card in tick.cards[1:2]
        if MONDAY_MS + moment("Wed 06:40") <= tick.ts_ms < MONDAY_MS + moment("Wed 06:46")
    )

    assert (running.id, running.owner, running.job_name) == (ended.id, "bo", "pretrain")
    assert running.until_ms == MONDAY_MS + moment("Thu 10:18"), "three days were asked for"
    assert ended.until_ms == MONDAY_MS + moment("Wed 06:40")
    assert 0 < ended.duration_ms < 5 * MINUTE_MS
    assert at(week, "Wed 06:50").cards[1].allocations == ()


def test_processes_of_a_job_have_its_id_and_processes_of_a_pod_its_uid(week: list[Tick]) -> None:
    tick = at(week, "Tue 12:00")

    for place in (1, 8):
        (allocation,) = tick.cards[place].allocations
        assert {process.slurm_job_id for process in tick.cards[place].processes} == {allocation.id}
    (pod,) = tick.cards[2].allocations
    assert (pod.source, pod.kind, pod.pod_namespace, pod.pod_name) == ("kubernetes", "pod", "serving", "llm-0")
    assert {process.pod_uid for process in tick.cards[2].processes} == {pod.pod_uid} == {pod.id}


def test_two_owners_share_a_card_equally_and_a_process_of_another_user_gives_both(week: list[Tick]) -> None:
    shared = at(week, "Tue 15:00").cards[7]
    assert sorted((each.owner, each.relation, each.gpu_time_ms) for each in shared.allocations) == [
        ("dana", Relation.OWNER, shared.gpu_time_ms // 2),
        ("fay", Relation.OWNER, shared.gpu_time_ms - shared.gpu_time_ms // 2),
    ]
    (allocated,) = at(week, "Fri 15:00").cards[7].allocations
    assert (allocated.owner, allocated.relation) == ("fay", Relation.BOTH)


@pytest.mark.parametrize("gpus", [1, 2, 3, 8, 17, 64])
def test_every_allocation_stands_once_and_is_of_a_card_of_the_host(gpus: int) -> None:
    for tick in simulate(Scenario(gpus=gpus, ticks=30, interval_ms=10 * MINUTE_MS)):
        of_owner: dict[tuple[str, str], set[str | None]] = {}
        for card in tick.cards:
            keys = [(each.source, each.id) for each in card.allocations]
            assert len(set(keys)) == len(keys)
            for each in card.allocations:
                of_owner.setdefault((each.source, each.id), set()).add(f"{each.owner} {each.since_ms} {each.job_name}")
        assert all(len(jobs) == 1 for jobs in of_owner.values())


def test_more_cards_have_jobs_of_other_people() -> None:
    tick = list(simulate(Scenario(gpus=16, ticks=3)))[-1]
    one, other = (next(card for card in tick.cards if card.index == index) for index in (1, 9))

    assert one.allocations[0].owner != other.allocations[0].owner
    assert one.allocations[0].id != other.allocations[0].id
    assert {each.relation for each in (*one.allocations, *other.allocations)} == {Relation.OWNER}


def test_allocations_arrive_as_they_were_sent(tmp_path: Path) -> None:
    """Over OTLP, and through a file that a Collector wrote."""
    ticks = list(simulate(Scenario(ticks=700)))[::50]
    requests = [encode(tick) for tick in ticks]
    assert any(len(card.allocations) > 1 for tick in ticks for card in tick.cards)

    messages = [json_format.MessageToDict(ExportMetricsServiceRequest.FromString(request)) for request in requests]
    written = tmp_path / "metrics.json"
    written.write_text("".join(json.dumps(message) + "\n" for message in messages), encoding="utf-8")

    for arrived in ([decode(request) for request in requests], list(ticks_of_lines(written))):
        assert [tick.allocation_sources for tick in arrived] == [tick.allocation_sources for tick in ticks]
        assert [
            (card.uuid, card.allocation, card.unallocated_gpu_time_ms, card.allocations)
            for tick in arrived
            for card in tick.cards
        ] == [
            (card.uuid, card.allocation, card.unallocated_gpu_time_ms, card.allocations)
            for tick in ticks
            for card in tick.cards
        ]


def test_a_live_host_has_allocations_too() -> None:
    origin = demo_origin(MINUTE_MS)
    ticks = simulate_from(MONDAY_MS + moment("Tue 12:00"), seed=0, gpus=8, interval_ms=MINUTE_MS, origin=origin)
    tick = next(ticks)

    assert {str(each.owner) for card in tick.cards for each in card.allocations} == {
        "ana",
        "bo",
        "fay",
        "kofi",
        "svc-llm",
    }
