from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from driver import build as building
from driver.ask import Asker
from driver.fixture import SimulatedDriver
from driver.scenario import (
    GIB,
    MIB,
    Burst,
    Card,
    Constant,
    Energy,
    Fault,
    Hang,
    Instance,
    Latency,
    Lost,
    Process,
    Scenario,
    Unload,
    Window,
    crowd,
    fill,
    placeholders,
    uuid,
)

DRIVER = Path(building.__file__).parent
NOW = 1_700_000_000
PERIOD_US = 200_000
NOWHERE = 2**32 - 1


class World:
    """A scenario with a clock of its own, and a process that queries the driver about it."""

    def __init__(self, driver: SimulatedDriver, asker: Asker) -> None:
        self._driver = driver
        self.clock = driver.scenario.with_name("clock")
        self.ask = asker.ask
        self.code = asker.code
        self.complaints = asker.complaints
        self._scenario = Scenario()
        self.at(NOW)

    def at(self, seconds: float) -> None:
        self.clock.write_text(f"{round(seconds * 1_000_000)}\n")

    def is_(self, *cards: Card, **changes: Any) -> None:  # noqa: ANN401 - any of a scenario's fields
        self.write(replace(Scenario(cards, clock=self.clock), **changes))

    def write(self, scenario: Scenario | str) -> None:
        self._driver.write(scenario)

    def percents(self, since_us: int = 0, *, kind: int = 1) -> dict[int, int]:
        """Return card 0's ring: values by time."""
        value_type, samples = self.ask(f"nvmlDeviceGetSamples(card(0), {kind}, {since_us})")
        assert value_type == 1
        return {sample["timeStamp"]: sample["sampleValue"]["uiVal"] for sample in samples}

    def listed(self, index: int = 0, kind: str = "Compute", version: str = "_v3") -> list[tuple[int, int | None]]:
        rows = self.ask(f"nvmlDeviceGet{kind}RunningProcesses{version}(card({index}))")
        return [(row["pid"], row["usedGpuMemory"]) for row in rows]


@pytest.fixture(scope="module")
def _process(driver_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SimulatedDriver, Asker]]:
    folder = tmp_path_factory.mktemp("driver")
    driver = SimulatedDriver(library=driver_library, scenario=folder / "driver.scenario")
    driver.write(Scenario())
    asker = Asker(driver.environment, folder / "stderr")
    yield driver, asker
    asker.close()


@pytest.fixture
def world(_process: tuple[SimulatedDriver, Asker]) -> Iterator[World]:
    driver, asker = _process
    driver.write(Scenario())
    asker.ask("nvmlInit()")
    yield World(driver, asker)
    driver.write(Scenario())
    asker.ask("keep()")
    asker.ask("nvmlShutdown()")


def test_the_simulated_driver_reports_its_versions_and_cards(world: World) -> None:
    world.is_(
        Card(uuid(0), name="NVIDIA A100-SXM4-80GB", pci="00000000:1B:00.0", architecture=7),
        Card(uuid(1), addressing="ats"),
        driver="550.1",
        nvml="12.550.1",
        cuda=12040,
    )

    assert world.ask("nvmlSystemGetDriverVersion()") == "550.1"
    assert world.ask("nvmlSystemGetNVMLVersion()") == "12.550.1"
    assert world.ask("nvmlSystemGetCudaDriverVersion()") == 12040
    assert world.ask("nvmlSystemGetCudaDriverVersion_v2()") == 12040
    assert world.ask("nvmlDeviceGetCount()") == 2
    assert world.ask("nvmlDeviceGetUUID(card(1))") == uuid(1)
    assert world.ask("nvmlDeviceGetName(card(0))") == "NVIDIA A100-SXM4-80GB"
    assert world.ask("nvmlDeviceGetPciInfo(card(0))")["busId"] == "00000000:1B:00.0"
    assert world.ask(f"nvmlDeviceGetIndex(nvmlDeviceGetHandleByUUID('{uuid(1)}'))") == 1
    assert world.ask("nvmlDeviceGetIndex(nvmlDeviceGetHandleByPciBusId('0000:1b:00.0'))") == 0
    assert world.ask("nvmlDeviceGetAddressingMode(card(1))") == 2
    assert world.ask("nvmlDeviceGetCudaComputeCapability(card(0))") == [8, 0]
    assert world.ask("nvmlDeviceGetArchitecture(card(1))") == 9
    assert world.ask("nvmlDeviceGetMinorNumber(card(1))") == 1
    assert world.ask("nvmlDeviceGetPersistenceMode(card(0))") == 1
    assert world.ask("nvmlDeviceGetComputeMode(card(0))") == 0
    assert world.ask("nvmlDeviceGetBrand(card(0))") == 14
    assert world.ask("nvmlDeviceGetSerial(card(0))") != world.ask("nvmlDeviceGetSerial(card(1))")
    assert world.code("card(2)") == 2
    assert world.code("nvmlDeviceGetHandleByUUID('GPU-x')") == 6


