"""A card's utilization over a tick's whole span: samples where there are some, the instant value for the rest.

And how much of it samples say was below active: the seconds that a mean of the tick hides.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gua.core.ports import UtilizationSample


class Covered(NamedTuple):
    """Ratios over a span, and how many of its milliseconds samples cover; ``None`` is unknown.

    ``idle_ms`` is how much of what samples cover lay below active, ``idle_mj`` the energy of ``powered_ms`` of that.
    """

    mean: float | None
    largest: float | None
    coverage_ms: int | None
    idle_ms: int | None = None
    idle_mj: int | None = None
    powered_ms: int | None = None


def cover(samples: Iterable[UtilizationSample], instant: float | None, *, start_ms: int, end_ms: int) -> Covered:
    """Return the utilization over (start_ms, end_ms], both Unix time.

    The mean weighs each sample by the part of it inside the span; what no sample covers counts at the
    instant value, or not at all where that is unknown. Samples come oldest first; where one begins before
    the one before it ends, the time counts for the earlier one, so that coverage is never more than the span.
    """
    coverage_ms = idle_ms = powered_ms = 0
    weighted = idle_mj = 0.0
    largest = instant
    covered_until_ms = start_ms
    is_idle_told = True
    for sample in samples:
        sample_start_ms, sample_end_ms, utilization, sample_largest, sample_idle_ms, sample_powered_ms, sample_mj = (
            sample
        )
        until_ms = min(sample_end_ms, end_ms)
        length_ms = until_ms - max(sample_start_ms, covered_until_ms)
        if length_ms <= 0:
            continue
        coverage_ms += length_ms
        weighted += length_ms * utilization
        covered_until_ms = until_ms
        if largest is None or sample_largest > largest:
            largest = sample_largest
        if sample_idle_ms is None:
            is_idle_told = False
        elif sample_idle_ms:
            whole_ms = sample_end_ms - sample_start_ms
            if length_ms == whole_ms:
                idle_ms += sample_idle_ms
                powered_ms += sample_powered_ms
                idle_mj += sample_mj
            else:
                part = length_ms / whole_ms
                idle_ms += round(sample_idle_ms * part)
                powered_ms += round(sample_powered_ms * part)
                idle_mj += sample_mj * part
    if instant is not None:
        mean = (weighted + (end_ms - start_ms - coverage_ms) * instant) / (end_ms - start_ms)
    elif coverage_ms:
        mean = weighted / coverage_ms
    else:
        return Covered(mean=None, largest=None, coverage_ms=None)
    if not is_idle_told:
        return Covered(mean, largest, coverage_ms)
    return Covered(
        mean=mean,
        largest=largest,
        coverage_ms=coverage_ms,
        idle_ms=idle_ms if coverage_ms else None,
        idle_mj=round(idle_mj) if powered_ms else None,
        powered_ms=powered_ms or None,
    )
