"""Simulated cards: readings as the driver of an H100 reports them under a habit's use."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from random import Random
from typing import Any, Final, TypeAlias
from uuid import UUID

from gua.core.facts import split_gpu_time
from gua.core.idleness import ACTIVE_FROM, counts_as_idle
from gua.core.tick import CardReading, ReadError
from gua.core.words import HEAT, IDLENESS, POWER_CAP, Mig, ProcessList
from gua.sim.calendar import TickSpan
from gua.sim.habits import MIB, CardUsage, Habit

# Source: recording of one H100 in github.com/8bitai/gpu-parking-tax (MIT), h100_dose_response.jsonl;
# both powers are its means, arXiv 2605.23918.
NAME: Final = "NVIDIA H100 80GB HBM3"
MEMORY_BYTES: Final = 81_559 * MIB
RESERVED_BYTES: Final = 469 * MIB
BARE_BYTES: Final = 4 * MIB
BARE_WATTS: Final = 71.8
CONTEXT_WATTS: Final = 121.7
# Linear through the recording's two points: 36 Cel at 71.7 W, 40 Cel at 121.6 W.
CELSIUS_AT_0_WATTS: Final = 30.2
CELSIUS_PER_WATT: Final = 0.08
# Invented: time constant of warming up, and power at full utilization.
WARM_UP_MS: Final = 60_000
BUSY_WATTS: Final = 640.0
# Invented: driver version, unsampled start of a tick, and frequency of failing process lists.
DRIVER: Final = "580.95.05"
BLIND_MS: Final = 200
FAILED_LIST_CHANCE: Final = 1 / 800
# Invented: limits from which clocks are slowed. Xid 79: the GPU has fallen off the bus.
HOT_CELSIUS: Final = 81.0
CAPPED_WATTS: Final = 600.0
LOST_XID: Final = 79

# NVIDIA MIG user guide, H100 80GB: 7 compute slices, 3 in the profile 3g.40gb. The exact memory is invented.
SLICES: Final = 7
INSTANCE_SLICES: Final = 3
INSTANCE_NAME: Final = f"{NAME} MIG 3g.40gb"
INSTANCE_BYTES: Final = 40_448 * MIB
INSTANCE_BARE_BYTES: Final = 12 * MIB


@dataclass(frozen=True, kw_only=True, slots=True)
class CardSlot:
    """UUID, index and PCI address of a card."""

    uuid: str
    index: int
    pci: str


def card_slot(seed: int, index: int) -> CardSlot:
    """Return the card at ``index`` of the simulated host; equal for equal seeds."""
    rng = Random(f"{seed}:card:{index}")  # noqa: S311 - a simulation, not a secret
    uuid = f"GPU-{UUID(int=rng.getrandbits(128), version=4)}"
    return CardSlot(uuid=uuid, index=index, pci=f"{index // 64:08x}:{0x10 + index % 64:02x}:00.0")


class Heat:
    """Power, temperature and energy counter of a card; each tick continues from the last."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._celsius = 37.0
        self._energy_mj = rng.randrange(10**11, 10**12)
        self._seen_ms: int | None = None

    def follow(self, use: CardUsage, span: TickSpan) -> dict[str, Any]:
        """Return reading fields after a tick: power, temperature, energy since driver load and in the tick."""
        base = CONTEXT_WATTS if use.context else BARE_WATTS
        watts = base + use.utilization * (BUSY_WATTS - base) + self._rng.uniform(-0.4, 0.4)
        elapsed_ms = span.duration_ms if self._seen_ms is None else span.ts_ms - self._seen_ms
        spent_mj = round(watts * elapsed_ms)
        known = self._seen_ms is not None and span.continued
        self._energy_mj += spent_mj
        self._seen_ms = span.ts_ms
        target = CELSIUS_AT_0_WATTS + CELSIUS_PER_WATT * watts
        self._celsius = target + (self._celsius - target) * exp(-elapsed_ms / WARM_UP_MS)
        return {
            "power_watts": round(watts, 3),
            "temperature_celsius": float(round(self._celsius)),
            "energy_total_mj": self._energy_mj,
            "energy_mj": spent_mj if known else None,
        }

    def lose(self) -> None:
        """Forget the last reading: after a lost card returns, its first tick's energy is unknown."""
        self._seen_ms = None