def test_memory_comes_with_and_without_the_reserve(world: World) -> None:
    process = Process(7, memory=3 * GIB)
    world.is_(
        Card(uuid(0), memory_total=80 * GIB, memory_reserved=600 * MIB, memory_base=GIB, processes=[process]),
        Card(uuid(1), memory_total=None, processes=[process]),
    )

    second = world.ask("memory(0, nvmlMemory_v2)")
    assert (second["total"], second["used"], second["reserved"]) == (80 * GIB, 4 * GIB, 600 * MIB)
    assert second["free"] == 76 * GIB - 600 * MIB
    assert world.ask("memory(0, 0)") == {"total": 80 * GIB, "used": 4 * GIB + 600 * MIB, "free": 76 * GIB - 600 * MIB}
    assert world.code("memory(0, 5)") == 25
    assert world.code("memory(1, nvmlMemory_v2)") == 3
    assert world.code("memory(1, 0)") == 3


def test_power_energy_and_temperature_follow_load_and_time(world: World) -> None:
    world.is_(
        Card(
            uuid(0),
            load=Constant(50),
            idle_watts=100,
            full_watts=700,
            temperature=61,
            energy=Energy(millijoules=5000, at=NOW - 10, watts=300),
        )
    )

    assert world.ask("nvmlDeviceGetPowerUsage(card(0))") == 400_000
    assert world.ask("nvmlDeviceGetTemperature(card(0), 0)") == 61
    assert world.ask("nvmlDeviceGetTemperatureV(card(0), 0)") == 61
    assert world.ask("nvmlDeviceGetTotalEnergyConsumption(card(0))") == 3_005_000
    world.at(NOW + 2.5)
    assert world.ask("nvmlDeviceGetTotalEnergyConsumption(card(0))") == 3_755_000


def test_the_ring_keeps_the_last_samples(world: World) -> None:
    world.is_(Card(uuid(0), load=Constant(42), memory_load=Constant(17)))
    newest = NOW * 1_000_000 // PERIOD_US * PERIOD_US

    ring = world.percents()
    assert list(ring) == [newest - number * PERIOD_US for number in range(70, -1, -1)]
    assert set(ring.values()) == {42}
    assert set(world.percents(kind=2).values()) == {17}
    assert list(world.percents(newest - PERIOD_US - 1)) == [newest - PERIOD_US, newest]
    assert list(world.percents(newest - PERIOD_US)) == [newest]
    assert world.code(f"nvmlDeviceGetSamples(card(0), 1, {newest})") == 6
    # NVML_TOTAL_POWER_SAMPLES, in mW: the draw follows the load, and the ring is one of its own.
    power = world.percents(kind=0)
    assert (len(power), max(power) - min(power), len(set(power.values()))) == (119, 118 * 20_000, 1)
    assert world.code("nvmlDeviceGetSamples(card(0), 3, 0)") == 3


def test_a_reader_that_comes_late_misses_what_the_ring_no_longer_has(world: World) -> None:
    world.is_(Card(uuid(0), load=Constant(1)))
    last = max(world.percents())
    world.at(NOW + 30)

    later = world.percents(last)
    assert len(later) == 71
    assert (min(later) - last) / 1e6 == pytest.approx(16, abs=0.2)


def test_a_ring_may_be_shorter_and_its_samples_longer(world: World) -> None:
    world.is_(Card(uuid(0), load=Constant(1), ring=16, sample_period_ms=1000))

    ring = world.percents()
    assert len(ring) == 16
    assert max(ring) - min(ring) == 15_000_000
    assert max(ring) == NOW * 1_000_000


