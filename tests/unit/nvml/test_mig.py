from __future__ import annotations

import pytest

from fakes.clock import FakeClock
from fakes.nvml import GIB, MIB, NO_PERMISSION, NOT_SUPPORTED, Card, FakeDriver, Process
from gua.core.facts import card_facts
from gua.core.ports import RawCard
from gua.core.rules import Rules, State, classify
from gua.core.words import Mig, ProcessList
from gua.nvml.reader import NvmlReader


def instance(uuid: str, slices: int, gib: int, **more: object) -> Card:
    card = Card(uuid, name=f"NVIDIA A100-SXM4-40GB MIG {slices}g.{gib}gb", total=gib * GIB, used=0, reserved=0)
    card.slices = slices
    for name, value in more.items():
        setattr(card, name, value)
    return card


def partitioned(*instances: Card | None, **more: object) -> Card:
    card = Card("GPU-p", name="NVIDIA A100-SXM4-40GB", total=40 * GIB, mig=True, instances=list(instances))
    for name, value in more.items():
        setattr(card, name, value)
    return card


def read(card: Card) -> tuple[list[RawCard], list[str]]:
    cards, errors = NvmlReader(FakeClock(), FakeDriver(card)).read()
    return list(cards), [f"{error.uuid} {error.call} {error.code}" for error in errors]


def test_instances_are_cards_of_their_own_and_the_parent_stands_for_the_rest() -> None:
    (parent, large, small), errors = read(partitioned(instance("MIG-3", 3, 20), None, instance("MIG-1", 1, 5)))
    assert errors == []
    assert [raw.gpu_fraction for raw in (parent, large, small)] == [(3, 7), (3, 7), (1, 7)]
    assert [raw.reading.mig for raw in (parent, large, small)] == [Mig.PARENT, Mig.INSTANCE, Mig.INSTANCE]
    assert (large.reading.uuid, large.reading.parent, large.reading.index) == ("MIG-3", "GPU-p", 0)
    assert (large.reading.name, large.reading.model) == (
        "NVIDIA A100-SXM4-40GB MIG 3g.20gb",
        "NVIDIA A100-SXM4-40GB",
    )
    assert parent.reading.parent is None


def test_the_shares_of_a_card_sum_to_one_even_if_instances_own_all_of_it() -> None:
    cards, _ = read(partitioned(instance("MIG-4", 4, 20), instance("MIG-3", 3, 20)))
    assert [raw.gpu_fraction for raw in cards] == [(0, 7), (4, 7), (3, 7)]


def test_a_card_with_four_slices_says_so() -> None:
    cards, errors = read(partitioned(instance("MIG-1", 1, 6), slices=4))
    assert ([raw.gpu_fraction for raw in cards], errors) == ([(3, 4), (1, 4)], [])


def test_unreadable_slices_are_assumed_and_the_assumption_is_reported() -> None:
    cards, errors = read(
        partitioned(instance("MIG-1", 1, 5), faults={"nvmlDeviceGetGpuInstanceProfileInfo": NOT_SUPPORTED})
    )
    assert [raw.gpu_fraction for raw in cards] == [(6, 7), (1, 7)]
    assert errors == ["GPU-p nvmlDeviceGetGpuInstanceProfileInfo no whole-card profile, 7 slices assumed"]


def test_utilization_in_mig_mode_is_unknown_and_not_read() -> None:
    inside = instance("MIG-1", 1, 5, compute=[Process(7, gpuInstanceId=9)])
    cards, errors = read(partitioned(inside, gpu=99))
    assert [raw.reading.utilization for raw in cards] == [None, None]
    assert cards[1].processes[0].utilization is None
    assert errors == []


def test_power_and_energy_are_the_whole_cards() -> None:
    parent, inside = read(partitioned(instance("MIG-1", 1, 5)))[0]
    assert (parent.reading.power_watts, inside.reading.power_watts) == (71.8, None)
    assert (parent.reading.energy_total_mj, inside.reading.energy_total_mj) == (1_000_000, None)
    assert inside.reading.temperature_celsius is None