Simulated: TypeAlias = "WholeCard | PartitionedCard"


class WholeCard:
    """A card without MIG, read once per tick; ``uuids`` has its UUID only."""

    def __init__(self, slot: CardSlot, habit: Habit, rng: Random) -> None:
        self.uuids = (slot.uuid,)
        self._slot = slot
        self._habit = habit
        self._rng = rng
        self._heat = Heat(rng)
        self._is_lost = False
        self._listed: frozenset[int] | None = None

    def read(self, span: TickSpan, errors: list[ReadError]) -> Sequence[CardReading]:
        """Return the card's reading, a failed one while it is lost; append failed calls to ``errors``."""
        use = self._habit(span.ts_ms)
        if use.lost:
            self._heat.lose()
            self._listed = None
            errors.append(ReadError(call="nvmlDeviceGetHandleByIndex", code="GPU_IS_LOST", uuid=self._slot.uuid))
            values = {} if self._is_lost else {"xid_errors": 1, "xid": LOST_XID}
            self._is_lost = True
            return (_reading(self._slot, span, process_list=ProcessList.FAILED, failed=True, **values),)
        self._is_lost = False
        listed = self._rng.random() >= FAILED_LIST_CHANCE
        if not listed:
            call = "nvmlDeviceGetComputeRunningProcesses_v3"
            errors.append(ReadError(call=call, code="UNKNOWN", uuid=self._slot.uuid))
        heat = self._heat.follow(use, span)
        before, self._listed = self._listed, None
        seen = None
        if listed:
            self._listed = frozenset(process.pid for process in use.processes)
            seen = None if before is None or not span.continued else len(self._listed | before)
        card = _reading(
            self._slot,
            span,
            process_list=ProcessList.KNOWN if listed else ProcessList.FAILED,
            mig=Mig.NONE,
            memory_shared=False,
            utilization=round(use.utilization, 4),
            utilization_encoder=0.0,
            utilization_decoder=round(use.decoder, 4),
            utilization_max=max(use.largest, round(use.utilization, 4)),
            utilization_coverage_ms=max(0, span.duration_ms - BLIND_MS),
            **_idle_time(use, max(0, span.duration_ms - BLIND_MS)),
            memory_used_bytes=BARE_BYTES + use.held_bytes,
            memory_limit_bytes=MEMORY_BYTES,
            memory_reserved_bytes=RESERVED_BYTES,
            **heat,
            failed=False,
            clock_reasons=_clock_reasons(use, **heat),
            xid_errors=0,
            ecc_errors=0,
            row_remap=0,
            recovery_action=0,
            **(use.activity._asdict() if use.activity is not None and span.continued else {}),
            processes_seen=seen,
            processes=use.processes if listed else (),
        )
        return (card,)