def burst_mean(burst: Burst, start_us: int, end_us: int) -> float:
    """Count the microseconds of load one period after the other."""
    period, on, phase = (round(1000 * ms) for ms in (burst.period_ms, burst.on_ms, burst.phase_ms))
    first = (start_us - phase) // period - 1
    busy = 0
    for number in range(first, first + (end_us - start_us) // period + 4):
        begin = phase + number * period
        busy += max(0, min(end_us, begin + on) - max(start_us, begin))
    return burst.percent * busy / (end_us - start_us)


@pytest.mark.parametrize(
    "burst",
    [
        Burst(period_ms=1000, on_ms=100),
        Burst(period_ms=7.5, on_ms=3, percent=80, phase_ms=2.25),
        Burst(period_ms=9000, on_ms=900, phase_ms=123456),
    ],
)
def test_each_sample_is_the_mean_of_the_load_in_whole_percent(world: World, burst: Burst) -> None:
    world.is_(Card(uuid(0), load=burst))

    ring = world.percents()
    assert ring == {end: int(burst_mean(burst, end - PERIOD_US, end) + 0.5) for end in ring}
    assert world.ask("nvmlDeviceGetUtilizationRates(card(0))")["gpu"] == list(ring.values())[-1]


def test_a_ten_percent_burst_averages_ten_percent_and_never_looks_like_it(world: World) -> None:
    world.is_(Card(uuid(0), load=Burst(period_ms=1000, on_ms=100)))

    values = list(world.percents().values())
    assert abs(sum(values) / len(values) - 10) < 1
    assert {0, 50} <= set(values)


def test_a_card_without_a_load_has_that_of_its_processes(world: World) -> None:
    world.is_(
        Card(uuid(0), processes=[Process(1, load=Constant(30)), Process(2, load=Constant(20))]),
        Card(uuid(1), processes=[Process(1, load=Constant(80)), Process(2, load=Constant(80))]),
    )

    assert world.ask("nvmlDeviceGetUtilizationRates(card(0))")["gpu"] == 50
    assert world.ask("nvmlDeviceGetUtilizationRates(card(1))")["gpu"] == 100


def test_encoder_and_decoder_have_utilization_of_their_own(world: World) -> None:
    world.is_(Card(uuid(0), encoder=12, decoder=34))

    assert world.ask("nvmlDeviceGetEncoderUtilization(card(0))") == [12, 100_000]
    assert world.ask("nvmlDeviceGetDecoderUtilization(card(0))") == [34, 100_000]


def test_processes_are_on_the_lists_that_the_scenario_says(world: World) -> None:
    world.is_(
        Card(
            uuid(0),
            processes=[
                Process(11, memory=GIB),
                Process(12, memory=None, lists=("compute", "graphics")),
                Process(13, memory=MIB, lists=("mps",)),
                Process(0, memory=0),
            ],
        ),
        Card(uuid(1)),
    )

    for version in ("_v2", "_v3"):
        assert world.listed(version=version) == [(11, GIB), (12, None), (0, 0)]
        assert world.listed(kind="Graphics", version=version) == [(12, None)]
        assert world.listed(kind="MPSCompute", version=version) == [(13, MIB)]
    assert world.ask("nvmlDeviceGetComputeRunningProcesses_v3(card(0))")[0]["gpuInstanceId"] == NOWHERE
    assert world.listed(1) == []
    first = world.ask("first_version('nvmlDeviceGetComputeRunningProcesses')")
    assert first == [[11, GIB], [12, 2**64 - 1], [0, 0]]


def test_processes_come_and_go(world: World) -> None:
    world.is_(
        Card(uuid(0), processes=[Process(1, memory=GIB, start=NOW + 1, end=NOW + 2), Process(2, memory=MIB)]),
    )

    assert world.listed() == [(2, MIB)]
    world.at(NOW + 1)
    assert world.listed() == [(1, GIB), (2, MIB)]
    assert world.ask("memory(0, nvmlMemory_v2)")["used"] == GIB + MIB
    world.at(NOW + 2)
    assert world.listed() == [(2, MIB)]


def test_rows_wider_than_the_binding_expects_make_nonsense_but_no_crash(world: World) -> None:
    world.is_(Card(uuid(0), processes=[Process(pid, memory=GIB) for pid in range(1, 9)]), process_layout="wide")

    found = world.listed()
    assert found[0] == (1, GIB)
    assert found[1] != (2, GIB)


def used(world: World, since_us: int, index: int = 0) -> dict[int, tuple[int, int]]:
    rows = world.ask(f"nvmlDeviceGetProcessUtilization(card({index}), {since_us})")
    return {row["pid"]: (row["smUtil"], row["timeStamp"]) for row in rows}


def test_process_utilization_has_a_row_for_whoever_used_or_holds_the_card(world: World) -> None:
    start = NOW * 1_000_000 // PERIOD_US * PERIOD_US
    world.is_(
        Card(
            uuid(0),
            processes=[
                Process(1, load=Constant(40)),
                Process(2),
                Process(3, load=Burst(period_ms=1000, on_ms=100)),
                Process(4, load=Constant(60), end=NOW + 2),
                Process(5, load=Constant(130)),
            ],
        ),
        Card(uuid(1), processes=[Process(2, start=NOW + 5)]),
        Card(uuid(2), processes=[Process(1, load=Constant(40))], padding=2),
    )
    world.at(NOW + 4)
    newest = start + 20 * PERIOD_US

    rows = used(world, start)
    assert rows == {1: (40, newest), 2: (0, newest), 3: (10, newest), 4: (30, newest), 5: (130, newest)}
    assert world.code(f"nvmlDeviceGetProcessUtilization(card(0), {newest})") == 6
    assert world.code("nvmlDeviceGetProcessUtilization(card(1), 0)") == 6
    padded = world.ask("nvmlDeviceGetProcessUtilization(card(2), 0)")
    assert [row["pid"] for row in padded] == [1, 0, 0]


def test_a_process_uses_codecs_by_loads_of_their_own(world: World) -> None:
    processes = [Process(1, encoder=Constant(85)), Process(2, load=Constant(5), decoder=Constant(0.2)), Process(3)]
    world.is_(Card(uuid(0), processes=processes))
    world.at(NOW + 4)
    rows = world.ask("nvmlDeviceGetProcessUtilization(card(0), 0)")
    assert [(row["pid"], row["smUtil"], row["encUtil"], row["decUtil"]) for row in rows] == [
        (1, 0, 85, 0),
        (2, 5, 0, 1),
        (3, 0, 0, 0),
    ]


def test_process_utilization_reaches_no_further_back_than_the_ring(world: World) -> None:
    world.is_(Card(uuid(0), processes=[Process(1, load=Constant(60), end=NOW), Process(2, load=Constant(1))]))

    world.at(NOW + 8)
    assert 25 <= used(world, 0)[1][0] <= 35
    world.at(NOW + 17)
    assert list(used(world, (NOW - 60) * 1_000_000)) == [2]


def partitioned() -> Card:
    return Card(
        uuid(0),
        mig="on",
        gpm=True,
        memory_base=GIB,
        load=Constant(33),
        instances=[
            Instance(
                "MIG-a",
                1,
                3,
                40 * GIB,
                memory_base=MIB,
                load=Burst(period_ms=1000, on_ms=250),
                processes=[Process(21, memory=2 * GIB, load=Constant(90))],
            ),
            Instance("MIG-b", 2, 2, 20 * GIB, index=3, processes=[Process(22, memory=GIB, load=Constant(70))]),
        ],
        processes=[Process(20, memory=MIB)],
    )


def test_a_partitioned_card_has_instances_of_its_own(world: World) -> None:
    world.is_(partitioned(), Card(uuid(1), mig="off"), Card(uuid(2)))

    assert world.ask("nvmlDeviceGetMigMode(card(0))") == [1, 1]
    assert world.ask("nvmlDeviceGetMigMode(card(1))") == [0, 0]
    assert world.code("nvmlDeviceGetMigMode(card(2))") == 3
    assert [world.ask(f"nvmlDeviceGetMaxMigDeviceCount(card({index}))") for index in range(3)] == [7, 0, 0]
    assert [world.code(f"instance(0, {index})") for index in (0, 1, 3, 7)] == [0, 6, 0, 2]
    assert world.ask("nvmlDeviceGetUUID(instance(0, 3))") == "MIG-b"
    assert world.ask("nvmlDeviceGetName(instance(0, 0))") == "NVIDIA H100 80GB HBM3 MIG 3g.40gb"
    assert world.ask("nvmlDeviceGetUUID(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance(0, 0)))") == uuid(0)
    assert world.ask("[nvmlDeviceIsMigDeviceHandle(each).value for each in (card(0), instance(0, 0))]") == [0, 1]
    assert world.ask("nvmlDeviceGetGpuInstanceId(instance(0, 3))") == 2
    assert world.ask("nvmlDeviceGetComputeInstanceId(instance(0, 3))") == 0
    assert world.ask("nvmlDeviceGetHandleByUUID('MIG-a')")
    attributes = world.ask("nvmlDeviceGetAttributes_v2(instance(0, 0))")
    assert (attributes["computeInstanceSliceCount"], attributes["memorySizeMB"]) == (3, 40 * 1024)
    assert world.ask("nvmlDeviceGetMemoryInfo(instance(0, 0), nvmlMemory_v2)")["used"] == 2 * GIB + MIB
    assert world.ask("memory(0, nvmlMemory_v2)")["used"] == 4 * GIB + 2 * MIB
    rows = world.ask("nvmlDeviceGetComputeRunningProcesses_v3(instance(0, 0))")
    assert [(row["pid"], row["gpuInstanceId"]) for row in rows] == [(21, 1)]
    rows = world.ask("nvmlDeviceGetComputeRunningProcesses_v3(card(0))")
    assert [(row["pid"], row["gpuInstanceId"]) for row in rows] == [(20, NOWHERE), (21, 1), (22, 2)]


def test_the_largest_profile_has_the_number_of_slices_of_a_card(world: World) -> None:
    world.is_(Card(uuid(0), mig="on"), Card(uuid(1), mig="on", slices=4), Card(uuid(2)))

    def slices(index: int, version: int) -> dict[int, int]:
        call = f"nvmlDeviceGetGpuInstanceProfileInfo(card({index}), {{}}, {version}).sliceCount"
        return {one: world.ask(call.format(one)) for one in range(7) if world.code(call.format(one)) == 0}

    for version in (1, 2):
        assert slices(0, version) == {0: 1, 1: 2, 2: 3, 3: 4, 4: 7}
        assert slices(1, version) == {0: 1, 1: 2, 3: 4}
        assert slices(2, version) == {}
    assert world.code("nvmlDeviceGetGpuInstanceProfileInfo(card(0), 99)") == 2


@pytest.mark.parametrize("subject", ["card(0)", "instance(0, 0)"])
def test_what_does_not_work_with_mig_is_not_supported(world: World, subject: str) -> None:
    world.is_(partitioned())

    for call in (
        f"nvmlDeviceGetUtilizationRates({subject})",
        f"nvmlDeviceGetEncoderUtilization({subject})",
        f"nvmlDeviceGetDecoderUtilization({subject})",
        f"nvmlDeviceGetSamples({subject}, 1, 0)",
        f"nvmlDeviceGetProcessUtilization({subject}, 0)",
    ):
        assert world.code(call) == 3, call


def test_gpm_reports_the_utilization_of_cards_and_instances(world: World) -> None:
    world.is_(partitioned(), Card(uuid(1)))

    def between(instance: int | None, seconds: float, metric: int = 1) -> object:
        world.at(NOW)
        later = f"lambda: open({str(world.clock)!r}, 'w').write(str({round((NOW + seconds) * 1_000_000)}))"
        return world.ask(f"gpm(0, {instance}, {later}, {metric})")

    assert world.ask("nvmlGpmQueryDeviceSupport(card(0))")["isSupportedDevice"] == 1
    assert world.ask("nvmlGpmQueryDeviceSupport(card(1))")["isSupportedDevice"] == 0
    assert between(1, 5) == [0, 25.0]
    assert between(1, 0.5) == [0, 50.0]
    assert between(2, 1) == [0, 70.0]
    assert between(None, 1) == [0, 33.0]
    assert between(1, 0.05) == [21, 0]
    assert [between(None, 1, metric=metric) for metric in (2, 3, 5, 10)] == [[0, 33.0], [0, 16.5], [0, 0.0], [0, 9.9]]
    assert between(1, 1, metric=20) == [3, 0]
    assert world.code("gpm(0, 9, int)") == 2
    assert world.code("gpm(1, None, int)") == 3


# What the agent calls, and what its tools call: each as an expression, with the symbol that answers it.
CALLS_USED = {
    "nvmlSystemGetDriverVersion()": "nvmlSystemGetDriverVersion",
    "nvmlSystemGetNVMLVersion()": "nvmlSystemGetNVMLVersion",
    "nvmlSystemGetCudaDriverVersion()": "nvmlSystemGetCudaDriverVersion",
    "nvmlSystemGetCudaDriverVersion_v2()": "nvmlSystemGetCudaDriverVersion_v2",
    "nvmlDeviceGetCount()": "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetHandleByIndex(0)": "nvmlDeviceGetHandleByIndex_v2",
    f"nvmlDeviceGetHandleByUUID('{uuid(0)}')": "nvmlDeviceGetHandleByUUID",
    "nvmlDeviceGetHandleByPciBusId('00000000:10:00.0')": "nvmlDeviceGetHandleByPciBusId_v2",
    "memory(0, 0)": "nvmlDeviceGetMemoryInfo",
    "memory(0, nvmlMemory_v2)": "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetPciInfo(card(0))": "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetSamples(card(0), 1, 0)": "nvmlDeviceGetSamples",
    "nvmlDeviceGetCurrentClocksEventReasons(card(0))": "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetTotalEccErrors(card(0), 1, 0)": "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetRemappedRows(card(0))": "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetFieldValues(card(0), [230])": "nvmlDeviceGetFieldValues",
    "nvmlDeviceRegisterEvents(card(0), 8, None)": "nvmlDeviceRegisterEvents",
    "nvmlDeviceGetTemperature(card(0), 0)": "nvmlDeviceGetTemperature",
    "nvmlDeviceGetTemperatureV(card(0), 0)": "nvmlDeviceGetTemperatureV",
    "nvmlDeviceGetProcessUtilization(card(0), 0)": "nvmlDeviceGetProcessUtilization",
    "nvmlDeviceGetMigDeviceHandleByIndex(card(0), 0)": "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceGetGpuInstanceProfileInfo(card(0), 4)": "nvmlDeviceGetGpuInstanceProfileInfoV",
    "nvmlDeviceGetGpuInstanceProfileInfo(card(0), 4, 1)": "nvmlDeviceGetGpuInstanceProfileInfo",
    "nvmlGpmQueryDeviceSupport(card(0))": "nvmlGpmQueryDeviceSupport",
    "nvmlGpmSampleAlloc()": "nvmlGpmSampleAlloc",
    "nvmlGpmSampleGet(card(0), None)": "nvmlGpmSampleGet",
    "nvmlGpmMigSampleGet(card(0), 1, None)": "nvmlGpmMigSampleGet",
    "nvmlGpmMetricsGet(c_nvmlGpmMetricsGet_t())": "nvmlGpmMetricsGet",
} | {
    f"{call}(card(0))": call
    for call in (
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetName",
        "nvmlDeviceGetIndex",
        "nvmlDeviceGetSerial",
        "nvmlDeviceGetBrand",
        "nvmlDeviceGetMinorNumber",
        "nvmlDeviceGetArchitecture",
        "nvmlDeviceGetCudaComputeCapability",
        "nvmlDeviceGetPersistenceMode",
        "nvmlDeviceGetComputeMode",
        "nvmlDeviceGetAddressingMode",
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetEncoderUtilization",
        "nvmlDeviceGetDecoderUtilization",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetTotalEnergyConsumption",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetMaxMigDeviceCount",
        "nvmlDeviceGetDeviceHandleFromMigDeviceHandle",
        "nvmlDeviceIsMigDeviceHandle",
        "nvmlDeviceGetGpuInstanceId",
        "nvmlDeviceGetComputeInstanceId",
        "nvmlDeviceGetAttributes_v2",
        *(
            f"nvmlDeviceGet{kind}RunningProcesses_v{n}"
            for kind in ("Compute", "Graphics", "MPSCompute")
            for n in (2, 3)
        ),
    )
}
# Reached only through the library itself, or with no answer that could fail.
CALLS_UNUSED = (
    {"nvmlInit", "nvmlInit_v2", "nvmlErrorString", "nvmlGpmSampleFree"}
    | {"nvmlEventSetCreate", "nvmlEventSetFree", "nvmlEventSetWait_v2"}
    | {f"nvmlDeviceGet{kind}RunningProcesses" for kind in ("Compute", "Graphics", "MPSCompute")}
)


def test_every_call_can_fail(world: World, tmp_path: Path) -> None:
    assert set(CALLS_USED.values()) | CALLS_UNUSED | {"nvmlInitWithFlags", "nvmlShutdown"} == building.calls()
    world.is_(Card(uuid(0)))
    world.ask("keep(0)")
    trace = tmp_path / "trace"
    world.is_(Card(uuid(0)), absent=["nvmlDevice*", "nvmlSystem*", "nvmlGpm*"], trace=trace)

    for expression in CALLS_USED:
        assert world.code(expression) == 13, expression
    calls = [line.split() for line in trace.read_text().splitlines()]
    assert [call for _, _, call, _, _ in calls] == list(CALLS_USED.values())
    assert {(at, code) for at, _, _, _, code in calls} == {(str(NOW * 1_000_000), "13")}


def test_a_card_reports_clock_reasons_and_each_event_once(world: World) -> None:
    world.is_(Card(uuid(0), clocks=0x44, ecc=(7, 1, 0), xid=(79, 2, NOW + 1)), Card(uuid(1)))
    assert world.ask("nvmlDeviceGetCurrentClocksEventReasons(card(0))") == 0x44
    assert world.ask("nvmlDeviceGetTotalEccErrors(card(0), 1, 0)") == 7
    assert world.ask("nvmlDeviceGetRemappedRows(card(0))") == [0, 0, 1, 0]
    assert world.code("nvmlDeviceGetRemappedRows(card(1))") == 3
    world.ask("globals().update(events=nvmlEventSetCreate()) or nvmlDeviceRegisterEvents(card(0), 8, events)")
    wait = "nvmlEventSetWait_v2(events, 0).eventData"
    assert world.code(wait) == 10
    world.at(NOW + 1)
    assert [world.ask(wait), world.ask(wait), world.code(wait)] == [79, 79, 10]
    assert world.code("nvmlEventSetFree(events)") == 0


def test_a_card_reports_its_recovery_action_and_an_older_driver_none(world: World) -> None:
    cards = [
        Card(uuid(0)),
        Card(uuid(1), recovery=4),
        Card(uuid(2), recovery="unsupported"),
        Card(uuid(3), recovery="1 999"),
    ]
    world.is_(*cards)
    for index, told in enumerate(([0, 1, 0], [0, 1, 4], [3, 0, 0], [999, 1, 1])):
        value = f"nvmlDeviceGetFieldValues(card({index}), [230])[0]"
        assert world.ask(f"(lambda it: [it.nvmlReturn, it.valueType, it.value.uiVal])({value})") == told
    assert world.ask("nvmlDeviceGetFieldValues(card(0), [186])[0].nvmlReturn") == 3


def test_a_fault_hits_its_call_and_its_card_only_and_only_in_its_time(world: World) -> None:
    world.is_(
        Card(uuid(0), wrong=[Fault("nvmlDeviceGetPowerUsage", 999, Window(start=NOW + 1, end=NOW + 2))]),
        Card(uuid(1), wrong=[Fault("nvmlDeviceGet*RunningProcesses*", 4)]),
        wrong=[Fault("nvmlDeviceGetSamples", 6)],
    )
    power = "nvmlDeviceGetPowerUsage(card(0))"

    assert world.code(power) == 0
    world.at(NOW + 1)
    assert world.code(power) == 999
    assert world.code("nvmlDeviceGetPowerUsage(card(1))") == 0
    assert world.code("nvmlDeviceGetTemperature(card(0), 0)") == 0
    world.at(NOW + 2)
    assert world.code(power) == 0
    for kind in ("Compute", "Graphics", "MPSCompute"):
        assert world.code(f"nvmlDeviceGet{kind}RunningProcesses_v3(card(1))") == 4
        assert world.code(f"nvmlDeviceGet{kind}RunningProcesses_v3(card(0))") == 0
    assert world.code("nvmlDeviceGetSamples(card(1), 1, 0)") == 6


def test_a_lost_card_is_lost_in_every_call_and_the_others_go_on(world: World) -> None:
    world.is_(Card(uuid(0)), Card(uuid(1)))
    world.ask("keep(0, 1)")
    world.is_(Card(uuid(0), wrong=[Lost()]), Card(uuid(1), wrong=[Lost(16, Window(start=NOW + 1))]))

    assert world.code("nvmlDeviceGetUUID(card(0))") == 15
    assert world.code("nvmlDeviceGetHandleByIndex(0)") == 15
    assert world.code("nvmlDeviceGetUUID(card(1))") == 0
    world.at(NOW + 1)
    assert world.code("nvmlDeviceGetUUID(card(1))") == 16
    world.is_(Card(uuid(0)))
    assert world.code("nvmlDeviceGetUUID(card(0))") == 0
    # Card 1 was pulled out: its handle is that of a lost card.
    assert world.code("nvmlDeviceGetUUID(card(1))") == 15
    assert world.ask("nvmlDeviceGetCount()") == 1


@pytest.mark.parametrize("code", [9, 18])
def test_a_driver_that_was_away_is_reached_only_by_a_new_session(world: World, code: int) -> None:
    world.is_(Card(uuid(0)))
    world.ask("keep(0)")
    world.is_(Card(uuid(0)), unload=Unload(code))
    for call in ("nvmlDeviceGetCount()", "nvmlDeviceGetUUID(card(0))", "nvmlInit()", "nvmlSystemGetDriverVersion()"):
        assert world.code(call) == code, call

    world.is_(Card(uuid(0)))
    assert world.code("nvmlDeviceGetUUID(card(0))") == 2
    assert world.code("nvmlDeviceGetCount()") == 1
    # Like NVML, a second nvmlInit only counts.
    assert world.code("nvmlInit()") == 0
    assert world.code("nvmlDeviceGetCount()") == 1
    assert world.code("nvmlShutdown()") == 0
    assert world.code("nvmlShutdown()") == 0
    assert world.code("nvmlInit()") == 0
    assert world.ask("nvmlDeviceGetUUID(nvmlDeviceGetHandleByIndex(0))") == uuid(0)
    assert world.code("nvmlDeviceGetUUID(card(0))") == 2


def test_an_unobserved_reload_invalidates_handles_too(world: World) -> None:
    world.is_(Card(uuid(0)))
    world.ask("keep(0)")
    world.is_(Card(uuid(0)), loads=2)

    assert world.code("nvmlDeviceGetUUID(card(0))") == 2
    assert world.code("nvmlDeviceGetCount()") == 1


def test_nothing_answers_before_init_and_shutdown_ends_handles(world: World) -> None:
    world.is_(Card(uuid(0)))
    world.ask("keep(0)")
    world.ask("nvmlShutdown()")

    assert world.code("nvmlDeviceGetCount()") == 1
    assert world.code("nvmlShutdown()") == 1
    world.ask("nvmlInit()")
    assert world.code("nvmlDeviceGetUUID(card(0))") == 2
    assert world.ask("nvmlErrorString(15)") == "simulated NVML error 15"


def test_a_hung_call_holds_up_no_other_and_ends_when_the_fault_goes(world: World) -> None:
    hung = "nvmlDeviceGetUtilizationRates"
    world.is_(Card(uuid(0), load=Constant(5), wrong=[Hang(hung)]), Card(uuid(1), load=Constant(7)))
    world.ask(f"start('{hung}(card(0)).gpu')")

    assert world.ask(f"{hung}(card(1))")["gpu"] == 7
    assert world.ask("done()") is False
    world.is_(Card(uuid(0), load=Constant(6)))
    assert world.ask("result()") == 6


def test_a_call_may_take_its_time(world: World) -> None:
    world.is_(
        Card(uuid(0), wrong=[Hang("nvmlDeviceGetName", 60)]),
        wrong=[Latency("nvmlDeviceGetUUID", 300_000)],
    )

    def seconds(call: str) -> float:
        before = time.monotonic()
        world.ask(call)
        return time.monotonic() - before

    assert seconds("nvmlDeviceGetName(card(0))") >= 0.06
    assert seconds("nvmlDeviceGetUUID(card(0))") >= 0.3
    # The quickest of some: a busy machine may hold up one, a latency holds up all.
    assert min(seconds("nvmlDeviceGetIndex(card(0))") for _ in range(5)) < 0.3


def test_without_a_clock_file_the_time_is_the_systems(world: World) -> None:
    world.write(Scenario([Card(uuid(0), load=Constant(1))]))

    assert abs(max(world.percents()) / 1e6 - time.time()) < 60


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("colour red", "no such key in this place"),
        ("load constant 5", "no such key in this place"),
        ("card x\nload sometimes", "a load is"),
        ("card x\nload burst 10 20 100", "a burst is on"),
        ("card x\nsamples 200 many", "not a whole number"),
        ("card x\nprocess 1\nfrom noon", "not a number"),
        ("fault nvmlDeviceGetName", "a whole number is missing"),
        ("fault nvmlDeviceGetName 4 until 5", "neither 'from' nor 'to'"),
    ],
)
def test_a_scenario_that_makes_no_sense_fails_every_call_and_says_where(
    world: World, line: str, complaint: str
) -> None:
    world.write(line + "\n")

    assert world.code("nvmlDeviceGetCount()") == 999
    last = world.complaints().splitlines()[-1]
    assert f"driver.scenario:{line.count(chr(10)) + 1}: " in last
    assert complaint in last


