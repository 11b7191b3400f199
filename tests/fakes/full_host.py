"""A full host for benchmarks and load tests: every point of the contract in every tick, made quickly.

What varies is drawn anew in each tick where real cards repeat themselves, so it is harder to compress
than real data. All figures are invented.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Final

from fakes.attribution import attribute
from gua.core.tick import AgentReading, CardReading, ErrorCount, Origin, ProcessReading, Tick
from gua.core.words import Mig, ProcessList, ProcessType, Source
from gua.sim.calendar import HOUR_MS, MINUTE_MS
from gua.sim.cards import DRIVER, MEMORY_BYTES, NAME, RESERVED_BYTES, CardSlot, card_slot
from gua.sim.habits import GIB, MIB, HabitSetting, Program
from gua.sim.host import END_MS

DAY_MS: Final = 24 * HOUR_MS
HOST: Final = "load-host"
_LEVELS = 256  # one random byte picks a process's reading
_LIFE_MS = 8 * HOUR_MS


def full_host(
    *,
    cards: int = 8,
    processes: int = 10,
    interval_ms: int = MINUTE_MS // 2,
    days: float = 1,
    end_ms: int = END_MS,
    seed: int = 0,
    host: str = HOST,
) -> Iterator[Tick]:
    """Yield the ticks of ``days`` of a busy host, without holes, oldest first; the last one ends at ``end_ms``.

    Each card has ``processes`` processes, one of each type before further compute ones; half of them
    compute. All are new every 8 hours. 8 cards x 10 processes come at more than 5,000 ticks/s.
    """
    rng = Random(f"{seed}:load")  # noqa: S311 - a simulation, no secret
    origin = Origin(
        host=host,
        source=Source.SIMULATOR,
        interval_ms=interval_ms,
        host_id=f"{rng.getrandbits(128):032x}",
        instance_id="load",
        service_version="0",
    )
    loaded = [_LoadedCard(card_slot(seed, index), processes, interval_ms, seed) for index in range(cards)]
    begin_ms = end_ms - round(days * DAY_MS)
    for ts_ms in range(begin_ms + interval_ms, end_ms + 1, interval_ms):
        readings = tuple([card.read(ts_ms) for card in loaded])
        yield Tick(ts_ms=ts_ms, origin=origin, cards=readings, agent=_agent(begin_ms, rng))


class _LoadedCard:
    """A card with all its processes, prepared so that one reading is only picked together."""

    def __init__(self, slot: CardSlot, processes: int, interval_ms: int, seed: int) -> None:
        self._slot = slot
        self._processes = processes
        self._interval_ms = interval_ms
        self._seed = seed
        self._rng = Random(f"{seed}:load:{slot.uuid}")  # noqa: S311 - a simulation, no secret
        self._energy_mj = self._rng.randrange(10**11, 10**12)
        self._life = -1
        self._roster: list[Sequence[ProcessReading]] = []

    def read(self, ts_ms: int) -> CardReading:
        """Return the card's reading of the tick that ends at ``ts_ms``."""
        if ts_ms // _LIFE_MS != self._life:
            self._life = ts_ms // _LIFE_MS
            begun_ms = self._life * _LIFE_MS
            self._roster = _roster(self._slot, self._processes, self._interval_ms, begun_ms, self._seed)
        rng = self._rng
        utilization = round(rng.random(), 4)
        energy_mj = round(rng.uniform(100, 650) * self._interval_ms)
        self._energy_mj += energy_mj
        # The sampled idle seconds jitter with their period.
        idle_ms = round((self._interval_ms - 200) * (1 - utilization / 1.2) / 167) * 167
        levels = zip(self._roster, rng.randbytes(self._processes), strict=True)
        return CardReading(
            uuid=self._slot.uuid,
            duration_ms=self._interval_ms,
            gpu_time_ms=self._interval_ms,
            process_list=ProcessList.KNOWN,
            index=self._slot.index,
            name=NAME,
            model=NAME,
            vendor="NVIDIA",
            driver_version=DRIVER,
            pci=self._slot.pci,
            mig=Mig.NONE,
            memory_shared=False,
            utilization=utilization,
            utilization_encoder=0.0,
            utilization_decoder=0.0,
            utilization_max=min(1.0, round(1.2 * utilization, 2)),
            utilization_coverage_ms=self._interval_ms - 200,
            idle_time_ms=idle_ms,
            idle_energy_mj=idle_ms * 120,
            idle_energy_coverage_ms=idle_ms,
            clock_reasons=0,
            xid_errors=0,
            ecc_errors=0,
            row_remap=0,
            processes_seen=10,
            recovery_action=0,
            memory_used_bytes=62 * GIB,
            memory_limit_bytes=MEMORY_BYTES,
            memory_reserved_bytes=RESERVED_BYTES,
            power_watts=round(energy_mj / self._interval_ms, 3),
            temperature_celsius=float(40 + energy_mj // self._interval_ms // 20),
            energy_total_mj=self._energy_mj,
            energy_mj=energy_mj,
            failed=False,
            processes=tuple([variants[level] for variants, level in levels]),
        )


def _roster(
    slot: CardSlot, processes: int, interval_ms: int, begun_ms: int, seed: int
) -> list[Sequence[ProcessReading]]:
    """Return every process of a card in each of its levels of utilization, attributed."""
    kinds = [ProcessType.IGNORED, ProcessType.GRAPHICS, ProcessType.MPS]
    setting = HabitSetting(seed=seed, rng=Random(), name=slot.uuid, round=0)  # noqa: S311 - no secret
    started = []
    for number in range(processes):
        owner, uid = setting.person(slot.index + number)
        program = Program(
            comm="Xorg" if number == 0 else "python3",
            owner=owner,
            uid=uid,
            place=f"{slot.uuid}:{number}",
            type=kinds[number] if number < len(kinds) else ProcessType.COMPUTE,
            unit=f"user@{uid}.service",
            slurm=number % 2 == 0,
            pod=True,
        )
        memory_bytes = (60 * GIB) // processes + number * 7 * MIB if number else 120 * MIB
        started.append(setting.process(program, begun_ms, memory_bytes, 0.0))
    whole = attribute(
        CardReading(uuid=slot.uuid, duration_ms=interval_ms, gpu_time_ms=interval_ms, processes=tuple(started))
    )
    return [_levels(process) if number % 2 else [process] * _LEVELS for number, process in enumerate(whole.processes)]


def _levels(process: ProcessReading) -> Sequence[ProcessReading]:
    """Return a process at each level: the whole percents from 0 to 99, each about equally often."""
    at_percent = [replace(process, utilization=percent / 100) for percent in range(100)]
    return [at_percent[level * 100 // _LEVELS] for level in range(_LEVELS)]


def _agent(begin_ms: int, rng: Random) -> AgentReading:
    return AgentReading(
        started_ms=begin_ms,
        tick_duration_seconds=rng.randint(28, 61) / 1000,
        tick_lateness_seconds=rng.randint(1, 40) / 1000,
        spool_ticks=1,
        spool_bytes=4_096,
        dropped_ticks=0,
        errors=(ErrorCount(call="nvmlDeviceGetPowerUsage", code="UNKNOWN", count=1),),
    )
