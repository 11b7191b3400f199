import os
import subprocess
import sys
from collections import Counter, defaultdict
from itertools import islice, pairwise

import pytest

from gua.core.errors import UsageError
from gua.core.facts import card_facts
from gua.core.rules import Reason, Rules, State, Verdict, classify
from gua.core.tick import CardReading, ProcessReading, Tick
from gua.core.words import Mig, ProcessList, ProcessType, Source
from gua.sim.calendar import HOUR_MS, MINUTE_MS
from gua.sim.host import END_MS, HOST, Scenario, simulate

NOTEBOOK, TRAINING, INFERENCE, ORPHAN, PARTITIONED, SHARED, TRAINING_TOO, WORKSTATION = range(8)
MONDAY_MS = 1_774_224_000_000  # 2026-03-23 00:00 UTC


@pytest.fixture(scope="module")
def week() -> list[Tick]:
    return list(simulate(Scenario()))


@pytest.fixture(scope="module")
def by_card(week: list[Tick]) -> dict[str, list[tuple[int, CardReading]]]:
    cards: defaultdict[str, list[tuple[int, CardReading]]] = defaultdict(list)
    for tick in week:
        for card in tick.cards:
            cards[card.uuid].append((tick.ts_ms, card))
    return dict(cards)


def readings(week: list[Tick], index: int, mig: Mig | None = None) -> list[tuple[int, CardReading]]:
    return [
        (tick.ts_ms, card)
        for tick in week
        for card in tick.cards
        if card.index == index and (mig is None or card.mig is mig)
    ]


def verdict(card: CardReading) -> Verdict:
    return classify(card_facts(card), Rules())


def states(cards: list[tuple[int, CardReading]]) -> Counter[State]:
    return Counter(verdict(card).state for _, card in cards)


def at(hours_from_monday: float, cards: list[tuple[int, CardReading]]) -> CardReading:
    return next(card for ts_ms, card in cards if ts_ms > MONDAY_MS + hours_from_monday * HOUR_MS)


def test_a_week_of_eight_cards_at_five_minutes_is_the_default(week: list[Tick]) -> None:
    assert 1990 < len(week) < 2016, "the restart and the silent hour cost some"
    assert {len(tick.cards) for tick in week} == {10}, "eight cards, two of them instances' parents and instances"
    assert 0 <= END_MS - week[-1].ts_ms < 1_000
    origin = week[0].origin
    assert (origin.host, origin.source, origin.interval_ms) == (HOST, Source.SIMULATOR, 5 * MINUTE_MS)


def test_the_same_seed_gives_the_same_ticks() -> None:
    scenario = Scenario(seed=3, ticks=50)

    assert list(simulate(scenario)) == list(simulate(scenario))


def test_another_seed_gives_other_ticks() -> None:
    one, other = (next(simulate(Scenario(seed=seed, ticks=5))) for seed in (1, 2))

    assert one.cards != other.cards


