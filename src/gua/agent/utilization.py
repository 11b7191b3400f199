"""A card's utilization over a tick's whole span: samples where there are some, the instant value for the rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gua.core.ports import UtilizationSample


@dataclass(frozen=True, kw_only=True, slots=True)
class Covered:
    """Ratios over a span, and how many of its milliseconds samples cover; ``None`` is unknown."""

    mean: float | None
    largest: float | None
    coverage_ms: int | None


def cover(samples: Iterable[UtilizationSample], instant: float | None, *, start_ms: int, end_ms: int) -> Covered:
    """Return the utilization over (start_ms, end_ms], both Unix time.

    The mean weighs each sample by the part of it inside the span; what no sample covers counts at the
    instant value, or not at all where that is unknown. Samples come oldest first; where one begins before
    the one before it ends, the time counts for the earlier one, so that coverage is never more than the span.
    """
    coverage_ms = 0
    weighted = 0.0
    largest = instant
    covered_until_ms = start_ms
    for sample_start_ms, sample_end_ms, utilization, sample_largest in samples:
        until_ms = min(sample_end_ms, end_ms)
        length_ms = until_ms - max(sample_start_ms, covered_until_ms)
        if length_ms <= 0:
            continue
        coverage_ms += length_ms
        weighted += length_ms * utilization
        covered_until_ms = until_ms
        if largest is None or sample_largest > largest:
            largest = sample_largest
    if instant is not None:
        weighted += (end_ms - start_ms - coverage_ms) * instant
        return Covered(mean=weighted / (end_ms - start_ms), largest=largest, coverage_ms=coverage_ms)
    if not coverage_ms:
        return Covered(mean=None, largest=None, coverage_ms=None)
    return Covered(mean=weighted / coverage_ms, largest=largest, coverage_ms=coverage_ms)