def test_a_scenario_names_only_calls_that_the_driver_answers() -> None:
    with pytest.raises(ValueError, match="nvmlDeviceGetCount_v2"):
        Scenario(wrong=[Fault("nvmlDeviceGetCount", 1)]).text()
    with pytest.raises(ValueError, match="nvmlFoo"):
        Scenario(absent=["nvmlFoo"]).text()


def test_text_that_is_no_utf_8_arrives_as_it_is(world: World) -> None:
    world.is_(Card(uuid(0), name="NVIDIA \udcff"))

    assert world.code("nvmlDeviceGetIndex(card(0))") == 0
    with pytest.raises(AssertionError, match="UnicodeDecodeError"):
        world.ask("nvmlDeviceGetName(card(0))")


def test_the_agents_reader_reads_a_scenario_through_the_real_binding(world: World) -> None:
    lost = replace(Card(uuid(2)), wrong=[Lost()])
    world.is_(Card(uuid(0), memory_base=MIB, processes=[Process(31, memory=GIB)]), partitioned_at(1), lost)

    found = world.ask("reader()")
    assert found["cards"][uuid(0)] == [GIB + MIB, False, {"31": GIB}]
    assert found["cards"]["MIG-a"] == [2 * GIB + MIB, False, {"21": 2 * GIB}]
    assert found["cards"]["MIG-b"] == [GIB, False, {"22": GIB}]
    assert [code for _, code in found["errors"]] == ["GPU_IS_LOST"]