@pytest.mark.parametrize("hash_seed", ["0", "1"])
def test_ticks_do_not_depend_on_python_s_hash_seed(hash_seed: str) -> None:
    program = (
        "import hashlib; from gua.sim.host import Scenario, simulate;"
        "print(hashlib.sha256(repr(list(simulate(Scenario(ticks=30)))).encode()).hexdigest())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == _fingerprint()


def _fingerprint() -> str:
    import hashlib  # noqa: PLC0415 - as in the program above

    return hashlib.sha256(repr(list(simulate(Scenario(ticks=30)))).encode()).hexdigest()


def test_habits_hang_on_the_moment_not_on_the_length_of_the_run(week: list[Tick]) -> None:
    short = list(simulate(Scenario(ticks=100)))[-1]

    for one, other in zip(short.cards, week[-1].cards, strict=True):
        assert one.uuid == other.uuid
        assert [(process.pid, process.created_ms, process.owner) for process in one.processes] == [
            (process.pid, process.created_ms, process.owner) for process in other.processes
        ]


def test_spans_of_a_card_never_overlap(by_card: dict[str, list[tuple[int, CardReading]]]) -> None:
    for cards in by_card.values():
        assert all(late_ms - late.duration_ms >= early_ms for (early_ms, _), (late_ms, late) in pairwise(cards))


def test_the_week_has_two_gaps_on_the_whole_host(week: list[Tick]) -> None:
    holes_ms = [
        late.ts_ms - late.cards[0].duration_ms - early.ts_ms
        for early, late in pairwise(week)
        if late.ts_ms - late.cards[0].duration_ms != early.ts_ms
    ]

    assert [round(hole_ms / MINUTE_MS) for hole_ms in holes_ms] == [13, 60]
    assert len({tick.agent.started_ms for tick in week if tick.agent}) == 2


def test_energy_only_grows_and_each_tick_has_its_part(by_card: dict[str, list[tuple[int, CardReading]]]) -> None:
    known = 0
    for cards in by_card.values():
        for (_, early), (_, late) in pairwise(cards):
            if early.energy_total_mj is None or late.energy_total_mj is None:
                assert late.energy_mj is None
                continue
            assert late.energy_total_mj > early.energy_total_mj
            if late.energy_mj is not None:
                known += 1
                assert late.energy_total_mj - early.energy_total_mj == late.energy_mj
                assert late.power_watts == pytest.approx(late.energy_mj / late.duration_ms, abs=0.01)
    assert known > 15_000


def test_power_follows_what_the_card_does(by_card: dict[str, list[tuple[int, CardReading]]]) -> None:
    watts = [
        (verdict(card).state, card.utilization, card.power_watts)
        for cards in by_card.values()
        for _, card in cards
        if card.mig is Mig.NONE and card.process_list is ProcessList.KNOWN and card.power_watts is not None
    ]

    assert all(71 < power < 73 for state, _, power in watts if state is State.TRULY_IDLE)
    assert all(power > 550 for _, utilization, power in watts if utilization is not None and utilization > 0.9)
    assert all(
        121 < power < 123 for state, utilization, power in watts if state is State.IDLE_HELD and utilization == 0
    )


def test_attributed_time_sums_to_the_card_s(week: list[Tick]) -> None:
    for tick in week:
        for card in tick.cards:
            counted = [process for process in card.processes if process.type is not ProcessType.IGNORED]
            if counted:
                assert sum(process.gpu_time_ms or 0 for process in counted) == card.gpu_time_ms


def test_processes_began_before_they_are_seen(week: list[Tick]) -> None:
    assert all(
        process.created_ms is not None and process.created_ms <= tick.ts_ms
        for tick in week
        for card in tick.cards
        for process in card.processes
    )


def test_a_process_is_one_pid_and_start(week: list[Tick]) -> None:
    for tick in week:
        for card in tick.cards:
            assert len({process.pid for process in card.processes}) == len(card.processes)


def test_the_notebook_is_held_over_night_and_the_weekend(week: list[Tick]) -> None:
    cards = readings(week, NOTEBOOK)
    saturday, night = at(-36, cards), at(3 * 24 + 1, cards)

    for card in (saturday, night):
        (kernel,) = card.processes
        assert (kernel.comm, kernel.memory_bytes) == ("python", 8 * 2**30)
        assert verdict(card).state is State.IDLE_HELD
    counted = states(cards)
    assert 50 < counted[State.ACTIVE] < 400
    assert counted[State.IDLE_HELD] > 1500


def test_a_training_job_is_several_processes_of_one_user_on_several_cards(week: list[Tick]) -> None:
    one, other = at(34, readings(week, TRAINING)), at(34, readings(week, TRAINING_TOO))
    processes = one.processes + other.processes

    assert len({process.pid for process in processes}) == 4
    assert len({process.owner for process in processes}) == 1
    assert len({process.slurm_job_id for process in processes}) == 1
    assert processes[0].slurm_job_id is not None
    assert verdict(one).state is verdict(other).state is State.ACTIVE


def test_the_inference_server_is_nearly_idle(week: list[Tick]) -> None:
    counted = states(readings(week, INFERENCE))

    assert counted[State.IDLE_HELD] > 0.85 * counted.total()
    assert counted[State.ACTIVE] > 50, "bursts"


def test_the_orphan_is_memory_that_no_listed_process_owns(week: list[Tick]) -> None:
    card = at(30, readings(week, ORPHAN))

    assert card.processes == ()
    assert card.process_list is ProcessList.KNOWN
    assert verdict(card).state is State.IDLE_HELD
    assert verdict(card).held_lower_bytes > 40 * 2**30


def test_the_mig_card_cannot_be_read_where_somebody_holds_it(week: list[Tick]) -> None:
    instances = readings(week, PARTITIONED, Mig.INSTANCE)
    at_work = [card for ts_ms, card in instances if MONDAY_MS + 34 * HOUR_MS < ts_ms <= MONDAY_MS + 34.1 * HOUR_MS]
    used, empty = (verdict(card) for card in at_work[:2])

    assert (used.state, used.reason) == (State.UNKNOWN, Reason.UTILIZATION)
    assert empty.state is State.TRULY_IDLE
    assert all(card.utilization is None and card.power_watts is None for _, card in instances)
    assert {card.parent for _, card in instances} == {readings(week, PARTITIONED, Mig.PARENT)[0][1].uuid}


def test_a_partitioned_card_s_parts_are_one_card(week: list[Tick]) -> None:
    for tick in week:
        parts = [card for card in tick.cards if card.index == PARTITIONED]
        gpu_time_ms = sum(card.gpu_time_ms for card in parts)
        assert 0 <= parts[0].duration_ms - gpu_time_ms < len(parts)


def test_two_people_share_a_card_at_times_and_leave_it_free_on_most_nights(week: list[Tick]) -> None:
    cards = readings(week, SHARED)
    both = at(38.5, cards)
    nights = [at(24 * day + 2, cards) for day in range(5)]

    assert len({process.owner for process in both.processes}) == 2
    assert {process.gpu_time_ms for process in both.processes} <= {both.gpu_time_ms // 2, (both.gpu_time_ms + 1) // 2}
    assert [verdict(card).state for card in nights].count(State.TRULY_IDLE) == 4


def test_the_shared_card_is_lost_for_twenty_minutes(week: list[Tick]) -> None:
    lost = [(ts_ms, card) for ts_ms, card in readings(week, SHARED) if card.failed]

    assert len(lost) == 4
    assert all(verdict(card).reason is Reason.LOST for _, card in lost)
    ts_ms = lost[0][0]
    (tick,) = (tick for tick in week if tick.ts_ms == ts_ms)
    assert [(error.code, error.uuid) for error in tick.errors if error.uuid == lost[0][1].uuid] == [
        ("GPU_IS_LOST", lost[0][1].uuid)
    ]


def test_the_workstation_s_display_holds_nothing_and_its_container_hides_its_memory(week: list[Tick]) -> None:
    cards = readings(week, WORKSTATION)
    night, afternoon, saturday = at(26, cards), at(38.5, cards), at(-37, cards)

    (display,) = night.processes
    assert (display.comm, display.type, display.memory_bytes) == ("Xorg", ProcessType.IGNORED, 120 * 2**20)
    assert display.gpu_time_ms is None
    assert verdict(night).state is State.TRULY_IDLE

    service = hidden(afternoon)
    assert service.container_id is not None
    assert verdict(afternoon).state is State.IDLE_HELD

    assert verdict(saturday).state is State.ACTIVE, "a film in the decoder"
    assert saturday.utilization is not None
    assert saturday.utilization < 0.1


def hidden(card: CardReading) -> ProcessReading:
    (process,) = (process for process in card.processes if process.memory_bytes is None)
    return process


def test_lists_fail_now_and_then_and_the_agent_counts_it(week: list[Tick]) -> None:
    failed = [
        card for tick in week for card in tick.cards if card.process_list is ProcessList.FAILED and not card.failed
    ]

    assert 5 < len(failed) < 60
    assert all(card.processes == () for card in failed)
    assert sum(len(tick.errors) for tick in week) == len(failed) + 4
    agent = week[-1].agent
    assert agent is not None
    assert {error.call for error in agent.errors} == {
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetHandleByIndex",
    }


@pytest.mark.parametrize("gpus", [1, 2, 4, 7])
def test_fewer_cards_keep_the_first_roles(gpus: int, week: list[Tick]) -> None:
    tick = list(simulate(Scenario(gpus=gpus, ticks=3)))[-1]

    assert {card.index for card in tick.cards} == set(range(gpus))
    assert [card.uuid for card in tick.cards] == [card.uuid for card in week[-1].cards if (card.index or 0) < gpus]


def test_more_cards_repeat_the_roles_with_other_people() -> None:
    tick = list(simulate(Scenario(gpus=16, ticks=3)))[-1]
    first, second = (next(card for card in tick.cards if card.index == index) for index in (0, 8))

    assert first.processes[0].comm == second.processes[0].comm
    assert first.processes[0].owner != second.processes[0].owner
    assert len({card.uuid for card in tick.cards}) == len(tick.cards)


@pytest.mark.parametrize("interval_ms", [1_000, 30_000, 600_000])
def test_any_interval_has_ticks(interval_ms: int) -> None:
    made = list(islice(simulate(Scenario(interval_ms=interval_ms, ticks=20)), 20))

    assert len(made) == 20


@pytest.mark.parametrize(
    "wrong",
    [
        {"gpus": 0},
        {"gpus": 257},
        {"ticks": 0},
        {"ticks": -1},
        {"interval_ms": 999},
        {"interval_ms": 600_001},
        {"ticks": 10**9},
    ],
)
def test_what_cannot_be_simulated_is_refused_in_one_line(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError) as refused:
        Scenario(**wrong)

    assert "\n" not in str(refused.value)
