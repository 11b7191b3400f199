"""The metrics of gpu-idle-exporter: by its documented meaning, and without a number where nothing is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fakes.cards import GIB, START_MS, card, process, tick
from fakes.pages import read_families
from gua.core.idleness import GAP_MS, IdleCounter, IdleCounters, advance, with_absent
from gua.core.rules import Rules
from gua.core.tick import CardReading, ProcessReading, Tick
from gua.core.words import Mig, ProcessList, ProcessType
from gua.exporter import gpu_idle_exporter

IDLE = IdleCounter(seen_ms=START_MS, covered_ms=30_000, zero_polls=2, zero_ms=90_000)
FIRST = IdleCounter(seen_ms=START_MS, covered_ms=30_000, zero_polls=1)


def lines(one: Tick, clocks: IdleCounters | None = None, **constant: str) -> list[str]:
    """Return the samples of a tick's page, sorted, without the prefix that all have."""
    series = read_families(gpu_idle_exporter.families(one, clocks or {}, constant))
    assert all(name.startswith("gpu_idle_") for name, _ in series)

    def line(name: str, labels: tuple[tuple[str, str], ...], value: float) -> str:
        inside = ",".join(f'{label}="{text}"' for label, text in labels)
        return f"{name.removeprefix('gpu_idle_')}{{{inside}}} {value:.15g}"

    return sorted(line(name, labels, value) for (name, labels), value in series.items())


def held(**values: object) -> CardReading:
    return card(
        held=8 * GIB,
        power_watts=121.5,
        temperature_celsius=40,
        processes=(process(11, **{"memory_bytes": 8 * GIB, "utilization": 0.0, "created_ms": 5, **values}),),
    )


def process_lines(*cards: CardReading, clock: IdleCounter = IDLE) -> list[str]:
    clocks = {("GPU-1", 11, 5): clock}
    return [line for line in lines(tick(START_MS, *cards), clocks) if not line.startswith("device")]


def test_every_series_has_its_name_its_labels_and_the_constant_ones() -> None:
    device = '{gpu="0",model="NVIDIA H100 80GB HBM3",namespace="gpu",node="n1",pod="gua-x",uuid="GPU-1"}'
    program = '{gpu="0",namespace="gpu",node="n1",pid="11",pod="gua-x",process="python3"}'
    clocks = {("GPU-1", 11, 5): IDLE}
    assert lines(tick(START_MS, held()), clocks, node="n1", pod="gua-x", namespace="gpu") == [
        f"device_memory_total_bytes{device} {80 * GIB}",
        f"device_memory_used_bytes{device} {8 * GIB}",
        f"device_power_watts{device} 121.5",
        f"device_temperature_celsius{device} 40",
        f"device_utilization_percent{device} 0",
        f'memory_total_bytes{{gpu="0",namespace="gpu",node="n1",pod="gua-x"}} {8 * GIB}',
        f"process_compute_utilization_percent{program} 0",
        f"process_idle_memory_bytes{program} {8 * GIB}",
        f"process_idle_seconds{program} 90",
        f"process_memory_used_bytes{program} {8 * GIB}",
    ]


def test_one_poll_at_zero_is_not_idle_yet() -> None:
    assert process_lines(held(), clock=FIRST) == [
        'memory_total_bytes{gpu="0"} 0',
        'process_compute_utilization_percent{gpu="0",pid="11",process="python3"} 0',
        'process_idle_memory_bytes{gpu="0",pid="11",process="python3"} 0',
        'process_idle_seconds{gpu="0",pid="11",process="python3"} 0',
        f'process_memory_used_bytes{{gpu="0",pid="11",process="python3"}} {8 * GIB}',
    ]


def test_a_utilization_error_is_not_zero_percent() -> None:
    assert process_lines(held(utilization=None)) == [
        f'process_memory_used_bytes{{gpu="0",pid="11",process="python3"}} {8 * GIB}'
    ]


