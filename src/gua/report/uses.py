"""GPU time by use of allocated and unallocated cards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Final

from gua.core.untrusted import is_word_of
from gua.core.words import Use
from gua.report.costs import Cost, cost_json
from gua.report.kit.fields import Cell, Json, Unit, hours, ratio
from gua.report.states import MS_PER_HOUR

USES: Final = tuple(Use)
PROMISED: Final = (Use.USED, Use.HELD, Use.USED_BY_OTHERS, Use.EMPTY, Use.UNKNOWN)
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


def uses_json(uses: Uses) -> Json:
    """Return the GPU-hours and the share of each use as a JSON object."""
    return {use: {"gpu_hours": hours(uses.get(use, 0)), "share": ratio(share(uses, use))} for use in USES}


def _promised_json(uses: Uses) -> Json:
    whole = total(uses, PROMISED)
    return {
        use: {"gpu_hours": hours(uses.get(use, 0)), "share": ratio(uses.get(use, 0) / whole if whole else None)}
        for use in PROMISED
    }


def _promised_cells(uses: Uses) -> dict[str, Cell]:
    values = (uses.get(use, 0) / MS_PER_HOUR for use in PROMISED)
    return dict(zip(columns(PROMISED), values, strict=True))


ByUse = Annotated[Uses, Unit(json=uses_json)]
"""GPU time by use, all seven."""
ByPromisedUse = Annotated[Uses, Unit(json=_promised_json, columns=columns(PROMISED), cells=_promised_cells)]
"""Allocated GPU time by use: in CSV a column of GPU-hours for each."""
CostByUse = Annotated[CostsByUse | None, Unit(json=lambda costs: {use: cost_json(cost) for use, cost in costs.items()})]
"""Cost by use."""
