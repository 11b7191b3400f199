"""How much of the time in which a program may be loaded was idle seconds, by the driver's samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gua.report.kit.fields import Hours, Number, Ratio


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
class CardIdleTime:
    """A card's time in the states active and idle-held."""

    host: str
    gpu: str
    index: int | None
    model: str | None
    states: Mapping[str, IdleTime]


@dataclass(frozen=True, kw_only=True, slots=True)
class Usefulness:
    """All cards, and each; ``loaded`` is both states together, in which a program may be loaded."""

    states: Mapping[str, IdleTime]
    loaded: IdleTime
    cards: tuple[CardIdleTime, ...]
