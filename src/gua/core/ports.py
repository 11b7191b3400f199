"""Protocols that separate the domain from cards, processes, clocks and stores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:  # saves 15 ms of CPU in a report, which creates no ticks
    from gua.core.allocation import AllocationLook, CardKey
    from gua.core.idleness import IdleCounters
    from gua.core.tick import CardReading, ProcessReading, ReadError


class Clock(Protocol):
    """Wall clock, monotonic clock and boot id in one object, so that tests can move them together."""

    def wall_ms(self) -> int:
        """Return the wall clock as Unix time in ms."""

    def monotonic_ms(self) -> int:
        """Return CLOCK_MONOTONIC in ms; it never goes back within one boot."""

    def boot_id(self) -> str | None:
        """Return the id of this boot, ``None`` where the system does not report it."""


class Moment(NamedTuple):
    """A time on both clocks, in ms."""

    wall_ms: int
    monotonic_ms: int

    @classmethod
    def of(cls, clock: Clock) -> Moment:
        """Return the current time."""
        return cls(clock.wall_ms(), clock.monotonic_ms())

    def age_ms(self, now: Moment) -> int:
        """Return the time [ms] until ``now`` by the clock that advanced more: the monotonic one stops in suspend."""
        return max(now.monotonic_ms - self.monotonic_ms, now.wall_ms - self.wall_ms)


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """The last spooled tick and the idle counters of processes, stored in one transaction with the tick's row."""

    ts_ms: int
    monotonic_ms: int
    boot_id: str | None
    clocks: IdleCounters = field(default_factory=dict)


# Not frozen, though immutable by convention: see ProcessReading.
@dataclass(kw_only=True, slots=True, unsafe_hash=True)
class RawProcess:
    """A process on a card as the driver lists it, before it is identified."""

    pid: int
    lists: frozenset[str]
    memory_bytes: int | None
    utilization: float | None


class UtilizationSample(NamedTuple):
    """A card's utilization over (start_ms, end_ms] in Unix time: mean and largest value as ratios.

    It may merge several of the driver's samples. ``idle_ms`` is the time of those below ``active_utilization``,
    ``None`` where samples are too long for a resolution of seconds. ``idle_mj`` is the energy [mJ] of ``powered_ms``,
    the part of the idle time that the driver's power samples cover.
    """

    start_ms: int
    end_ms: int
    utilization: float
    largest: float
    idle_ms: int | None = None
    powered_ms: int = 0
    idle_mj: float = 0.0


class Activity(NamedTuple):
    """Means over a span as ratios, ``None`` if unknown; fields are named as in a card's reading.

    They are shares of busy multiprocessors (SMs), of resident among possible warps, of time with tensor operations, and
    of the peak memory bandwidth.
    """

    sm_utilization: float | None = None
    sm_occupancy: float | None = None
    tensor_utilization: float | None = None
    memory_bandwidth_utilization: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RawCard:
    """A card as the driver reports it: the reading without processes, its share of a GPU, and the raw processes.

    ``gpu_fraction`` is the card's share of a whole GPU, as (slices, all slices). The reading's spans are placeholders
    that the sampler sets. Its utilization is the instant value. ``samples`` are the driver's samples since the last
    reading, oldest first and without overlap. ``minor`` is the number of the device file (/dev/nvidia3); for an
    instance that of its GPU. ``gpu_instance_id`` and ``compute_instance_id`` are set for instances only. ``activity``
    covers the ``activity_ms`` before the reading, ``None`` if it is not read or unknown. ``has_activity`` is whether
    its counters were read; the first reading has no activity yet. ``unlisted`` are the pids that had utilization
    samples since the last reading but are not on the process list.
    """

    reading: CardReading
    gpu_fraction: tuple[int, int]
    processes: tuple[RawProcess, ...]
    samples: tuple[UtilizationSample, ...] = ()
    minor: int | None = None
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None
    activity: Activity | None = None
    activity_ms: int = 0
    has_activity: bool = False
    unlisted: frozenset[int] = frozenset()


class CardReader(Protocol):
    """Reader of all cards of the host's driver."""

    def read(self) -> tuple[Sequence[RawCard], Sequence[ReadError]]:
        """Return each card once, and the failed calls. Raises UnavailableError only if no card can be read."""

    def drain(self) -> None:
        """Read the driver's ring buffers before they overflow: at least every 5 s between reads.

        Never raises; the next read reports the errors.
        """

    def close(self) -> None:
        """Release the driver."""


class ProcessFacts(Protocol):
    """Lookup of a process's identity."""

    def identify(self, process: RawProcess) -> ProcessReading:
        """Return the process with its known identity; unknown fields are ``None``. Never raises."""


class AllocationSources(Protocol):
    """Reader of all configured allocation sources."""

    def look(self, since_ms: int, now_ms: int, cards: Sequence[CardKey]) -> AllocationLook:
        """Return every allocation that covers any time within (since_ms, now_ms], Unix ms, and the sources' health.

        Each (source, id) occurs once. Takes no longer than reading some small files: requests that may block are made
        in the background. Never raises: an unreadable source is reported as failed.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class SpooledTick:
    """One row of the spool: ``blob`` is the zstd-compressed OTLP request of ``raw_length`` bytes."""

    id: int
    ts_ms: int
    raw_length: int
    blob: bytes


class Landing(Protocol):
    """Destination of spooled ticks: an embedded store, or an endpoint."""

    def land(self, batch: Sequence[SpooledTick]) -> Sequence[SpooledTick]:
        """Deliver the batch, oldest first; return the permanently refused ticks. Raises TransientError to retry."""


Row = Mapping[str, Any]


class ViewReader(Protocol):
    """Read-only store access for reports: the shipped parameterized views with bound parameters."""

    @property
    def is_concurrent(self) -> bool:
        """Whether several threads may query at the same time."""

    @property
    def is_embedded(self) -> bool:
        """Whether an embedded engine answers, whose queries may use less memory than those of a server."""

    def rows(self, view: str, parameters: Mapping[str, object]) -> Iterable[Row]:
        """Return the rows of ``gua_report.<view>``; times are Unix ms, unknown is ``None``."""