def test_processes_and_memory_of_an_instance_are_not_the_parents_too() -> None:
    inside = instance("MIG-1", 1, 5, compute=[Process(7, 4 * GIB, gpuInstanceId=9)], used=4 * GIB)
    card = partitioned(
        inside, compute=[Process(7, 4 * GIB, gpuInstanceId=9), Process(8, gpuInstanceId=5)], used=4 * GIB + 20 * MIB
    )
    (parent, own), _ = read(card)
    assert parent.processes == ()
    assert [process.pid for process in own.processes] == [7]
    assert (parent.reading.memory_used_bytes, parent.reading.memory_limit_bytes) == (20 * MIB, 35 * GIB)
    assert own.reading.memory_used_bytes == 4 * GIB


def test_an_instance_of_unknown_memory_makes_the_parents_unknown() -> None:
    faults = {"nvmlDeviceGetMemoryInfo_v2": NO_PERMISSION, "nvmlDeviceGetMemoryInfo": NO_PERMISSION}
    (parent, own), errors = read(partitioned(instance("MIG-1", 1, 5, faults=faults)))
    assert (parent.reading.memory_used_bytes, own.reading.memory_used_bytes) == (None, None)
    assert errors == ["MIG-1 nvmlDeviceGetMemoryInfo NO_PERMISSION"] * 2


SILENT = dict.fromkeys(
    [
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetGraphicsRunningProcesses_v3",
        "nvmlDeviceGetMPSComputeRunningProcesses_v3",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetTemperature",
        "nvmlDeviceGetTotalEnergyConsumption",
    ],
    999,
)


def test_a_parent_and_an_instance_fail_by_their_own_readings_only() -> None:
    cards, _ = read(partitioned(instance("MIG-1", 1, 5, faults=SILENT), instance("MIG-2", 1, 5)))
    assert [raw.reading.failed for raw in cards] == [False, None, False]
    cards, _ = read(partitioned(instance("MIG-1", 1, 5), faults=SILENT))
    assert [raw.reading.failed for raw in cards] == [None, False]


def test_an_instance_without_a_uuid_or_slices_is_left_out_and_named() -> None:
    nameless = instance("MIG-1", 1, 5, faults={"nvmlDeviceGetUUID": NO_PERMISSION})
    shapeless = instance("MIG-2", 1, 5, faults={"nvmlDeviceGetAttributes_v2": NO_PERMISSION})
    cards, errors = read(partitioned(nameless, shapeless))
    assert [raw.reading.uuid for raw in cards] == ["GPU-p"]
    assert sorted(errors) == [
        "GPU-p nvmlDeviceGetAttributes_v2 NO_PERMISSION",
        "GPU-p nvmlDeviceGetUUID NO_PERMISSION",
    ]


def state(raw: RawCard) -> State:
    return classify(card_facts(raw.reading), Rules()).state


@pytest.mark.parametrize(
    "call", ["nvmlDeviceGetAttributes_v2", "nvmlDeviceGetUUID", "nvmlDeviceGetMigDeviceHandleByIndex"]
)
def test_while_an_instance_cannot_be_read_neither_it_nor_what_is_left_of_its_card_is_idle(call: str) -> None:
    worker = Process(7, 15 * GIB, gpuInstanceId=2)
    large = instance("MIG-3", 3, 20, used=15 * GIB, compute=[worker], gpu_instance=2)
    card = partitioned(instance("MIG-1", 1, 5), large, used=15 * GIB, reserved=0, compute=[worker])
    reader = NvmlReader(FakeClock(), FakeDriver(card))
    before = reader.read()[0]
    assert [raw.reading.uuid for raw in before] == ["GPU-p", "MIG-1", "MIG-3"]
    assert (before[0].reading.process_list, state(before[0])) == (ProcessList.KNOWN, State.TRULY_IDLE)
    (card if call == "nvmlDeviceGetMigDeviceHandleByIndex" else large).faults[call] = 999
    for _ in range(2):
        cards, errors = reader.read()
        parent, unread = cards[0], cards[-1]
        assert (parent.reading.process_list, parent.processes) == (ProcessList.FAILED, ())
        assert (parent.reading.memory_used_bytes, parent.reading.memory_limit_bytes) == (None, None)
        assert (unread.reading.uuid, unread.reading.process_list) == ("MIG-3", ProcessList.FAILED)
        assert (unread.reading.parent, unread.reading.failed) == ("GPU-p", None)
        assert [raw.gpu_fraction for raw in cards] == [raw.gpu_fraction for raw in before]
        assert [state(parent), state(unread)] == [State.UNKNOWN, State.UNKNOWN]
        assert {error.call for error in errors} == {call}
    card.faults.clear()
    large.faults.clear()
    assert list(reader.read()[0]) == list(before)