def test_memory_that_is_not_available_has_no_number_and_leaves_the_sum_unknown() -> None:
    assert process_lines(held(memory_bytes=None)) == [
        'process_compute_utilization_percent{gpu="0",pid="11",process="python3"} 0',
        'process_idle_seconds{gpu="0",pid="11",process="python3"} 90',
    ]


def test_a_device_value_that_is_not_supported_is_absent() -> None:
    silent = card(busy=None, memory_used_bytes=None, memory_limit_bytes=None)
    assert lines(tick(START_MS, silent)) == ['memory_total_bytes{gpu="0"} 0']


def test_a_failed_list_of_processes_leaves_the_sum_unknown() -> None:
    assert not process_lines(card(process_list=ProcessList.FAILED))


def test_an_unnamed_process_is_unknown_and_a_graphics_process_is_left_out() -> None:
    assert 'process_idle_seconds{gpu="0",pid="11",process="unknown"} 90' in process_lines(held(comm=None))
    assert process_lines(held(type=ProcessType.GRAPHICS)) == ['memory_total_bytes{gpu="0"} 0']


def test_a_client_of_mps_is_shown_and_summed_like_any_other() -> None:
    assert process_lines(held(type=ProcessType.MPS)) == process_lines(held())
    assert f'memory_total_bytes{{gpu="0"}} {8 * GIB}' in process_lines(held(type=ProcessType.MPS))


def test_time_in_which_a_process_was_not_listed_does_not_count_as_idle() -> None:
    clocks: IdleCounters = {("GPU-1", 11, 5): IDLE}
    clocks = with_absent(clocks, {}, START_MS + 5_000, GAP_MS)  # a tick without it
    [process] = held().processes
    after = IdleCounter(seen_ms=START_MS + 10_000, covered_ms=5_000)
    clock = advance(clocks["GPU-1", 11, 5], process, after, Rules())
    assert [line for line in process_lines(held(), clock=clock) if "idle_seconds" in line] == [
        'process_idle_seconds{gpu="0",pid="11",process="python3"} 95'
    ]


def test_a_clock_of_another_process_under_the_same_pid_does_not_count() -> None:
    assert not any("idle_seconds" in line for line in process_lines(held(created_ms=6)))


def test_a_partitioned_card_is_one_device_with_all_its_memory_and_processes() -> None:
    parent = card("GPU-1", busy=None, memory_limit_bytes=20 * GIB, mig=Mig.PARENT)
    instance = replace(held(), uuid="MIG-1", parent="GPU-1", mig=Mig.INSTANCE, memory_limit_bytes=60 * GIB, index=None)
    found = lines(tick(START_MS, parent, instance), {("MIG-1", 11, 5): IDLE})
    device = '{gpu="0",model="NVIDIA H100 80GB HBM3",uuid="GPU-1"}'
    assert f"device_memory_total_bytes{device} {80 * GIB}" in found
    assert f"device_memory_used_bytes{device} {8 * GIB}" in found
    assert f'memory_total_bytes{{gpu="0"}} {8 * GIB}' in found
    assert 'process_idle_seconds{gpu="0",pid="11",process="python3"} 90' in found


@pytest.mark.parametrize("unknown", ["parent", "instance"])
def test_a_partitioned_card_whose_processes_are_not_all_known_has_no_sum(unknown: str) -> None:
    lists = {"parent": ProcessList.KNOWN, "instance": ProcessList.KNOWN, unknown: ProcessList.FAILED}
    parent = card("GPU-1", mig=Mig.PARENT, process_list=lists["parent"])
    instance = card("MIG-1", mig=Mig.INSTANCE, parent="GPU-1", process_list=lists["instance"])
    assert not process_lines(parent, instance)


def test_a_lost_card_has_no_sum_even_if_it_is_partitioned() -> None:
    lost = CardReading(uuid="GPU-1", index=0, duration_ms=1, gpu_time_ms=0, mig=Mig.PARENT, failed=True)
    assert lines(tick(START_MS, lost)) == []