def partitioned_at(number: int) -> Card:
    return replace(partitioned(), uuid=uuid(number))


@pytest.mark.parametrize(("name", "cards"), [("lab", 8), ("burst", 1), ("eight_by_ten", 8)])
def test_the_ready_scenarios_are_understood(world: World, name: str, cards: int) -> None:
    text = (DRIVER / "scenarios" / f"{name}.scenario").read_text()
    wanted = placeholders(text)
    world.write(fill(text, {each.text: 1000 + number for number, each in enumerate(wanted)}, now=NOW))

    assert world.ask("nvmlDeviceGetCount()") == cards
    assert world.listed()[0][0] == 1000


def test_the_measuring_scenario_is_the_crowd_that_python_makes() -> None:
    text = (DRIVER / "scenarios" / "eight_by_ten.scenario").read_text()
    pids: Sequence[str] = [each.text for each in placeholders(text)]

    assert len(pids) == 80
    made = crowd(sorted(pids)).text()
    assert text.partition("\n")[2] == made


def test_people_run_a_command_on_a_scenario() -> None:
    ask = "import os, pynvml; pynvml.nvmlInit(); card = pynvml.nvmlDeviceGetHandleByIndex(0); "
    ask += "(one,) = pynvml.nvmlDeviceGetComputeRunningProcesses(card); "
    ask += "print(open(f'/proc/{one.pid}/comm').read(), end=''); raise SystemExit(7)"
    done = subprocess.run(
        [sys.executable, str(DRIVER / "run.py"), "burst", "--", sys.executable, "-c", ask],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )

    assert (done.returncode, done.stdout) == (7, "python\n")


def test_without_a_compiler_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(building, "BUILDS", tmp_path)
    monkeypatch.setenv("CC", "no-such-compiler -O9")

    with pytest.raises(building.CannotBuildError, match=r"no-such-compiler.*install gcc"):
        building.build()
    assert not list(tmp_path.rglob("*.so*"))


def test_runs_that_build_at_once_all_get_a_whole_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(building, "BUILDS", tmp_path)
    whole = b"\x7fELF" + bytes(100_000)

    def compile_slowly(_sources: list[Path], library: Path) -> None:
        with library.open("wb") as file:
            for byte in range(0, len(whole), 20_000):
                file.write(whole[byte : byte + 20_000])
                time.sleep(0.005)

    monkeypatch.setattr(building, "_compile", compile_slowly)
    with ThreadPoolExecutor(4) as pool:
        libraries = [folder / building.NAME for folder in pool.map(lambda _: building.build(), range(4))]

    assert {library.read_bytes() for library in libraries} == {whole}
    assert [path.name for path in tmp_path.iterdir()] == [libraries[0].parent.name]
