"""A host whose cards look busy for most of the time, with few of their SMs at work, the same for the same seed."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from fakes.attribution import attribute
from gua.core.tick import CardReading, Origin, ProcessReading, Tick
from gua.core.words import Mig, ProcessList, Source

INTERVAL_MS: Final = 60_000
_GIB: Final = 2**30
_SLICES: Final = 7


def stuck(host: str, *, seed: int, ticks: int, end_ms: int) -> Iterator[Tick]:
    """Yield ``ticks`` ticks, the last at ``end_ms``, of a whole card and an instance.

    Now and then one is missing, so that runs have holes, or a card is not stuck, at 89 %, or reports nothing; processes
    change their owners, and some are on no list. For 50 ticks no process is there, and no memory is held.
    """
    rng = Random(f"stuck {seed}")  # noqa: S311 - a simulation, no secret
    origin = Origin(host=host, source=Source.AGENT, interval_ms=INTERVAL_MS)
    for number in range(ticks, 0, -1):
        ts_ms = end_ms - (number - 1) * INTERVAL_MS
        if rng.random() < 0.01:
            continue
        cards = tuple(_card(rng, host, place, number) for place in range(2))
        yield Tick(ts_ms=ts_ms, origin=origin, cards=cards)


def _card(rng: Random, host: str, place: int, number: int) -> CardReading:
    sm: float | None = rng.uniform(0, 0.09)
    utilization = rng.uniform(0.9, 1.0)
    odd = rng.random()
    if odd < 0.01:
        sm = rng.choice((None, 0.1, 0.7))
    elif odd < 0.02:
        utilization = 0.89
    is_without = number // 50 == 3
    slices = 3 if place else _SLICES
    owner = ("ana", "bo", None)[number // 50 % 3]
    there = ProcessReading(
        pid=100 + number // 50, created_ms=1, owner=owner, comm="python", memory_bytes=_GIB, utilization=utilization
    )
    return attribute(
        CardReading(
            uuid=f"GPU-{host}-{place}",
            duration_ms=INTERVAL_MS - rng.choice((0, 0, 7)),
            gpu_time_ms=(INTERVAL_MS - 7) * slices // _SLICES,
            process_list=ProcessList.KNOWN,
            index=place,
            model="Fast",
            mig=Mig.INSTANCE if place else Mig.NONE,
            parent=f"GPU-{host}-9" if place else None,
            utilization=utilization,
            memory_used_bytes=2**20 if is_without else _GIB,
            processes_seen=0 if is_without and number % 50 != 49 else 1,
            memory_limit_bytes=80 * _GIB,
            memory_reserved_bytes=0,
            failed=False,
            sm_utilization=sm,
            tensor_utilization=rng.choice((0.0, None)),
            processes=() if number // 50 % 4 == 3 else (there,),
        )
    )
