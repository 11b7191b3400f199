from __future__ import annotations

import pytest

from fakes.clock import FakeClock
from fakes.nvml import ALL_ONES_64, GIB, MIB, NO_PERMISSION, NOT_SUPPORTED, Card, FakeDriver, Process, Use
from gua.core.ports import RawProcess
from gua.core.words import ProcessList
from gua.nvml.reader import NvmlReader

NOW_US = 1_700_000_000_000_000


def read(card: Card) -> tuple[dict[int, RawProcess], ProcessList, list[str]]:
    (raw,), errors = NvmlReader(FakeClock(wall_ms=NOW_US // 1000), FakeDriver(card)).read()
    return (
        {process.pid: process for process in raw.processes},
        raw.reading.process_list,
        [f"{error.call} {error.code}" for error in errors],
    )


def test_a_process_on_two_lists_is_one_process() -> None:
    card = Card("GPU-a", compute=[Process(7, GIB)], graphics=[Process(7, None), Process(8, 2 * MIB)])
    processes, known, _ = read(card)
    assert known is ProcessList.KNOWN
    assert processes[7] == RawProcess(
        pid=7, lists=frozenset({"compute", "graphics"}), memory_bytes=GIB, utilization=0.0
    )
    assert processes[8].lists == frozenset({"graphics"})


@pytest.mark.parametrize("memory", [None, ALL_ONES_64, 81 * GIB])
def test_memory_that_the_driver_cannot_mean_is_unknown(memory: int | None) -> None:
    processes, known, _ = read(Card("GPU-a", compute=[Process(7, memory)]))
    assert processes[7].memory_bytes is None
    assert known is ProcessList.KNOWN


def test_a_process_that_holds_nothing_holds_zero_not_unknown() -> None:
    processes, _, _ = read(Card("GPU-a", compute=[Process(7, 0)]))
    assert processes[7].memory_bytes == 0


def test_without_mps_its_list_is_empty() -> None:
    faults = {"nvmlDeviceGetMPSComputeRunningProcesses_v3": NOT_SUPPORTED}
    processes, known, errors = read(Card("GPU-a", compute=[Process(7)], faults=faults))
    assert (list(processes), known, errors) == ([7], ProcessList.KNOWN, [])


@pytest.mark.parametrize("kind", ["Compute", "Graphics", "MPSCompute"])
def test_one_list_that_fails_makes_all_of_them_unknown_and_keeps_what_was_read(kind: str) -> None:
    call = f"nvmlDeviceGet{kind}RunningProcesses_v3"
    card = Card("GPU-a", compute=[Process(7)], graphics=[Process(8)], faults={call: NO_PERMISSION})
    processes, known, errors = read(card)
    assert known is ProcessList.FAILED
    assert processes
    assert errors == [f"{call} NO_PERMISSION"]


@pytest.mark.parametrize("pid", [0, 2**22 + 1, 2**32 - 1])
def test_a_pid_that_cannot_be_one_makes_the_list_unknown(pid: int) -> None:
    processes, known, errors = read(Card("GPU-a", compute=[Process(pid), Process(7)]))
    assert (list(processes), known) == ([7], ProcessList.FAILED)
    assert errors == ["compute process list no pid"]


def test_a_process_without_samples_is_idle_and_more_than_100_percent_is_100_percent() -> None:
    uses = [Use(7, NOW_US - 100, 250), Use(8, NOW_US - 300, 10), Use(8, NOW_US - 100, 20), Use(0, 0, 0)]
    card = Card("GPU-a", compute=[Process(7), Process(8), Process(9)], uses=uses)
    processes, _, errors = read(card)
    assert [processes[pid].utilization for pid in (7, 8, 9)] == [1.0, pytest.approx(0.15), 0.0]
    assert errors == []


@pytest.mark.parametrize("code", [0, 6])
def test_no_use_at_all_means_everybody_is_idle(code: int) -> None:
    card = Card("GPU-a", compute=[Process(7)], faults={"nvmlDeviceGetProcessUtilization": code})
    processes, _, errors = read(card)
    assert (processes[7].utilization, errors) == (0.0, [])


def test_any_other_answer_leaves_utilization_unknown() -> None:
    card = Card("GPU-a", compute=[Process(7)], faults={"nvmlDeviceGetProcessUtilization": NOT_SUPPORTED})
    processes, known, errors = read(card)
    assert (processes[7].utilization, known) == (None, ProcessList.KNOWN)
    assert errors == ["nvmlDeviceGetProcessUtilization NOT_SUPPORTED"]


def test_use_is_queried_from_a_second_ago_and_then_from_the_newest_answer() -> None:
    card = Card("GPU-a", compute=[Process(7)], uses=[Use(7, NOW_US - 2_000_000, 90), Use(7, NOW_US - 10, 30)])
    driver = FakeDriver(card)
    reader = NvmlReader(FakeClock(wall_ms=NOW_US // 1000), driver)
    first, _ = reader.read()
    second, _ = reader.read()
    asked = [since for call, since in driver.asked if call == "nvmlDeviceGetProcessUtilization"]
    assert asked == [NOW_US - 1_000_000, NOW_US - 10]
    assert (first[0].processes[0].utilization, second[0].processes[0].utilization) == (0.3, 0.0)
