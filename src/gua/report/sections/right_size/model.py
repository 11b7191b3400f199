"""What programs took of the memory of cards, and what they would have fitted, by the peaks of ticks."""

from __future__ import annotations

from dataclasses import dataclass

from gua.report.costs import OneCost
from gua.report.kit.fields import Hours, Ratio


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramOnCard:
    """What one owner's program, or Slurm job of it, took of one card, of all its processes there together.

    ``is_instance`` is that of a MIG instance, whose slices are smaller parts of its GPU.
    Memory and utilization are of ticks, at the moments at which cards were read: what was between is not known.
    ``peak_bytes`` is the largest, ``p95_bytes`` what 95 % of the time did not exceed, both of the ticks that tell;
    ``untold_gpu_ms`` is about the GPU time of the others. ``usable_bytes`` is the card's memory without the driver's
    reserve; ``None`` for GPUs that were partitioned, and memory that the host uses, too.
    Utilization is that of the busiest process; ``p95_sm_utilization`` that of the card's SMs, whoever was on it, of the
    ticks whose counters tell. ``fits_half``, ``fits_slice`` and ``fits_smaller`` are ``None`` where
    that is not known; ``slice`` is the smallest part of the card's memory, ``smaller_model`` the smallest model of the
    fleet, of those that fit.
    """

    host: str
    gpu: str
    index: int | None
    model: str | None
    is_instance: bool
    owner: str | None
    program: str | None
    job: str | None
    gpu_ms: Hours[float]
    untold_gpu_ms: Hours[float]
    cost: OneCost
    peak_bytes: int | None
    p95_bytes: int | None
    usable_bytes: int | None
    peak_utilization: Ratio[float | None]
    p95_utilization: Ratio[float | None]
    p95_sm_utilization: Ratio[float | None]
    fits_half: bool | None
    fits_slice: bool | None
    slice: str | None
    fits_smaller: bool | None
    smaller_model: str | None

    @property
    def fits(self) -> bool | None:
        """Return whether it fits any of the three; ``None`` where that is not known."""
        every = (self.fits_half, self.fits_slice, self.fits_smaller)
        return True if True in every else None if None in every else False


@dataclass(frozen=True, kw_only=True, slots=True)
class FitTime:
    """Some workloads, a card each: their GPU time, its share of all of it, and what it cost."""

    workloads: int
    gpu_ms: Hours[float]
    share: Ratio[float | None]
    cost: OneCost


@dataclass(frozen=True, kw_only=True, slots=True)
class RightSize:
    """What would have fitted half a card, a MIG slice, a smaller model; any of these, none, and what is not known.

    ``every`` is these three last together; ``held_gpu_ms`` the held time of the headline, of which ``every`` is what
    processes in ticks tell of.
    """

    held_gpu_ms: Hours[float]
    every: FitTime
    half: FitTime
    slice: FitTime
    smaller: FitTime
    any: FitTime
    none: FitTime
    not_known: FitTime
    workloads: tuple[ProgramOnCard, ...]
