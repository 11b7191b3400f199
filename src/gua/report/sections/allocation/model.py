"""To whom cards were promised, by which source, and what became of the promise."""

from __future__ import annotations

from dataclasses import dataclass

from gua.report.costs import Cost, added
from gua.report.kit.fields import Hours
from gua.report.model import ReportedSource
from gua.report.uses import UNUSED, ByPromisedUse, ByUse, CostByUse, total


@dataclass(frozen=True, kw_only=True, slots=True)
class Allocated:
    """GPU time promised by a source, in ms: all of it, or (``owner``) what one owner was promised.

    ``shared_gpu_ms``: the part in which processes of the owner and of others were on the cards.
    ``costs`` is ``None`` without prices. Of the source gua, ``runs`` and ``manuals`` count an owner's reservations that
    were there at a tick of the window: of commands, and by hand; ``None`` where ticks that told that are gone.
    """

    source: str
    owner: str | None
    allocated_gpu_ms: Hours[float]
    shared_gpu_ms: Hours[float]
    uses: ByPromisedUse
    costs: CostByUse = None
    runs: int | None = None
    manuals: int | None = None

    @property
    def unused_gpu_ms(self) -> float:
        """Return what was held, used by others or empty."""
        return total(self.uses, UNUSED)

    @property
    def unused_cost(self) -> Cost | None:
        """Return what that cost, ``None`` without prices."""
        return None if self.costs is None else added(self.costs[use] for use in UNUSED)


@dataclass(frozen=True, kw_only=True, slots=True)
class PromisedWork:
    """GPU time promised for one kind of work or one served model; ``name`` is ``None`` where nothing tells it."""

    name: str | None
    allocated_gpu_ms: Hours[float]
    uses: ByPromisedUse


@dataclass(frozen=True, kw_only=True, slots=True)
class PromisedWorkBy:
    """All promised GPU time by kind of work (``kind``) or by served model (``served-model``), the largest first."""

    by: str
    rows: tuple[PromisedWork, ...]


@dataclass(frozen=True, kw_only=True)
class PromisedHours:
    """GPU time in ms by what became of it, of the time in which somebody looked at who was promised what.

    The seven ``uses`` sum to ``looked_at_gpu_ms``; with ``not_looked_at_gpu_ms`` that is all observed time. ``owners``
    are the worst first: by what was held, used by others or empty. ``promised`` are the same by source; ``work_by``
    what it was for, where that was asked for.
    """

    looked_at_gpu_ms: Hours[float]
    not_looked_at_gpu_ms: Hours[float]
    uses: ByUse
    costs: CostByUse = None
    owners: tuple[Allocated, ...] = ()
    promised: tuple[Allocated, ...] = ()
    sources: tuple[ReportedSource, ...] = ()
    work_by: tuple[PromisedWorkBy, ...] = ()

    @property
    def looked_at(self) -> bool:
        """Return whether any source of allocations was looked at."""
        return bool(self.sources) or self.looked_at_gpu_ms > 0
