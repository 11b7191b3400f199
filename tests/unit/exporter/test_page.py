"""The page as prometheus-client's own parsers read it: names, labels, and what has no sample."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from fakes.cards import GIB, START_MS, card, full_tick, process, tick
from fakes.pages import Series, read_families, text_of
from gua.core.metrics import CATALOGUE
from gua.core.rules import State
from gua.core.words import Mig, ProcessList, ProcessType
from gua.exporter.catalogue import Catalogue, add, family_name, is_counter, new_family


def values(found: Series, name: str, **labels: str) -> list[float]:
    return [value for (one, has), value in found.items() if one == name and labels.items() <= dict(has).items()]


def labels_of(found: Series, name: str) -> list[dict[str, str]]:
    return [dict(has) for one, has in found if one == name]


def test_every_metric_of_the_catalogue_has_the_name_that_the_specification_gives_it() -> None:
    assert {metric.name: family_name(metric) + "_total" * is_counter(metric) for metric in CATALOGUE} == {
        "gua.gpu.sample.duration": "gua_gpu_sample_duration_seconds_total",
        "gua.gpu.time": "gua_gpu_time_seconds_total",
        "hw.gpu.utilization": "hw_gpu_utilization_ratio",
        "gua.gpu.utilization.max": "gua_gpu_utilization_max_ratio",
        "gua.gpu.utilization.coverage": "gua_gpu_utilization_coverage_seconds",
        "gua.gpu.idle.time": "gua_gpu_idle_time_seconds_total",
        "gua.gpu.clock.reasons": "gua_gpu_clock_reasons",
        "hw.errors": "hw_errors_total",
        "gua.gpu.xid": "gua_gpu_xid",
        "gua.gpu.row.remap": "gua_gpu_row_remap",
        "gua.gpu.recovery.action": "gua_gpu_recovery_action",
        "gua.gpu.sm.utilization": "gua_gpu_sm_utilization_ratio",
        "gua.gpu.sm.occupancy": "gua_gpu_sm_occupancy_ratio",
        "gua.gpu.tensor.utilization": "gua_gpu_tensor_utilization_ratio",
        "gua.gpu.memory.bandwidth.utilization": "gua_gpu_memory_bandwidth_utilization_ratio",
        "gua.gpu.idle.energy": "gua_gpu_idle_energy_joules_total",
        "gua.gpu.idle.energy.coverage": "gua_gpu_idle_energy_coverage_seconds",
        "hw.gpu.memory.usage": "hw_gpu_memory_usage_bytes",
        "hw.gpu.memory.limit": "hw_gpu_memory_limit_bytes",
        "gua.gpu.memory.reserved": "gua_gpu_memory_reserved_bytes",
        "gua.gpu.processes": "gua_gpu_processes",
        "gua.gpu.processes.seen": "gua_gpu_processes_seen",
        "gua.gpu.process.memory.usage": "gua_gpu_process_memory_usage_bytes",
        "gua.gpu.process.memory.unknown": "gua_gpu_process_memory_unknown",
        "gua.gpu.process.utilization.max": "gua_gpu_process_utilization_max_ratio",
        "hw.power": "hw_power_watts",
        "hw.temperature": "hw_temperature_celsius",
        "hw.energy": "hw_energy_joules_total",
        "gua.gpu.energy": "gua_gpu_energy_joules_total",
        "hw.status": "hw_status",
        "gua.gpu.info": "gua_gpu_info",
        "gua.gpu.unallocated.time": "gua_gpu_unallocated_time_seconds_total",
        "gua.gpu.allocation.duration": "gua_gpu_allocation_duration_seconds_total",
        "gua.gpu.allocation.time": "gua_gpu_allocation_time_seconds_total",
        "gua.gpu.allocation.info": "gua_gpu_allocation_info",
        "gua.allocation.source.duration": "gua_allocation_source_duration_seconds_total",
        "gua.queue.waiting": "gua_queue_waiting",
        "gua.queue.wait.time": "gua_queue_wait_time_seconds_total",
        "gua.queue.time": "gua_queue_time_seconds_total",
        "gua.process.sample.duration": "gua_process_sample_duration_seconds_total",
        "gua.process.gpu.time": "gua_process_gpu_time_seconds_total",
        "gua.process.gpu.memory.usage": "gua_process_gpu_memory_usage_bytes",
        "gua.process.gpu.utilization": "gua_process_gpu_utilization_ratio",
        "gua.process.idle.duration": "gua_process_idle_duration_seconds",
        "gua.process.info": "gua_process_info",
        "gua.agent.tick.duration": "gua_agent_tick_duration_seconds",
        "gua.agent.tick.lateness": "gua_agent_tick_lateness_seconds",
        "gua.agent.spool.ticks": "gua_agent_spool_ticks",
        "gua.agent.spool.size": "gua_agent_spool_size_bytes",
        "gua.agent.dropped": "gua_agent_dropped_total",
        "gua.agent.errors": "gua_agent_errors_total",
    }


def test_a_tick_in_which_everything_is_known_has_a_sample_of_every_metric() -> None:
    found = read_families(Catalogue().families(full_tick()))
    names = {name for name, _ in found}
    assert names >= {family_name(metric) + "_total" * is_counter(metric) for metric in CATALOGUE}
    assert values(found, "gua_process_idle_duration_seconds") == [30]
    assert values(found, "hw_energy_joules_total") == [1234.567]
    assert values(found, "gua_agent_errors_total", call="a", code="b") == [3]


def test_a_process_has_its_owner_on_each_series() -> None:
    found = read_families(Catalogue().families(full_tick()))
    for name in ("gua_process_idle_duration_seconds", "gua_process_gpu_memory_usage_bytes", "gua_process_state"):
        [labels] = labels_of(found, name)
        assert (labels | {"state": ""}) == {
            "hw_id": "GPU-1",
            "process_pid": "11",
            "process_creation_time": "2026-03-24T23:59:59.000Z",
            "process_owner": "ana",
            "gua_process_comm": "python3",
            "container_id": "c" * 64,
            "k8s_pod_uid": "6f1d2c3b-0000-4000-8000-000000000001",
            "slurm_job_id": "77",
            "state": "",
        }


def test_amounts_of_ticks_add_up_and_begin_anew_with_a_process_that_went_away() -> None:
    catalogue = Catalogue()
    totals = [
        values(read_families(catalogue.families(one)), "gua_process_gpu_time_seconds_total")
        for one in (full_tick(START_MS), full_tick(START_MS + 30_000), tick(START_MS + 60_000, card()), full_tick())
    ]
    assert totals == [[30], [60], [], [30]]


def test_a_total_continues_after_a_tick_with_an_unknown_amount() -> None:
    holder = process(11, created_ms=5, gpu_time_ms=5000)
    known = card(energy_mj=100_000, processes=(holder,))
    no_amounts = replace(known, energy_mj=None, processes=(replace(holder, gpu_time_ms=None),))
    unread = card(energy_mj=None, process_list=ProcessList.FAILED)
    catalogue = Catalogue()
    shown = []
    for one in (known, no_amounts, known, unread, unread, known):
        found = read_families(catalogue.families(tick(START_MS, one)))
        shown.append(
            (
                values(found, "gua_gpu_energy_joules_total"),
                values(found, "gua_process_gpu_time_seconds_total"),
                values(found, "gua_process_sample_duration_seconds_total"),
            )
        )
    assert shown == [
        ([100], [5], [30]),
        ([], [], [60]),
        ([200], [10], [90]),
        ([], [], []),
        ([], [], []),
        ([300], [15], [120]),
    ]


def test_totals_of_vanished_cards_and_processes_restart() -> None:
    catalogue = Catalogue()
    held = card(held=GIB, process_list=ProcessList.PID_NAMESPACE, energy_mj=1000)
    other = card(process_list=ProcessList.PID_NAMESPACE, processes=(process(12),))
    for one in (held, other, held):  # one is gone where another one is listed, even if not all may be
        found = read_families(catalogue.families(tick(START_MS, one)))
        assert values(found, "gua_process_sample_duration_seconds_total") == [30]
    catalogue.families(tick(START_MS, card("GPU-2")))
    found = read_families(catalogue.families(tick(START_MS, held)))
    assert values(found, "gua_gpu_sample_duration_seconds_total") == [30]
    assert values(found, "gua_gpu_energy_joules_total") == [1]


def test_a_partitioned_gpu_without_unallocated_slices_has_no_state() -> None:
    parent = card("GPU-1", mig=Mig.PARENT, gpu_time_ms=0)
    instance = card("MIG-1", mig=Mig.INSTANCE, parent="GPU-1", busy=0.9)
    found = read_families(Catalogue().families(tick(START_MS, parent, instance)))
    assert {labels["hw_id"] for labels in labels_of(found, "gua_gpu_state")} == {"MIG-1"}
    assert values(found, "gua_gpu_info", hw_id="GPU-1") == [1]
    lost = [replace(one, failed=True) for one in (parent, instance)]
    found = read_families(Catalogue().families(tick(START_MS, *lost)))
    assert {labels["hw_id"] for labels in labels_of(found, "gua_gpu_unknown")} == {"MIG-1"}
    for share in (replace(parent, gpu_time_ms=1), replace(parent, mig=Mig.NONE), replace(instance, gpu_time_ms=0)):
        assert values(read_families(Catalogue().families(tick(START_MS, share))), "gua_gpu_state", state="active")


def test_a_card_that_vanished_has_no_series_in_the_next_page() -> None:
    catalogue = Catalogue()
    catalogue.families(tick(START_MS, card("GPU-1"), card("GPU-2")))
    left = read_families(catalogue.families(tick(START_MS + 30_000, card("GPU-1"))))
    assert {labels["hw_id"] for _, has in left for labels in [dict(has)] if "hw_id" in labels} == {"GPU-1"}


def test_what_is_unknown_has_no_sample_and_a_state_says_why() -> None:
    unknown = card(busy=None, held=GIB, processes=(process(11, None, utilization=None),))
    found = read_families(Catalogue().families(tick(START_MS, unknown)))
    for name in (
        "hw_gpu_utilization_ratio",
        "gua_process_gpu_memory_usage_bytes",
        "gua_process_gpu_utilization_ratio",
        "gua_process_idle_duration_seconds",
        "hw_power_watts",
    ):
        assert values(found, name) == [], name
    assert values(found, "gua_process_state", state="unknown") == [1]
    assert {state: values(found, "gua_gpu_state", state=state) for state in State} == {
        "active": [0],
        "idle-held": [0],
        "truly-idle": [0],
        "unknown": [1],
    }
    assert values(found, "gua_gpu_unknown", reason="utilization") == [1]


def test_a_list_of_processes_that_is_not_known_has_no_counts() -> None:
    found = read_families(Catalogue().families(tick(START_MS, card(process_list=ProcessList.FAILED))))
    assert values(found, "gua_gpu_processes") == []
    assert values(read_families(Catalogue().families(tick(START_MS, card()))), "gua_gpu_processes") == [0, 0, 0, 0]


def test_an_ignored_process_is_exported_without_state_and_idle_time() -> None:
    one = card(held=GIB, processes=(process(11, comm="Xorg", type=ProcessType.IGNORED, utilization=0.0),))
    found = read_families(Catalogue().families(tick(START_MS, one)))
    assert values(found, "gua_process_info", gua_process_type="ignored") == [1]
    assert values(found, "gua_process_state") == []
    assert values(found, "gua_process_idle_duration_seconds") == []


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_has_no_sample(number: float) -> None:
    assert values(read_families(Catalogue().families(tick(START_MS, card(power_watts=number)))), "hw_power_watts") == []


@pytest.mark.parametrize(
    ("comm", "shown"),
    [
        ('a"b', 'a"b'),
        ("a\nb", "a\nb"),
        ("a\\nb", "a\\nb"),
        ("a\\", "a\\"),
        ('"} 1\nfake{a="', '"} 1\nfake{a="'),
        ("a\udcffb", "a\ufffdb"),
        ("a\x00b", "a\ufffdb"),
        ("\u202eevil", "\u202eevil"),
        ("\r", "\r"),
        ("é" * 300, "é" * 256),
    ],
)
def test_a_hostile_name_is_one_label_and_nothing_else(comm: str, shown: str) -> None:
    usual = read_families(Catalogue().families(tick(START_MS, card(held=GIB))))
    hostile = card(held=GIB, processes=(process(4711, GIB, comm=comm, owner=comm),))
    found = read_families(Catalogue().families(tick(START_MS, hostile)))
    assert len(found) == len(usual)
    [labels] = labels_of(found, "gua_process_info")
    assert (labels["gua_process_comm"], labels["process_owner"]) == (shown, shown)


def test_attributes_of_the_user_are_on_the_target_and_cannot_replace_ours() -> None:
    one = tick(START_MS, card())
    origin = replace(one.origin, attributes=(("host.name", "forged"), ("k8s.node.name", "n1"), ("1 a\n", "x")))
    [labels] = labels_of(read_families(Catalogue().families(replace(one, origin=origin))), "target_info")
    assert (labels["host_name"], labels["k8s_node_name"], labels["_1_a_"]) == ("gpu-1", "n1", "x")


@pytest.mark.parametrize("name", ["__name__", "__address__", "__", ".._", "--name__"])
def test_an_attribute_of_the_user_cannot_be_a_label_of_prometheus_own(name: str) -> None:
    one = tick(START_MS, card())
    origin = replace(one.origin, attributes=((name, "x"), ("team", "vision")))
    [labels] = labels_of(read_families(Catalogue().families(replace(one, origin=origin))), "target_info")
    assert labels["team"] == "vision"
    assert not [label for label in labels if label.startswith("__")]


def test_a_help_text_is_one_line_in_both_formats() -> None:
    family = new_family("gua_x", 'says "a\\b"\nand more')
    add(family, {}, 1)
    for is_openmetrics, parse in (
        (False, text_string_to_metric_families),
        (True, openmetrics.text_string_to_metric_families),
    ):
        [found] = parse(text_of([family], is_openmetrics=is_openmetrics))
        assert found.documentation == 'says "a\\b"\nand more'


@pytest.mark.parametrize(("seen", "value"), [(0, [1.0]), (1, [0.0]), (None, [])])
def test_an_active_card_without_a_process_has_a_series_if_that_is_known(seen: int | None, value: list[float]) -> None:
    one = card(busy=0.93, memory_used_bytes=2**20, processes_seen=seen)
    found = read_families(Catalogue().families(tick(START_MS, one)))
    assert values(found, "gua_gpu_active_without_process") == value
    assert values(found, "gua_gpu_processes_seen") == ([] if seen is None else [float(seen)])
    idle = read_families(Catalogue().families(tick(START_MS, card(busy=0.0, processes_seen=0))))
    assert values(idle, "gua_gpu_active_without_process") == []
