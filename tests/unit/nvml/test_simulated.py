"""The reader with the real nvidia-ml-py on the simulated driver: whole intervals, faults, and what they cost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from driver.agent import Agent
from driver.fixture import SimulatedDriver
from driver.scenario import (
    GIB,
    Burst,
    Card,
    Constant,
    Fault,
    Hang,
    Instance,
    Lost,
    Process,
    Scenario,
    Unload,
    uuid,
)
from servers.process import poll

NOW = 1_700_000_000
A, B = uuid(1), uuid(2)


class Host:
    """A simulated host whose agent drains every 5 s and ticks every 30 s."""

    def __init__(self, driver: SimulatedDriver, limit_seconds: float = 5.0) -> None:
        self._driver = driver
        self._clock = driver.scenario.with_name("clock")
        self._clock.write_text(f"{NOW * 1_000_000}\n")
        self._limit_seconds = limit_seconds
        self._agent: Agent | None = None
        self.now: float = NOW
        self.errors: list[str] = []

    def is_(self, *cards: Card, **changes: Any) -> None:  # noqa: ANN401 - any of a scenario's fields
        self._driver.write(replace(Scenario(cards, clock=Path(self._clock)), **changes))

    @property
    def agent(self) -> Agent:
        if self._agent is None:
            self._agent = Agent(self._driver.environment, self._clock, self._limit_seconds)
        return self._agent

    def pass_(self, seconds: float) -> None:
        self.now += seconds
        self.agent.do(f"at {self.now}")

    def tick(self, seconds: int = 30, *, drain: bool = True) -> dict[str, dict[str, Any]]:
        for _ in range(seconds // 5):
            if drain:
                self.agent.do("drain")
            self.pass_(5)
        answer = self.agent.do("tick")
        assert answer is not None
        self.errors = answer["errors"]
        cards: dict[str, dict[str, Any]] = answer["cards"]
        return cards

    def close(self) -> None:
        if self._agent is not None:
            self._agent.kill()


@pytest.fixture
def host(simulated_driver: SimulatedDriver) -> Iterator[Host]:
    world = Host(simulated_driver)
    yield world
    world.close()


@pytest.mark.parametrize("phase_ms", [0, 300, 2700])
def test_a_load_in_bursts_of_a_tenth_of_the_time_is_measured_as_a_tenth(host: Host, phase_ms: int) -> None:
    host.is_(Card(A, processes=[Process(7, load=Burst(period_ms=3000, on_ms=300, phase_ms=phase_ms))]))
    host.tick()
    for _ in range(5):
        card = host.tick()[A]
        assert card["utilization"] == pytest.approx(0.10, abs=0.01)
        assert card["utilization_max"] > 0.9
        assert card["utilization_coverage_ms"] > 29_500
        assert card["processes"][0]["utilization"] == pytest.approx(0.10, abs=0.01)
    assert host.errors == []


def test_without_drains_the_ring_covers_its_14_seconds_and_no_more(host: Host) -> None:
    host.is_(Card(A, load=Constant(40)))
    host.tick(drain=False)
    card = host.tick(drain=False)[A]
    assert 14_000 <= card["utilization_coverage_ms"] < 14_500
    assert card["utilization"] == pytest.approx(0.4)


def test_an_idle_card_is_idle_and_its_processes_too(host: Host) -> None:
    host.is_(Card(A, processes=[Process(7, memory=4 * GIB)]))
    host.tick()
    card = host.tick()[A]
    assert (card["utilization"], card["processes"][0]["utilization"]) == (0.0, 0.0)
    assert (card["memory_used_bytes"], card["process_list"]) == (4 * GIB, "known")


def test_a_process_that_only_encodes_or_decodes_video_is_not_idle(host: Host) -> None:
    codecs = [Process(7, encoder=Constant(85)), Process(8, decoder=Burst(period_ms=3000, on_ms=1500)), Process(9)]
    host.is_(Card(A, encoder=85, decoder=50, processes=codecs))
    host.tick()
    card = host.tick()[A]
    assert card["utilization"] == 0.0
    assert [one["utilization"] for one in card["processes"]] == [pytest.approx(0.85), pytest.approx(0.5, abs=0.02), 0.0]
    assert host.errors == []


def test_padded_answers_change_nothing(host: Host) -> None:
    host.is_(Card(A, padding=90, processes=[Process(7, load=Constant(30))]))
    host.tick()
    assert host.tick()[A]["processes"][0]["utilization"] == pytest.approx(0.3, abs=0.01)


def test_a_lost_card_is_failed_until_it_is_back_and_the_other_goes_on(host: Host) -> None:
    host.is_(Card(A), Card(B, load=Constant(50)))
    host.tick()
    host.is_(Card(A, wrong=[Lost()]), Card(B, load=Constant(50)))
    for _ in range(4):
        cards = host.tick()
        assert (cards[A]["failed"], cards[A]["utilization"]) == (True, None)
        assert (cards[B]["failed"], cards[B]["utilization"]) == (False, pytest.approx(0.5))
        assert any("GPU_IS_LOST" in error for error in host.errors)
    # Opening the driver anew on the way cost the other card none of its samples.
    assert cards[B]["utilization_coverage_ms"] > 29_500
    host.is_(Card(A), Card(B, load=Constant(50)))
    host.pass_(300)
    host.tick()
    cards = host.tick()
    assert (cards[A]["failed"], host.errors) == (False, [])


@pytest.mark.parametrize("code", [2, 3, 4, 7, 999])
def test_a_card_whose_every_call_fails_has_an_unknown_failed_state(host: Host, code: int) -> None:
    host.is_(Card(A, processes=[Process(7)]), Card(B))
    assert host.tick()[A]["failed"] is False
    host.is_(Card(A, processes=[Process(7)], wrong=[Fault("nvmlDevice*", code)]), Card(B))
    for _ in range(2):
        cards = host.tick()
        assert (cards[A]["failed"], cards[B]["failed"]) == (None, False)
    host.is_(Card(A, processes=[Process(7)]), Card(B))
    host.tick()
    assert host.tick()[A]["failed"] is False


def test_a_driver_that_is_unloaded_leaves_unknown_time_and_comes_back(host: Host) -> None:
    host.is_(Card(A))
    host.tick()
    host.is_(Card(A), unload=Unload())
    for _ in range(3):
        cards = host.tick()
        assert (cards[A]["failed"], cards[A]["process_list"]) == (None, "failed")
        assert any("DRIVER_NOT_LOADED" in error for error in host.errors)
    host.is_(Card(A), loads=2)
    host.pass_(300)
    host.tick()
    assert host.tick()[A]["failed"] is False
    assert host.errors == []


def test_a_reload_between_two_ticks_costs_no_tick(host: Host) -> None:
    host.is_(Card(A))
    host.tick()
    host.is_(Card(A), loads=2)
    assert host.tick(drain=False)[A]["failed"] is False
    assert host.errors == ["nvmlDeviceGetCount UNINITIALIZED"]
    host.tick()
    assert host.errors == []


def test_cards_come_and_go_while_the_agent_runs(host: Host) -> None:
    host.is_(Card(A))
    assert set(host.tick()) == {A}
    host.is_(Card(A), Card(B))
    assert set(host.tick()) == {A, B}
    host.is_(Card(B))
    cards = host.tick()
    assert (set(cards), cards[B]["failed"]) == ({B}, False)


def test_a_call_that_hangs_costs_its_own_card_only(simulated_driver: SimulatedDriver) -> None:
    host = Host(simulated_driver, limit_seconds=2)
    host.is_(Card(A), Card(B))
    host.tick()
    host.is_(Card(A, wrong=[Hang("nvmlDeviceGetPowerUsage")]), Card(B))
    begun = time.monotonic()
    for _ in range(3):
        cards = host.tick()
        assert (cards[A]["failed"], cards[B]["failed"]) == (None, False)
        assert host.errors == ["nvmlDeviceGetPowerUsage NO_ANSWER"]
    assert time.monotonic() - begun < 10
    host.is_(Card(A), Card(B))
    poll(lambda: host.tick()[A]["failed"] is False, "the call to come back")
    host.is_(Card(A, wrong=[Hang("nvmlDeviceGetCurrentClocksEventReasons")]), Card(B))
    for _ in range(2):
        cards = host.tick()
        assert [cards[uuid]["failed"] for uuid in (A, B)] == [False, False]
        assert host.errors == ["nvmlDeviceGetCurrentClocksEventReasons NO_ANSWER"]
    host.is_(Card(A, wrong=[Hang("nvmlDeviceGetPowerUsage")]), Card(B))
    host.tick()
    begun = time.monotonic()
    host.agent.do("close")
    assert time.monotonic() - begun < 5
    host.close()


@pytest.mark.parametrize("call", ["nvmlDeviceGetAttributes_v2", "nvmlDeviceGetUUID"])
def test_an_instance_that_cannot_be_read_is_unknown_and_so_is_the_rest_of_its_card(host: Host, call: str) -> None:
    worker = Process(7, memory=30 * GIB, load=Constant(90), gpu_instance=1, compute_instance=0)
    inside = Instance("MIG-1", 1, 3, memory_total=40 * GIB, processes=[worker])
    host.is_(Card(A, mig="on", gpm=True, instances=[inside]))
    host.tick()
    before = host.tick()
    assert (before[A]["process_list"], before["MIG-1"]["utilization"]) == ("known", pytest.approx(0.9))
    host.is_(Card(A, mig="on", gpm=True, instances=[replace(inside, wrong=[Fault(call, 999)])]))
    for _ in range(2):
        cards = host.tick()
        assert {(one["process_list"], one["memory_used_bytes"]) for one in cards.values()} == {("failed", None)}
        assert {uuid: one["gpu_time_ms"] for uuid, one in cards.items()} == {A: 17_142, "MIG-1": 12_857}
        assert host.errors == [f"{call} UNKNOWN"]
    host.is_(Card(A, mig="on", gpm=True, instances=[inside]))
    host.tick()
    assert host.tick()["MIG-1"]["utilization"] == pytest.approx(0.9)


def test_no_permission_for_one_call_leaves_the_others(host: Host) -> None:
    host.is_(Card(A, wrong=[Fault("nvmlDeviceGetPowerUsage", 4)]), Card(B))
    cards = host.tick()
    assert (cards[A]["power_watts"], cards[B]["power_watts"], cards[A]["failed"]) == (None, 70.0, False)
    assert host.errors == ["nvmlDeviceGetPowerUsage NO_PERMISSION"]


def test_lists_of_the_wide_layout_are_read_by_their_second_version(host: Host) -> None:
    card = Card(A, processes=[Process(7, memory=GIB), Process(8, memory=2 * GIB), Process(9, memory=3 * GIB)])
    host.is_(card, driver="535.54.03", process_layout="wide")
    read = host.tick()[A]
    assert [(one["pid"], one["memory_bytes"]) for one in read["processes"]] == [(7, GIB), (8, 2 * GIB), (9, 3 * GIB)]
    assert read["process_list"] == "known"


def test_lists_of_a_layout_that_no_quirk_knows_are_not_believed(host: Host) -> None:
    card = Card(A, processes=[Process(7, memory=GIB), Process(8, memory=2 * GIB), Process(9, memory=3 * GIB)])
    host.is_(card, driver="999.99", process_layout="wide")
    assert host.tick()[A]["process_list"] == "failed"


def test_a_driver_without_the_third_version_of_the_lists_is_read(host: Host) -> None:
    host.is_(
        Card(A, processes=[Process(7, memory=GIB)]),
        driver="535.98",
        absent=["nvmlDeviceGet*RunningProcesses_v3", "nvmlDeviceGetMemoryInfo_v2"],
    )
    read = host.tick()[A]
    assert ([one["pid"] for one in read["processes"]], read["process_list"]) == ([7], "known")
    assert read["memory_reserved_bytes"] is None
    assert host.errors == []


@pytest.mark.parametrize("gpm", [True, False])
def test_instances_have_the_mean_of_the_whole_span_where_the_chip_counts(host: Host, *, gpm: bool) -> None:
    burst = Process(7, load=Burst(period_ms=3000, on_ms=300))
    host.is_(
        Card(
            A,
            mig="on",
            gpm=gpm,
            instances=[
                Instance("MIG-1", gpu_instance=1, slices=3, processes=[burst]),
                Instance("MIG-2", gpu_instance=2, slices=1),
            ],
        )
    )
    host.tick()
    cards = host.tick()
    if gpm:
        assert cards["MIG-1"]["utilization"] == pytest.approx(0.10, abs=0.01)
        assert cards["MIG-1"]["utilization_coverage_ms"] == 30_000
        assert cards["MIG-2"]["utilization"] == 0.0
    else:
        assert (cards["MIG-1"]["utilization"], cards["MIG-1"]["utilization_coverage_ms"]) == (None, None)
    assert cards[A]["utilization"] is None
    assert host.errors == []
