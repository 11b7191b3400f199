"""What a real card answered, replayed: an H100 80GB with driver 580, recorded by tests/hardware/record.py.

The card was idle, then a process held its memory, then one computed, then one computed for 100 ms of every second;
each phase has four readings 5 s apart, for which the driver was opened anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from pathlib import Path

import pytest

from fakes.recorded import RecordedDriver
from gua.agent.sampler import Sampler
from gua.core.facts import card_facts
from gua.core.ports import Mark
from gua.core.rules import Rules, State, classify
from gua.core.tick import CardReading, Origin, Tick
from gua.core.words import IDLENESS, Mig, ProcessList, Source
from gua.identity.process import Owners, ProcessIdentity
from gua.imports.recording import Recording
from gua.imports.rows import Reading
from gua.nvml.reader import NvmlReader
from gua.procfs.reader import ProcessRecord, Stat

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
READINGS = 4
MIB = 2**20
PHASES = ("idle", "held", "computing", "bursts")
USED_MIB = dict(zip(PHASES, (0, 2574, 1550, 1550), strict=True))
"""Of the whole card; nvidia-smi rounds it to one more."""
CONTEXT_MIB = 8
PIDS = dict(zip(PHASES, (None, 910, 938, 970), strict=True))


class Programs:
    """Every pid is a program named python."""

    ticks_per_second = 100

    def stat(self, pid: int) -> Stat | None:
        return Stat("python", 100 * pid)

    def process(self, pid: int) -> ProcessRecord | None:
        return ProcessRecord(pid=pid, comm="python", start_ticks=100 * pid, uid=1000, cgroup="0::/user.slice\n")


@pytest.fixture(scope="module")
def replayed() -> dict[str, Sequence[CardReading]]:
    """Return the readings of each phase after its first, which covers no time yet."""
    driver = RecordedDriver(FIXTURES / "nvml/h100.jsonl")
    phases = {}
    for phase in PHASES:
        reader = NvmlReader(driver.clock, driver)
        sampler = Sampler(
            cards=reader,
            processes=ProcessIdentity(Programs(), Owners(lambda uid: f"user{uid}"), boot_time_ms=0),
            clock=driver.clock,
            origin=Origin(host="gpu01", source=Source.AGENT, interval_ms=5000),
            initial_pid_namespace=True,
        )
        mark: Mark | None = None
        ticks: list[Tick] = []
        for number in range(READINGS):
            if number:
                reader.drain()
            sample = sampler.sample(mark)
            mark = sample.mark
            if number and sample.tick is not None:
                ticks.append(sample.tick)
        reader.close()
        assert [error for tick in ticks for error in tick.errors] == []
        phases[phase] = [card for tick in ticks for card in tick.cards]
    return phases


def states(readings: Sequence[CardReading]) -> list[State]:
    return [classify(card_facts(one), Rules()).state for one in readings]


def test_each_phase_has_its_state(replayed: dict[str, Sequence[CardReading]]) -> None:
    assert {phase: states(readings) for phase, readings in replayed.items()} == {
        "idle": [State.TRULY_IDLE] * 3,
        "held": [State.IDLE_HELD] * 3,
        "computing": [State.ACTIVE] * 3,
        "bursts": [State.ACTIVE] * 3,  # its process used 10 to 12 % of the card
    }


@pytest.mark.parametrize(
    ("phase", "means"),
    [
        ("idle", (0.0, 0.0, 0.0)),
        ("held", (0.000, 0.0, 0.0)),
        ("computing", (0.987, 0.990, 0.990)),
        ("bursts", (0.086, 0.099, 0.097)),
    ],
)
def test_utilization_is_the_mean_of_the_samples(
    replayed: dict[str, Sequence[CardReading]], phase: str, means: Sequence[float]
) -> None:
    assert [one.utilization for one in replayed[phase]] == pytest.approx(list(means), abs=0.0005)
    for one in replayed[phase]:
        assert (one.utilization_coverage_ms or 0) / one.duration_ms > 0.96


def test_idle_time_and_the_energy_of_its_seconds_that_power_samples_reach(
    replayed: dict[str, Sequence[CardReading]],
) -> None:
    idle = {phase: [one.idle_time_ms for one in readings] for phase, readings in replayed.items()}
    assert idle == {
        "idle": [4880, 5020, 4960],
        "held": [5040, 4980, 4920],
        "computing": [0, 0, 0],
        "bursts": [None, None, None],  # too close to active
    }
    first = replayed["idle"][0]
    assert first.idle_energy_mj is not None
    assert first.idle_energy_coverage_ms is not None
    assert first.idle_energy_mj / first.idle_energy_coverage_ms == pytest.approx(73.8, abs=0.1)  # watts


def test_energy_is_what_the_counter_gained(replayed: dict[str, Sequence[CardReading]]) -> None:
    watts = {
        phase: [round((one.energy_mj or 0) / one.duration_ms) for one in readings]
        for phase, readings in replayed.items()
    }
    assert watts == {
        "idle": [81, 74, 74],
        "held": [124, 121, 124],
        "computing": [338, 334, 342],
        "bursts": [147, 152, 149],
    }


def test_the_process_and_the_memory_are_those_that_nvidia_smi_lists(
    replayed: dict[str, Sequence[CardReading]],
) -> None:
    for phase, readings in replayed.items():
        for one in readings:
            assert one.process_list is ProcessList.KNOWN
            pid = PIDS[phase]
            assert [process.pid for process in one.processes] == ([] if pid is None else [pid])
            assert (one.memory_used_bytes or 0) // MIB == USED_MIB[phase]
            assert [(process.memory_bytes or 0) // MIB for process in one.processes] == (
                [] if pid is None else [USED_MIB[phase] - CONTEXT_MIB]
            )
    used = {phase: [process.utilization for one in replayed[phase] for process in one.processes] for phase in PHASES}
    assert used == {
        "idle": [],
        "held": pytest.approx([0.01, 0.0, 0.0]),
        "computing": pytest.approx([0.99, 0.99, 0.99]),
        "bursts": pytest.approx([0.10, 0.12, 0.10]),
    }


def test_a_recorded_card_has_its_name_memory_and_errors(replayed: dict[str, Sequence[CardReading]]) -> None:
    card = replayed["held"][0]
    assert (card.name, card.driver_version, card.pci) == ("NVIDIA H100 80GB HBM3", "580.159.04", "00000000:00:06.0")
    assert (card.mig, card.memory_shared, card.failed) == (Mig.NONE, False, False)
    assert (card.memory_limit_bytes, card.memory_reserved_bytes) == (81_559 * MIB, 480 * MIB)
    assert (card.xid_errors, card.ecc_errors, card.row_remap) == (0, None, 0)  # of the first look, as it was a minute
    assert [replayed[phase][-1].clock_reasons for phase in PHASES] == [IDLENESS, 0, 0, 0]


def test_the_recording_of_nvidia_smi_gives_the_same_but_for_bursts(replayed: dict[str, Sequence[CardReading]]) -> None:
    """Instant values see nothing of work that stops before the next one is taken."""
    folder = FIXTURES / "nvidia-smi/h100"
    recording = Recording([folder / "gpu.csv"], [folder / "apps.csv"], reading=Reading(timezone=UTC))
    survey = recording.survey(5000)
    origin = Origin(host="gpu01", source=Source.IMPORT, interval_ms=5000, instance_id="import")
    cards = [card for tick in recording.ticks(survey, origin) for card in tick.cards]
    assert len(cards) == READINGS * len(PHASES)
    for number, phase in enumerate(PHASES):
        imported = cards[number * READINGS + 1 : (number + 1) * READINGS]  # the first is of a load that begins
        assert (phase == "bursts") != (states(imported)[:2] == states(replayed[phase])[:2])
        for one in imported[:2]:
            assert [process.pid for process in one.processes] == [pid for pid in (PIDS[phase],) if pid is not None]
            assert (one.memory_used_bytes or 0) // MIB == USED_MIB[phase] + (phase != "idle")