@pytest.mark.parametrize("call", ["nvmlDeviceGetAttributes_v2", "nvmlDeviceGetUUID"])
def test_what_is_left_of_a_card_is_not_known_to_be_empty_if_an_instance_was_never_read(call: str) -> None:
    (parent,), _ = read(partitioned(instance("MIG-1", 1, 5, faults={call: NO_PERMISSION}), used=0, reserved=0))
    assert (parent.reading.process_list, parent.reading.memory_used_bytes) == (ProcessList.FAILED, None)
    assert state(parent) is State.UNKNOWN


def test_an_instance_that_is_gone_is_gone_also_while_another_cannot_be_read() -> None:
    shapeless = instance("MIG-1", 1, 5, faults={"nvmlDeviceGetAttributes_v2": NO_PERMISSION})
    card = partitioned(shapeless, instance("MIG-3", 3, 20))
    reader = NvmlReader(FakeClock(), FakeDriver(card))
    assert [raw.reading.uuid for raw in reader.read()[0]] == ["GPU-p", "MIG-3"]
    card.instances[1] = None
    assert [(raw.reading.uuid, raw.gpu_fraction) for raw in reader.read()[0]] == [("GPU-p", (7, 7))]


def test_an_instance_that_moved_to_another_index_is_not_reported_twice() -> None:
    one, other = instance("MIG-1", 1, 5), instance("MIG-3", 3, 20)
    card = partitioned(one, other)
    reader = NvmlReader(FakeClock(), FakeDriver(card))
    reader.read()
    one.faults["nvmlDeviceGetUUID"] = 999
    card.instances = [other, one]
    assert [raw.reading.uuid for raw in reader.read()[0]] == ["GPU-p", "MIG-3"]


def test_instances_are_found_if_the_driver_does_not_report_their_maximum_number() -> None:
    card = partitioned(instance("MIG-3", 3, 20), None, instance("MIG-1", 1, 5))
    card.faults["nvmlDeviceGetMaxMigDeviceCount"] = 999
    cards, errors = read(card)
    assert [(raw.reading.uuid, raw.reading.process_list) for raw in cards] == [
        (uuid, ProcessList.KNOWN) for uuid in ("GPU-p", "MIG-3", "MIG-1")
    ]
    assert errors == ["GPU-p nvmlDeviceGetMaxMigDeviceCount UNKNOWN"]


def test_a_card_of_instances_stays_one_while_nothing_of_it_can_be_read() -> None:
    card = partitioned(instance("MIG-1", 1, 5))
    reader = NvmlReader(FakeClock(), FakeDriver(card))
    before = reader.read()[0]
    mig = ("nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex")
    card.faults = SILENT | dict.fromkeys(mig, 999)
    for _ in range(2):
        cards = reader.read()[0]
        assert [(raw.reading.uuid, raw.gpu_fraction) for raw in cards] == [
            (raw.reading.uuid, raw.gpu_fraction) for raw in before
        ]
        assert [(raw.reading.failed, state(raw)) for raw in cards] == [(None, State.UNKNOWN)] * 2
    card.faults = {}
    assert list(reader.read()[0]) == list(before)


def test_a_mode_that_cannot_be_read_is_unknown() -> None:
    (card,), _ = read(Card("GPU-a", faults={"nvmlDeviceGetMigMode": NO_PERMISSION}))
    assert card.reading.mig is None
    assert card.reading.process_list is ProcessList.KNOWN