class PartitionedCard:
    """A card with one MIG instance of 3 slices per habit, at most two; utilization is unreadable.

    ``uuids`` has the card's UUID, followed by those of its instances.
    """

    def __init__(self, slot: CardSlot, habits: Sequence[Habit], rng: Random) -> None:
        self._slot = slot
        self._instances = tuple((f"MIG-{UUID(int=rng.getrandbits(128), version=4)}", habit) for habit in habits)
        self.uuids = (slot.uuid, *(uuid for uuid, _ in self._instances))
        self._heat = Heat(rng)

    def read(self, span: TickSpan, errors: list[ReadError]) -> Sequence[CardReading]:  # noqa: ARG002 - no call fails
        """Return readings of the parent, for its unallocated slices, and of the instances."""
        uses = [(uuid, habit(span.ts_ms)) for uuid, habit in self._instances]
        heat = self._heat.follow(_together([use for _, use in uses]), span)
        left_slices = SLICES - INSTANCE_SLICES * len(uses)
        parent = _reading(
            self._slot,
            span,
            gpu_time_ms=span.duration_ms * left_slices // SLICES,
            process_list=ProcessList.KNOWN,
            mig=Mig.PARENT,
            memory_shared=False,
            memory_used_bytes=BARE_BYTES,
            memory_limit_bytes=MEMORY_BYTES - INSTANCE_BYTES * len(uses),
            memory_reserved_bytes=RESERVED_BYTES,
            **heat,
            failed=False,
        )
        return (parent, *(self._instance(uuid, use, span) for uuid, use in uses))

    def _instance(self, uuid: str, use: CardUsage, span: TickSpan) -> CardReading:
        return _reading(
            self._slot,
            span,
            uuid=uuid,
            gpu_time_ms=span.duration_ms * INSTANCE_SLICES // SLICES,
            process_list=ProcessList.KNOWN,
            name=INSTANCE_NAME,
            mig=Mig.INSTANCE,
            parent=self._slot.uuid,
            memory_shared=False,
            memory_used_bytes=INSTANCE_BARE_BYTES + use.held_bytes,
            memory_limit_bytes=INSTANCE_BYTES,
            memory_reserved_bytes=0,
            failed=False,
            processes=use.processes,
        )


def _reading(slot: CardSlot, span: TickSpan, **values: Any) -> CardReading:  # noqa: ANN401 - fields of a reading
    """Return a reading of ``values`` on top of the host's common values.

    Splits the GPU time among its processes. Built in one step, as copying a reading takes longer than everything else.
    """
    values = {
        "uuid": slot.uuid,
        "duration_ms": span.duration_ms,
        "gpu_time_ms": span.duration_ms,
        "index": slot.index,
        "name": NAME,
        "model": NAME,
        "vendor": "NVIDIA",
        "driver_version": DRIVER,
        "pci": slot.pci,
        **values,
    }
    if values.get("processes"):
        values["processes"] = split_gpu_time(values["gpu_time_ms"], values["processes"])
    return CardReading(**values)


def _clock_reasons(use: CardUsage, *, power_watts: float, temperature_celsius: float, **_: object) -> int:
    """Return the clock event reasons: heat and power cap at high values, else idleness at zero utilization."""
    slowed = HEAT * (temperature_celsius >= HOT_CELSIUS) | POWER_CAP * (power_watts >= CAPPED_WATTS)
    return slowed or IDLENESS * (use.utilization == 0)


def _idle_time(use: CardUsage, sampled_ms: int) -> dict[str, int]:
    """Return the idle time within the sampled time, for bursts at the largest sample and idleness between them.

    Empty if idle time is unknown. Includes its energy, fully sampled, if the largest sample is active.
    """
    mean, largest = round(use.utilization, 4), max(use.largest, round(use.utilization, 4))
    if not sampled_ms or not counts_as_idle(mean, encoder=0.0, decoder=use.decoder, processes=use.processes):
        return {}
    if largest < ACTIVE_FROM:
        return {"idle_time_ms": sampled_ms}
    idle_ms = round(sampled_ms * (1 - mean / largest))
    if not idle_ms:
        return {"idle_time_ms": 0}
    watts = CONTEXT_WATTS if use.context else BARE_WATTS
    return {
        "idle_time_ms": idle_ms,
        "idle_energy_mj": round(watts * idle_ms),
        "idle_energy_coverage_ms": idle_ms,
    }


def _together(uses: Sequence[CardUsage]) -> CardUsage:
    """Return the whole card's use from its instances' use, to compute its power."""
    return CardUsage(
        utilization=sum(use.utilization for use in uses) * INSTANCE_SLICES / SLICES,
        context=any(use.context for use in uses),
    )
