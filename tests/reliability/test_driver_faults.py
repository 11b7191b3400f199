"""Cards that are lost, drivers that are unloaded, calls that hang or fail, while a real agent runs."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from driver.fixture import SimulatedDriver
from driver.scenario import IDLE, MIB, Card, Fault, Hang, Instance, Lost, Process, Scenario, Unload, Wrong, uuid
from gua.core.tick import CardReading, Tick
from gua.core.words import Mig, ProcessList
from reliability.promises import assert_none_is_missing, assert_time_is_told_once, counted, states
from servers.agent import Agent, wall_ms
from servers.process import poll

WELL = ["active", "idle-held", "truly-idle"]


class Watched:
    """An agent that runs on the lab, while the lab goes wrong and is well again."""

    def __init__(self, agent: Agent, driver: SimulatedDriver, lab: Scenario) -> None:
        self.agent = agent
        self.driver = driver
        self.lab = lab
        self.began_ms = wall_ms()
        agent.start()

    def goes_wrong(self, *wrong: Wrong, card: int = 1) -> None:
        self.has(card, wrong=wrong)

    def has(self, number: int, **changes: object) -> None:
        """Change one card."""
        cards = list(self.lab.cards)
        cards[number] = replace(cards[number], **changes)  # type: ignore[arg-type] # any field of a card
        self.driver.write(replace(self.lab, cards=cards))

    def is_well(self, **changes: object) -> None:
        self.driver.write(replace(self.lab, **changes))  # type: ignore[arg-type] # any field of a scenario

    def until(self, fits: Callable[[Tick], bool], *, times: int = 1, seconds: float = 180) -> list[Tick]:
        """Wait until so many ticks in a row, the newest of all, fit; return those."""

        def newest() -> list[Tick]:
            ticks = self.agent.ticks()[-times:]
            return ticks if len(ticks) == times and all(map(fits, ticks)) else []

        return poll(newest, f"ticks that fit; the newest says {states(self.agent.ticks()[-1])}", seconds=seconds)

    def until_well(self, *, times: int = 2, seconds: float = 180) -> list[Tick]:
        return self.until(lambda tick: states(tick) == WELL, times=times, seconds=seconds)

    def ends(self) -> list[Tick]:
        """Stop it and return every tick of its life, after checking the guarantees."""
        self.agent.stop()
        ticks = self.agent.ticks()
        assert_time_is_told_once(ticks, self.began_ms)
        assert_none_is_missing(ticks, kept_waiting_ms=self.agent.kept_waiting_ms)
        assert "Traceback" not in self.agent.tail()
        return ticks


@pytest.fixture
def watched(agent: Agent, simulated_driver: SimulatedDriver, lab: Scenario) -> Watched:
    return Watched(agent, simulated_driver, lab)


@pytest.mark.reliability
def test_a_lost_card_is_unknown_for_that_reason_until_it_is_back(watched: Watched) -> None:
    watched.until_well()
    watched.goes_wrong(Lost())
    watched.until(lambda tick: states(tick) == ["active", "unknown lost", "truly-idle"], times=3)
    watched.is_well()
    watched.until_well()
    ticks = watched.ends()
    assert {state for tick in ticks for state in (states(tick)[0], states(tick)[2])} == {"active", "truly-idle"}
    lost = [tick for tick in ticks if states(tick)[1] == "unknown lost"]
    assert sum(count for error, count in counted(ticks[-1]).items() if "GPU_IS_LOST" in error) >= 3
    report = json.loads(watched.agent.must("report", "--json"))
    lost_hours = sum(tick.cards[1].duration_ms for tick in lost) / 3_600_000
    assert report["unknown"]["lost"] == pytest.approx(lost_hours, rel=1e-3)


@pytest.mark.reliability
@pytest.mark.parametrize("code", [9, 18], ids=["not loaded", "version mismatch"])
def test_an_unloaded_driver_leaves_unknown_time_and_is_opened_again_when_it_is_back(
    watched: Watched, code: int
) -> None:
    watched.until_well()
    watched.is_well(unload=Unload(code))
    watched.until(lambda tick: states(tick) == ["unknown utilization"] * 3, times=3)
    watched.is_well(loads=2)
    watched.until_well()
    ticks = watched.ends()
    assert sum(counted(ticks[-1]).values()) >= 3


def test_the_agent_stops_at_once_while_the_driver_is_unloaded(watched: Watched) -> None:
    watched.is_well(unload=Unload())
    watched.until(lambda tick: states(tick) == ["unknown utilization"] * 3)
    began = time.monotonic()
    assert watched.agent.run("stop").returncode == 0
    assert time.monotonic() - began < 20
    watched.ends()


@pytest.mark.reliability
def test_a_call_that_hangs_costs_its_own_card_only(watched: Watched) -> None:
    watched.until_well()
    watched.goes_wrong(Hang("nvmlDeviceGetPowerUsage"))
    watched.until(lambda tick: states(tick) == ["active", "unknown utilization", "truly-idle"], times=4)
    watched.is_well()
    watched.until_well()
    ticks = watched.ends()
    assert counted(ticks[-1])["nvmlDeviceGetPowerUsage NO_ANSWER"] >= 4


@pytest.mark.reliability
def test_a_count_of_cards_that_hangs_costs_nothing(watched: Watched) -> None:
    watched.until_well()
    watched.is_well(wrong=[Hang("nvmlDeviceGetCount_v2")])
    watched.until(lambda tick: bool(counted(tick)), times=3)
    watched.until_well()
    watched.is_well()
    watched.until_well()
    ticks = watched.ends()
    assert {tuple(states(tick)) for tick in ticks} == {tuple(WELL)}


@pytest.mark.reliability
def test_a_driver_that_hangs_while_it_is_opened_anew_holds_up_no_tick(watched: Watched) -> None:
    watched.until_well()
    watched.is_well(loads=2, wrong=[Hang("nvmlInit*")])
    watched.until(lambda tick: states(tick) == ["unknown utilization"] * 3, times=3)
    watched.is_well(loads=2)
    watched.until_well()
    watched.ends()


@pytest.mark.parametrize("call", ["nvmlDeviceGetPowerUsage", "nvmlDeviceGetCount_v2"])
def test_the_agent_stops_within_seconds_while_a_call_hangs(watched: Watched, call: str) -> None:
    watched.is_well(wrong=[Hang(call)])
    time.sleep(1)
    began = time.monotonic()
    watched.agent.stop()
    assert time.monotonic() - began < 20  # the call would hang for ever


@pytest.mark.parametrize("call", ["nvmlInit*", "nvmlDeviceGetCount_v2", "nvmlDeviceGetName"])
def test_the_agent_stops_within_seconds_while_a_call_hangs_at_its_start(
    agent: Agent, simulated_driver: SimulatedDriver, lab: Scenario, call: str
) -> None:
    simulated_driver.write(replace(lab, wrong=[Hang(call)]))
    agent.start(wait=False)
    poll((agent.home / "agent.pid").exists, "the PID file")
    time.sleep(0.3)
    began = time.monotonic()
    stopped = agent.run("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert time.monotonic() - began < 20  # the call would hang for ever


NO_PERMISSION, NOT_FOUND = 4, 6
HELD = {
    "power_watts": 70.0,
    "temperature_celsius": 35.0,
    "memory_used_bytes": 900 * MIB,
    "process_list": ProcessList.KNOWN,
    "utilization": 0.0,
    "utilization_encoder": 0.0,
    "failed": False,
}


def values(card: CardReading) -> dict[str, object]:
    return {name: getattr(card, name) for name in HELD}


@pytest.mark.reliability
def test_a_call_without_permission_costs_its_own_value_only(watched: Watched) -> None:
    first = watched.until_well()[-1]
    assert values(first.cards[1]) == HELD
    for call, missing in (
        ("nvmlDeviceGetPowerUsage", {"power_watts": None}),
        ("nvmlDeviceGetTemperature*", {"temperature_celsius": None}),
        ("nvmlDeviceGetMemoryInfo*", {"memory_used_bytes": None}),
        ("nvmlDeviceGetComputeRunningProcesses*", {"process_list": ProcessList.FAILED}),
        ("nvmlDeviceGetEncoderUtilization", {"utilization_encoder": None}),
    ):
        watched.goes_wrong(Fault(call, NO_PERMISSION))
        watched.until(lambda tick, missing=missing: values(tick.cards[1]) == HELD | missing)  # type: ignore[misc]
    watched.is_well()
    watched.until_well()
    ticks = watched.ends()
    assert {state for tick in ticks for state in (states(tick)[0], states(tick)[2])} == {"active", "truly-idle"}
    assert sum("NO_PERMISSION" in error for error in counted(ticks[-1])) == 5


@pytest.mark.reliability
def test_empty_or_short_rings_fall_back_to_the_instant_value_with_less_coverage(watched: Watched) -> None:
    def covers(least_ms: int, most_ms: int) -> Callable[[Tick], bool]:
        return lambda tick: least_ms <= (tick.cards[0].utilization_coverage_ms or 0) <= most_ms

    watched.until(covers(800, 1100))
    watched.has(0, wrong=[Fault("nvmlDeviceGetSamples", NOT_FOUND)])
    watched.until(covers(0, 0), times=2)
    watched.has(0, ring=3)
    watched.until(covers(400, 600), times=2)
    watched.is_well()
    watched.until(covers(800, 1100))
    ticks = watched.ends()
    assert [tick.cards[0].utilization for tick in ticks] == pytest.approx([0.8] * len(ticks), abs=0.01)


@pytest.mark.reliability
def test_memory_that_the_driver_does_not_report_is_unknown_and_the_card_stays_held(watched: Watched) -> None:
    watched.until_well()
    watched.has(1, memory_total=None, processes=[Process(os.getpid(), memory=None, load=IDLE)])
    held = watched.until(lambda tick: tick.cards[1].memory_used_bytes is None, times=2)[-1]
    assert states(held) == WELL
    assert [process.memory_bytes for process in held.cards[1].processes] == [None]
    assert watched.ends()[-1].cards[1].memory_limit_bytes is None


@pytest.mark.reliability
def test_a_card_partitioned_while_the_agent_runs_is_reported_by_its_parts(watched: Watched) -> None:
    watched.until_well()
    whole = uuid(3)
    instances = [Instance(f"MIG-{number}", gpu_instance=number, slices=3) for number in (1, 2)]
    watched.has(2, mig="on", instances=instances)
    cut = watched.until(lambda tick: len(tick.cards) == 5, times=2)[-1]
    assert [card.mig for card in cut.cards[2:]] == [Mig.PARENT, Mig.INSTANCE, Mig.INSTANCE]
    gpu_time_ms = sum(card.gpu_time_ms for card in cut.cards[2:])
    assert gpu_time_ms == pytest.approx(cut.cards[2].duration_ms, abs=3)
    watched.is_well()
    watched.until_well()
    ticks = watched.ends()
    # The card itself is in every tick, so that none of its time is missing.
    assert all(whole in {card.uuid for card in tick.cards} for tick in ticks)


@pytest.mark.reliability
def test_a_card_that_is_plugged_in_or_out_changes_nothing_for_the_others(watched: Watched) -> None:
    watched.until_well()
    watched.is_well(cards=[*watched.lab.cards, Card(uuid(4))])
    watched.until(lambda tick: states(tick) == [*WELL, "truly-idle"], times=2)
    watched.is_well(cards=watched.lab.cards[:2])
    watched.until(lambda tick: states(tick) == WELL[:2], times=2)
    watched.is_well()
    watched.until_well()
    watched.ends()
