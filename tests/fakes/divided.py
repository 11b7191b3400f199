"""Hosts whose GPUs are divided, whole and divided otherwise by turns, the same for the same seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Final

from gua.core.tick import CardReading, Origin, Tick
from gua.core.words import Mig, ProcessList, Source

INTERVAL_MS: Final = 300_000
SLICES: Final = 7
# Slices by instance. One that comes back has the UUID that it had, and may have another size; none is a whole GPU.
_DIVISIONS: Final[tuple[Mapping[str, int], ...]] = (
    {},
    {"a": 3},
    {"b": 3},
    {"a": 3, "b": 3},
    {"a": 4, "b": 3},
    {"b": 3, "c": 1},
    {"d": 7},
    {"c": 1, "e": 1, "f": 1, "g": 1, "h": 1, "i": 1, "j": 1},
)


def divided(host: str, *, seed: int, ticks: int, end_ms: int, source: Source = Source.AGENT) -> Iterator[Tick]:
    """Yield ``ticks`` ticks of three GPUs, the last at ``end_ms`` or hours before.

    Divisions change now and then, some for a tick. Ticks cover less than the time since the last one, or stay away for
    a part of an interval up to hours, in which a division may become another. A reading may fail.
    """
    rng = Random(f"divided {seed}")  # noqa: S311 - a simulation, no secret
    origin = Origin(host=host, source=source, interval_ms=INTERVAL_MS)
    moments = [end_ms - rng.choice((0, 0, 7 * 3_600_000))]
    for _ in range(ticks - 1):
        away = rng.choice((0,) * 60 + (0.2, 0.9, 1, 1.1, 2, 2.5, 5, 30))
        moments.append(moments[-1] - INTERVAL_MS - round(away * INTERVAL_MS) - rng.choice((0, 0, 0, 7)))
    moments.reverse()
    divisions = [rng.choice(_DIVISIONS) for _ in range(3)]
    before_ms = moments[0] - 123_456
    for ts_ms in moments:
        passed = ts_ms - before_ms
        before_ms = ts_ms
        duration_ms = passed if passed <= 2 * INTERVAL_MS and rng.random() < 0.9 else min(INTERVAL_MS - 9, passed)
        cards: list[CardReading] = []
        for number in range(3):
            if rng.random() < (0.3 if passed > 2 * INTERVAL_MS else 0.02):
                divisions[number] = rng.choice(_DIVISIONS)
            # For this tick alone.
            division = rng.choice(_DIVISIONS) if rng.random() < 0.02 else divisions[number]
            cards += (one for one in _cards(host, number, division, duration_ms) if rng.random() < 0.998)
        if cards:
            yield Tick(ts_ms=ts_ms, origin=origin, cards=tuple(cards))


def _cards(host: str, number: int, division: Mapping[str, int], duration_ms: int) -> Iterator[CardReading]:
    gpu = f"GPU-{host}-{number}"
    whole = Mig.PARENT if division else Mig.NONE
    sizes = {gpu: SLICES - sum(division.values()), **{f"MIG-{host}-{number}-{name}": n for name, n in division.items()}}
    for uuid, slices in sizes.items():
        yield CardReading(
            uuid=uuid,
            duration_ms=duration_ms,
            gpu_time_ms=duration_ms * slices // SLICES,
            process_list=ProcessList.KNOWN,
            index=number,
            name="Card",
            model="Card",
            mig=whole if uuid == gpu else Mig.INSTANCE,
            parent=None if uuid == gpu else gpu,
            utilization=0.0,
            memory_used_bytes=0,
            memory_limit_bytes=80 * 2**30,
            memory_reserved_bytes=0,
        )
