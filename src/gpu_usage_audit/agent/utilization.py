"""A card's utilization over a tick's whole span: samples where there are some, the instant value for the rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpu_usage_audit.core.ports import UtilizationSample


@dataclass(frozen=True, kw_only=True, slots=True)
class Covered:
    """Ratios over a span, and how many of its milliseconds samples cover; ``None`` is unknown."""

    mean: float | None
    largest: float | None
    coverage_ms: int | None


def cover(samples: Iterable[UtilizationSample], instant: float | None, *, start_ms: int, end_ms: int) -> Covered:
    """Return the utilization over (start_ms, end_ms], both Unix time.

    The mean weighs each sample by the part of it inside the span; what no sample covers counts at the
    instant value, or not at all where that is unknown. Samples may not overlap.
    """
    inside = [
        (min(sample.end_ms, end_ms) - max(sample.start_ms, start_ms), sample.utilization)
        for sample in samples
        if sample.end_ms > start_ms and sample.start_ms < end_ms and sample.end_ms > sample.start_ms
    ]
    coverage_ms = sum(length_ms for length_ms, _ in inside)
    weighted = sum(length_ms * utilization for length_ms, utilization in inside)
    known = [utilization for _, utilization in inside]
    if instant is not None:
        known.append(instant)
        uncovered_ms = end_ms - start_ms - coverage_ms
        return Covered(
            mean=(weighted + uncovered_ms * instant) / (end_ms - start_ms),
            largest=max(known),
            coverage_ms=coverage_ms,
        )
    if not known:
        return Covered(mean=None, largest=None, coverage_ms=None)
    return Covered(mean=weighted / coverage_ms, largest=max(known), coverage_ms=coverage_ms)
