"""The recordings of three idle cards: counts and hours, from the ticks alone."""

from __future__ import annotations

from collections import Counter
from datetime import UTC
from pathlib import Path
from statistics import mean

import pytest

from gua.core.facts import card_facts
from gua.core.rules import Rules, classify
from gua.core.tick import Origin, Tick
from gua.core.words import Source
from gua.imports.recording import Recording
from gua.imports.rows import Reading

FOLDER = Path(__file__).parents[2] / "fixtures" / "parking-tax"
FILES = sorted(FOLDER.glob("*.jsonl"))
ORIGIN = Origin(host="imported", source=Source.IMPORT, interval_ms=30_000, instance_id="import")


def ticks_of(*files: Path) -> list[Tick]:
    recording = Recording(files, reading=Reading(timezone=UTC))
    found = recording.survey()
    assert found.interval_ms == 30_000
    assert not recording.left_out
    assert not recording.assumed.times_without_offset
    assert not recording.assumed.reserve_excluded
    return list(recording.ticks(found, ORIGIN))


def test_there_are_a_thousand_card_ticks_of_8_333_hours_with_22_gaps() -> None:
    observed_ms = unobserved_ms = gaps = 0
    last_ms: dict[str, int] = {}
    ticks = ticks_of(*FILES)
    for tick in ticks:
        for card in tick.cards:
            observed_ms += card.duration_ms
            hole_ms = tick.ts_ms - card.duration_ms - last_ms.get(card.uuid, tick.ts_ms - card.duration_ms)
            assert hole_ms >= 0
            unobserved_ms += hole_ms
            gaps += hole_ms > 30_000
            last_ms[card.uuid] = tick.ts_ms
    assert sum(len(tick.cards) for tick in ticks) == 1000
    assert observed_ms == 30_000_000
    assert round(observed_ms / 3_600_000, 3) == 8.333
    assert round(unobserved_ms / 3_600_000, 3) == 0.539
    assert gaps == 22


def test_the_rules_find_880_idle_held_and_120_truly_idle() -> None:
    states = Counter(
        (card.name, classify(card_facts(card), Rules()).state.value) for tick in ticks_of(*FILES) for card in tick.cards
    )
    assert states == {
        ("NVIDIA H100 80GB HBM3", "idle-held"): 320,
        ("NVIDIA A100 80GB PCIe", "idle-held"): 320,
        ("NVIDIA L40S", "idle-held"): 240,
        ("NVIDIA H100 80GB HBM3", "truly-idle"): 40,
        ("NVIDIA A100 80GB PCIe", "truly-idle"): 40,
        ("NVIDIA L40S", "truly-idle"): 40,
    }


def test_each_file_alone_gives_the_same_readings_as_all_together() -> None:
    alone = [(tick.ts_ms, card) for file in FILES for tick in ticks_of(file) for card in tick.cards]
    together = [(tick.ts_ms, card) for tick in ticks_of(*FILES) for card in tick.cards]
    assert sorted(alone, key=lambda timed: timed[0]) == together


def test_a_second_reading_gives_the_same_ticks() -> None:
    assert ticks_of(*FILES) == ticks_of(*reversed(FILES))


@pytest.mark.parametrize(
    ("card", "bare", "context"), [("H100", 71.8, 121.7), ("A100", 53.7, 80.0), ("L40S", 35.6, 102.1)]
)
def test_power_is_that_of_the_published_measurement(card: str, bare: float, context: float) -> None:
    power: dict[bool, list[float]] = {True: [], False: []}
    for tick in ticks_of(*FILES):
        for reading in tick.cards:
            if card in (reading.name or "") and reading.power_watts is not None:
                power[(reading.memory_used_bytes or 0) < 100 * 2**20].append(reading.power_watts)
    assert mean(power[True]) == pytest.approx(bare, abs=0.5)
    assert mean(power[False]) == pytest.approx(context, abs=1.0)
