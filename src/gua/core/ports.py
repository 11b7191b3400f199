"""What the outside world looks like to the rest: cards, processes, clocks and stores as Protocols."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:  # a report that lands a tick or two makes none: 15 ms of CPU
    from gua.core.allocation import AllocationLook, CardKey
    from gua.core.idleness import IdleCounters
    from gua.core.tick import CardReading, ProcessReading, ReadError


class Clock(Protocol):
    """Wall clock, monotonic clock and boot, as one object so that tests can move them together."""

    def wall_ms(self) -> int:
        """Return the wall clock as Unix time in ms."""
        ...

    def monotonic_ms(self) -> int:
        """Return CLOCK_MONOTONIC in ms; it never goes back within one boot."""
        ...

    def boot_id(self) -> str | None:
        """Return the id of this boot, ``None`` where the system does not tell."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """The last tick that was spooled, and how long processes had idled; stored in one transaction with its row."""

    ts_ms: int
    monotonic_ms: int
    boot_id: str | None
    clocks: IdleCounters = field(default_factory=dict)


# Not frozen, though nothing changes one: see ProcessReading.
@dataclass(kw_only=True, slots=True, unsafe_hash=True)
class RawProcess:
    """A process on a card as the driver lists it, before anybody asked who it is."""

    pid: int
    lists: frozenset[str]
    memory_bytes: int | None
    utilization: float | None


class UtilizationSample(NamedTuple):
    """A card's utilization over (start_ms, end_ms] in Unix time: its mean and its largest value, ratios.

    It may stand for several of the driver's samples. ``idle_ms`` is the time of those below ``active_utilization``,
    ``None`` where they are too long to tell of seconds. ``idle_mj`` is the energy of ``powered_ms`` of that time, the
    part of it that the driver's power samples cover.
    """

    start_ms: int
    end_ms: int
    utilization: float
    largest: float
    idle_ms: int | None = None
    powered_ms: int = 0
    idle_mj: float = 0.0


class Activity(NamedTuple):
    """Means of a span as ratios, ``None`` is unknown; named as the fields of a card's reading.

    How much of the multiprocessors (SMs) was busy, how much of the warps that they can hold was there, how much of the
    time they did tensor operations, how much of the memory's bandwidth was used.
    """

    sm_utilization: float | None = None
    sm_occupancy: float | None = None
    tensor_utilization: float | None = None
    memory_bandwidth_utilization: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RawCard:
    """A card as the driver answers: the reading with no process in it, its part of a GPU, and the raw processes.

    ``gpu_fraction`` is the card's part of a whole GPU, as (slices, all slices). The reading's spans are
    placeholders; the sampler sets them. Its utilization is the instant value; ``samples`` are what the
    driver kept since the last reading, oldest first and without overlap. ``minor`` is the number of the device file
    (/dev/nvidia3), of an instance its GPU's; ``gpu_instance_id`` is an instance's. ``activity`` is over the
    ``activity_ms`` before the reading, ``None`` where that is not read or unknown; ``has_activity`` is whether its
    counters were read, from the first reading on.
    """

    reading: CardReading
    gpu_fraction: tuple[int, int]
    processes: tuple[RawProcess, ...]
    samples: tuple[UtilizationSample, ...] = ()
    minor: int | None = None
    gpu_instance_id: int | None = None
    activity: Activity | None = None
    activity_ms: int = 0
    has_activity: bool = False


class CardReader(Protocol):
    """The driver: every card once, and what failed on the way."""

    def read(self) -> tuple[Sequence[RawCard], Sequence[ReadError]]:
        """Return each card once. Raises UnavailableError only if no card can be read at all."""
        ...

    def drain(self) -> None:
        """Take what the driver's rings hold before they overflow: at least every 5 s between reads.

        Never raises; what failed comes with the next read.
        """
        ...

    def close(self) -> None:
        """Release the driver."""
        ...


class ProcessFacts(Protocol):
    """Who a process is."""

    def identify(self, process: RawProcess) -> ProcessReading:
        """Return the process with what is known of it; never raises, the rest stays ``None``."""
        ...


class AllocationSources(Protocol):
    """To whom cards are promised, by every source that is looked at."""

    def look(self, since_ms: int, now_ms: int, cards: Sequence[CardKey]) -> AllocationLook:
        """Return every allocation that covers any time within (since_ms, now_ms], Unix ms, and the sources' health.

        Each (source, id) stands once in it. Takes no longer than reading some small files: what may block is asked in
        the background. Never raises: what could not be read is a failed source.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class SpooledTick:
    """One row of the spool: ``blob`` is the zstd-compressed OTLP request of ``raw_length`` bytes."""

    id: int
    ts_ms: int
    raw_length: int
    blob: bytes


class Landing(Protocol):
    """Where spooled ticks end: an embedded store, or an endpoint."""

    def land(self, batch: Sequence[SpooledTick]) -> Sequence[SpooledTick]:
        """Deliver the batch, oldest first; return those refused for good. Raises TransientError to retry later."""
        ...


Row = Mapping[str, Any]


class ViewReader(Protocol):
    """A store as the report sees it: the shipped parameterised views, with bound parameters, read-only."""

    @property
    def is_concurrent(self) -> bool:
        """Whether several threads may ask at the same time."""
        ...

    def rows(self, view: str, parameters: Mapping[str, object]) -> Iterable[Row]:
        """Return the rows of ``gua_report.<view>``; times are Unix ms, unknown is ``None``."""
        ...
