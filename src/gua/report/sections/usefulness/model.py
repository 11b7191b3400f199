"""How much of the time in which a program may be loaded was idle seconds, by the driver's samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gua.report.kit.fields import Hours, Number, Ratio, Timestamp

METRICS: Final = ("sm", "occupancy", "tensor", "memory_bandwidth")
"""Metrics in the order of the numbers that hours are kept with, from 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IdleTime:
    """Some GPU time and the idle seconds in it.

    ``sampled_gpu_ms`` of ``gpu_ms`` is what samples of utilization tell busy from idle seconds of; ``idle_gpu_ms`` of
    that lay below the threshold of active, a share of ``idle_share`` (of what samples tell; ``None`` where they tell
    nothing). ``idle_joules`` is the energy of ``measured_gpu_ms`` of the idle time, the part that power samples cover;
    ``None`` where they cover nothing.
    """

    gpu_ms: Hours[float]
    sampled_gpu_ms: Hours[float]
    idle_gpu_ms: Hours[float]
    idle_share: Ratio[float | None]
    measured_gpu_ms: Hours[float]
    idle_joules: Number[float | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class MeanActivity:
    """What performance counters tell of some active time: of one metric, and only where it is told.

    ``metric`` is sm (multiprocessors that were busy), occupancy, tensor or memory_bandwidth. ``mean`` is over the
    ``told_gpu_ms`` that it is told of, ``low_gpu_ms`` those of ticks in which it was below 10 %.
    """

    metric: str
    told_gpu_ms: Hours[float]
    mean: Ratio[float]
    low_gpu_ms: Hours[float]


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnerActivity:
    """An owner's program in active ticks that tell how many SMs were busy; of a shared card each has the card's.

    ``low_gpu_ms`` of ``gpu_ms`` are those with less than 10 % of the SMs. ``tensor`` is ``None`` where it is not told.
    """

    owner: str | None
    program: str | None
    gpu_ms: Hours[float]
    sm: Ratio[float]
    tensor: Ratio[float | None]
    low_gpu_ms: Hours[float]


@dataclass(frozen=True, kw_only=True, slots=True)
class BusyWithFewSms:
    """A run of ticks in which a card was at 90 % or more with less than 10 % of its SMs, half an hour or longer.

    ``observed_ms`` is the time of its ticks. ``owners`` and ``programs`` are all that were there, ``None`` one that is
    not known; nobody on the list where they are empty.
    """

    host: str
    gpu: str
    index: int | None
    model: str | None
    since_ms: Timestamp[int]
    until_ms: Timestamp[int]
    observed_ms: Hours[int]
    gpu_ms: Hours[float]
    sm: Ratio[float]
    tensor: Ratio[float | None]
    owners: tuple[str | None, ...]
    programs: tuple[str | None, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CardIdleTime:
    """A card's time in the states active and idle-held; ``activity`` is that of its active time, as far as told."""

    host: str
    gpu: str
    index: int | None
    model: str | None
    states: Mapping[str, IdleTime]
    activity: tuple[MeanActivity, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Usefulness:
    """All cards, and each; ``loaded`` is both states together, in which a program may be loaded.

    ``activity`` is that of the active time of all cards, ``owners`` and ``busy_with_few_sms`` are read from ticks: all
    of them are empty where no performance counters were read.
    """

    states: Mapping[str, IdleTime]
    loaded: IdleTime
    cards: tuple[CardIdleTime, ...]
    activity: tuple[MeanActivity, ...] = ()
    owners: tuple[OwnerActivity, ...] = ()
    busy_with_few_sms: tuple[BusyWithFewSms, ...] = ()
