from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.attribution import attribute
from gua.core.facts import holder
from gua.core.tick import CardReading, ProcessReading
from gua.core.words import ProcessType


def card(gpu_time_ms: int, *processes: ProcessReading) -> CardReading:
    return CardReading(uuid="GPU-1", duration_ms=30_000, gpu_time_ms=gpu_time_ms, processes=processes)


def parts(reading: CardReading) -> list[int | None]:
    return [process.gpu_time_ms for process in attribute(reading).processes]


def test_holders_share_equally_whatever_the_number_of_their_processes() -> None:
    ann, bob = ProcessReading(pid=1, uid=1000), ProcessReading(pid=2, uid=1001)
    many = [replace(bob, pid=pid) for pid in (2, 3, 4)]
    assert parts(card(30_000, ann, *many)) == [15_000, 5_000, 5_000, 5_000]


def test_two_users_in_one_slurm_job_are_one_holder() -> None:
    job = [ProcessReading(pid=pid, uid=pid, slurm_job_id="77") for pid in (1, 2)]
    assert parts(card(30_000, *job, ProcessReading(pid=3, uid=1))) == [7_500, 7_500, 15_000]


def test_memory_and_utilization_do_not_weigh() -> None:
    big = ProcessReading(pid=1, uid=1, memory_bytes=80 * 2**30, utilization=1.0)
    small = ProcessReading(pid=2, uid=2, memory_bytes=0, utilization=0.0)
    assert parts(card(30_000, big, small)) == [15_000, 15_000]


@pytest.mark.parametrize(
    ("process", "expected"),
    [
        (
            ProcessReading(pid=1, slurm_job_id="7", pod_uid="p", container_id="c", uid=1, owner="ann"),
            ("slurm_job", "7"),
        ),
        (ProcessReading(pid=1, pod_uid="p", container_id="c", uid=1, owner="ann"), ("pod", "p")),
        (ProcessReading(pid=1, container_id="c", uid=1, owner="ann"), ("container", "c")),
        (ProcessReading(pid=1, uid=1000, owner="ann", systemd_unit="ssh.service"), ("uid", 1000)),
        (ProcessReading(pid=1, uid=0, owner="root"), ("uid", 0)),
        (ProcessReading(pid=1, owner="ann"), ("owner", "ann")),
        (ProcessReading(pid=1), ("user", None)),
    ],
)
def test_a_holder_is_the_job_else_the_pod_else_the_container_else_the_user(
    process: ProcessReading, expected: tuple[str, str | int | None]
) -> None:
    assert holder(process) == expected


def test_identities_of_different_kinds_with_the_same_text_are_different_holders() -> None:
    same = (
        ProcessReading(pid=1, slurm_job_id="7"),
        ProcessReading(pid=2, pod_uid="7"),
        ProcessReading(pid=3, owner="7"),
    )
    assert parts(card(30, *same)) == [10, 10, 10]


def test_all_processes_of_unknown_user_are_one_holder() -> None:
    strangers = [ProcessReading(pid=pid) for pid in (1, 2, 3)]
    assert parts(card(30_000, *strangers, ProcessReading(pid=4, uid=0))) == [5_000, 5_000, 5_000, 15_000]


def test_ignored_processes_get_nothing_known_and_take_nothing() -> None:
    xorg = ProcessReading(pid=1, uid=0, type=ProcessType.IGNORED, gpu_time_ms=5)
    assert parts(card(30_000, xorg, ProcessReading(pid=2, uid=1))) == [None, 30_000]
    assert parts(card(30_000, xorg)) == [None]


@pytest.mark.parametrize("kind", [ProcessType.COMPUTE, ProcessType.GRAPHICS, ProcessType.MPS])
def test_every_other_type_counts(kind: ProcessType) -> None:
    assert parts(card(30_000, ProcessReading(pid=1, type=kind))) == [30_000]


def test_a_card_without_processes_is_unchanged() -> None:
    assert attribute(card(30_000)) == card(30_000)


def test_no_gpu_time_is_zero_for_each_and_not_unknown() -> None:
    assert parts(card(0, ProcessReading(pid=1, uid=1), ProcessReading(pid=2, uid=2))) == [0, 0]


def test_the_remainder_goes_to_the_smallest_pid_and_start_and_unknown_starts_come_first() -> None:
    assert parts(card(10, *(ProcessReading(pid=pid, uid=1) for pid in (3, 2, 1)))) == [3, 3, 4]
    assert parts(card(2, *(ProcessReading(pid=pid, uid=pid) for pid in (30, 9, 20)))) == [0, 1, 1]
    twice = [ProcessReading(pid=1, created_ms=start, uid=1) for start in (5, 0, None)]
    assert parts(card(4, *twice)) == [1, 1, 2]


def test_only_the_gpu_time_of_processes_changes() -> None:
    before = card(7, ProcessReading(pid=1, uid=1, owner="ann", comm="python", memory_bytes=0, utilization=0.0))
    after = attribute(before)
    assert after == replace(before, processes=(replace(before.processes[0], gpu_time_ms=7),))
    assert attribute(after) == after


NAMES = st.none() | st.sampled_from(["", "1", "2"])
PROCESSES = st.lists(
    st.builds(
        ProcessReading,
        pid=st.integers(1, 40),
        created_ms=st.none() | st.integers(0, 3),
        type=st.sampled_from(ProcessType),
        slurm_job_id=NAMES,
        pod_uid=NAMES,
        container_id=NAMES,
        uid=st.none() | st.integers(0, 2),
        owner=NAMES,
        gpu_time_ms=st.none() | st.integers(0, 9),
    ),
    max_size=12,
    unique_by=lambda process: (process.pid, process.created_ms),
)
TIMES = st.integers(0, 30_000) | st.integers(0, 12)


@given(PROCESSES, TIMES)
def test_the_parts_sum_to_the_cards_gpu_time_exactly(processes: list[ProcessReading], gpu_time_ms: int) -> None:
    given_out = attribute(card(gpu_time_ms, *processes)).processes
    counted = [process.gpu_time_ms for process in given_out if process.type is not ProcessType.IGNORED]
    assert all(part is not None and part >= 0 for part in counted)
    assert sum(part or 0 for part in counted) == (gpu_time_ms if counted else 0)
    assert all(process.gpu_time_ms is None for process in given_out if process.type is ProcessType.IGNORED)


@given(PROCESSES, TIMES)
def test_holders_and_the_processes_of_one_holder_differ_by_at_most_1_ms(
    processes: list[ProcessReading], gpu_time_ms: int
) -> None:
    held: Counter[object] = Counter()
    within: defaultdict[object, list[int]] = defaultdict(list)
    for process in attribute(card(gpu_time_ms, *processes)).processes:
        if process.gpu_time_ms is not None:
            held[holder(process)] += process.gpu_time_ms
            within[holder(process)].append(process.gpu_time_ms)
    assert not held or max(held.values()) - min(held.values()) <= 1
    assert all(max(of_one) - min(of_one) <= 1 for of_one in within.values())


@given(PROCESSES, TIMES, st.randoms(use_true_random=False))
def test_the_order_of_the_drivers_list_changes_nothing(
    processes: list[ProcessReading], gpu_time_ms: int, random: Random
) -> None:
    shuffled = list(processes)
    random.shuffle(shuffled)
    one = attribute(card(gpu_time_ms, *processes)).processes
    other = attribute(card(gpu_time_ms, *shuffled)).processes
    assert set(one) == set(other)
