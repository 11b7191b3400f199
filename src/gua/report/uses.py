"""GPU time by use of allocated and unallocated cards."""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Final

from gua.core.untrusted import is_word_of
from gua.core.words import Use
from gua.report.costs import Cost, cost_json
from gua.report.kit.fields import Cell, Json, Unit, hours, ratio
from gua.report.states import MS_PER_HOUR

USES: Final = tuple(Use)
ALLOCATED: Final = (Use.USED, Use.HELD, Use.USED_BY_OTHERS, Use.EMPTY, Use.UNKNOWN)
"""The uses that allocated time can have."""
UNUSED: Final = (Use.HELD, Use.USED_BY_OTHERS, Use.EMPTY)
"""The uses of allocated time in which the owner did not use the card."""
UseName = Annotated[str, is_word_of(*Use)]
Uses = Mapping[Use, float]
"""GPU time [ms] by use; a missing use counts as 0."""
CostsByUse = Mapping[Use, Cost]


def total(uses: Uses, of: Iterable[Use] = USES) -> float:
    """Return the total GPU time of these uses [ms]."""
    return sum(uses.get(use, 0) for use in of)


def share(uses: Uses, use: Use) -> float | None:
    """Return a use's share of all seven (0 to 1), ``None`` if the total is 0."""
    whole = total(uses)
    return uses.get(use, 0) / whole if whole else None


def columns(of: Iterable[Use], ending: str = "gpu_hours") -> tuple[str, ...]:
    """Return a column name for each use."""
    return tuple(f"{use.replace('-', '_')}_{ending}" for use in of)


def _json_of(of: Iterable[Use]) -> Callable[[Uses], Json]:
    """Return a function that yields the GPU-hours of these uses, and their shares of them together, as JSON."""

    def json(uses: Uses) -> Json:
        parts = {use: uses.get(use, 0) for use in of}
        return {use: {"gpu_hours": hours(ms), "share": ratio(share(parts, use))} for use, ms in parts.items()}

    return json


def _allocated_cells(uses: Uses) -> dict[str, Cell]:
    values = (uses.get(use, 0) / MS_PER_HOUR for use in ALLOCATED)
    return dict(zip(columns(ALLOCATED), values, strict=True))


ByUse = Annotated[Uses, Unit(json=_json_of(USES))]
"""GPU time by use, all seven."""
ByAllocatedUse = Annotated[Uses, Unit(json=_json_of(ALLOCATED), columns=columns(ALLOCATED), cells=_allocated_cells)]
"""Allocated GPU time by use: in CSV a column of GPU-hours for each."""
CostByUse = Annotated[CostsByUse | None, Unit(json=lambda costs: {use: cost_json(cost) for use, cost in costs.items()})]
"""Cost by use."""