def on_two(first: ProcessReading, second: ProcessReading, *clocks: IdleCounter) -> dict[str, float]:
    """Return the series of a process on two instances of a card; its name in short, and the card's sum."""
    parent = card("GPU-1", busy=None, mig=Mig.PARENT)
    instances = [
        card(uuid, index=None, busy=None, mig=Mig.INSTANCE, parent="GPU-1", processes=(one,))
        for uuid, one in (("MIG-1", first), ("MIG-2", second))
    ]
    known = {(uuid, 11, 5): clock for uuid, clock in zip(("MIG-1", "MIG-2"), clocks, strict=True)}
    found = [line for line in lines(tick(START_MS, parent, *instances), known) if not line.startswith("device")]
    return {line.partition("{")[0].removeprefix("process_"): float(line.split()[-1]) for line in found}


def test_a_process_on_two_instances_of_a_card_is_one_with_the_memory_of_both() -> None:
    later = IDLE._replace(zero_ms=60_000)
    first = process(11, GIB, created_ms=5, utilization=0.0)
    second = process(11, 30 * GIB, created_ms=5, utilization=0.0)
    assert on_two(first, second, IDLE, later) == {
        "compute_utilization_percent": 0,
        "memory_used_bytes": 31 * GIB,
        "idle_seconds": 60,
        "idle_memory_bytes": 31 * GIB,
        "memory_total_bytes": 31 * GIB,
    }


def test_a_process_that_works_on_one_of_two_instances_is_not_idle_and_holds_the_other_idly() -> None:
    first = process(11, GIB, created_ms=5, utilization=0.0)
    second = process(11, 30 * GIB, created_ms=5, utilization=0.4)
    assert on_two(first, second, IDLE, IdleCounter(seen_ms=START_MS, covered_ms=30_000)) == {
        "compute_utilization_percent": 40,
        "memory_used_bytes": 31 * GIB,
        "idle_seconds": 0,
        "idle_memory_bytes": GIB,
        "memory_total_bytes": GIB,
    }


def test_what_is_unknown_on_one_of_two_instances_is_unknown_of_both() -> None:
    idle = process(11, GIB, created_ms=5, utilization=0.0)
    active = replace(idle, utilization=0.4)
    unused = IdleCounter(seen_ms=START_MS, covered_ms=30_000)
    assert on_two(idle, replace(idle, utilization=None), IDLE, IDLE) == {"memory_used_bytes": 2 * GIB}
    assert on_two(active, replace(idle, utilization=None), unused, IDLE) == {
        "memory_used_bytes": 2 * GIB,
        "idle_seconds": 0,
    }
    assert on_two(idle, replace(idle, memory_bytes=None), IDLE, IDLE) == {
        "compute_utilization_percent": 0,
        "idle_seconds": 90,
    }


def test_of_two_cards_at_one_index_the_lost_one_goes_by_its_uuid() -> None:
    lost = card("GPU-1", failed=True)
    there = card("GPU-2", failed=False, busy=0.5)
    unread = card("GPU-3", failed=None, index=1)
    for cards in ([lost, there, unread], [unread, there, lost]):
        found = lines(tick(START_MS, *cards))
        assert [line for line in found if line.startswith("memory_total")] == [
            'memory_total_bytes{gpu="0"} 0',
            'memory_total_bytes{gpu="1"} 0',
            'memory_total_bytes{gpu="GPU-1"} 0',
        ]
        assert 'device_utilization_percent{gpu="0",model="NVIDIA H100 80GB HBM3",uuid="GPU-2"} 50' in found
    assert 'memory_total_bytes{gpu="0"} 0' in lines(tick(START_MS, lost, unread))


def test_cards_without_an_index_are_distinguished() -> None:
    cards = [card(uuid, index=None) for uuid in ("GPU-1", "GPU-2")]
    totals = [line for line in lines(tick(START_MS, *cards)) if line.startswith("memory_total")]
    assert totals == ['memory_total_bytes{gpu="GPU-1"} 0', 'memory_total_bytes{gpu="GPU-2"} 0']
