"""Allocation, from the rows of a store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from gua.core.words import Use
from gua.report.model import Headline, ReportedSource
from gua.report.prices import Prices
from gua.report.promises import PromisedWorkRow, PromiseRow
from gua.report.sections.allocation.model import Allocated, PromisedHours, PromisedWork, PromisedWorkBy
from gua.report.states import observed_ms
from gua.report.uses import USES, CostsByUse, Uses, total
from gua.report.waits import COUNTED, UNTOLD, ReservationsRow

_NOBODYS: Final = ""
_NOISE_MS: Final = 1  # what sums of ticks that are cut at the window's edges may differ by


def allocation(  # noqa: PLR0913 - the answer to each of the section's questions
    rows: Iterable[PromiseRow],
    sources: Sequence[ReportedSource],
    headline: Headline,
    prices: Prices,
    reservations: Sequence[ReservationsRow] = (),
    *,
    work: Mapping[str, Sequence[PromisedWorkRow]] = MappingProxyType({}),
) -> PromisedHours:
    """Return the uses of all time, of each owner and of each source."""
    counts = Counter({(row.source, row.owner, row.kind): row.reservations for row in reservations})
    whole = _Sums()
    owners: dict[tuple[str, str | None], _Sums] = {}
    promised: dict[str, _Sums] = {}
    for row in rows:
        if not row.is_total:
            continue
        whole.add(row)
        if row.source != _NOBODYS:
            owners.setdefault((row.source, row.owner), _Sums()).add(row)
            promised.setdefault(row.source, _Sums()).add(row)
    uses = whole.uses
    rest_ms = observed_ms(headline.states) - total(uses)
    return PromisedHours(
        looked_at_gpu_ms=total(uses),
        not_looked_at_gpu_ms=rest_ms if rest_ms >= _NOISE_MS else 0,
        uses=uses,
        costs=whole.costs(prices),
        owners=worst_first(
            (_counted(_allocated(source, owner, sums, prices), counts) for (source, owner), sums in owners.items()),
            prices,
        ),
        promised=worst_first((_allocated(source, None, sums, prices) for source, sums in promised.items()), prices),
        sources=tuple(sources),
        work_by=tuple(PromisedWorkBy(by=by, rows=_work(found)) for by, found in work.items()),
    )


def _work(rows: Iterable[PromisedWorkRow]) -> tuple[PromisedWork, ...]:
    uses: dict[str | None, dict[Use, float]] = {}
    for row in rows:
        uses.setdefault(row.name, {})[Use(row.use)] = row.gpu_us / 1000
    found = (PromisedWork(name=name, allocated_gpu_ms=total(of), uses=of) for name, of in uses.items())
    return tuple(sorted(found, key=lambda one: (-one.allocated_gpu_ms, one.name or "")))


def worst_first(every: Iterable[Allocated], prices: Prices) -> tuple[Allocated, ...]:
    """Order by what was not used: by what it cost where all of it has a price in one currency, else by GPU time."""
    found = list(every)
    costs = [one.unused_cost for one in found]
    is_priced = len({row.currency for row in prices.rows}) == 1 and not any(
        cost is None or cost.unpriced_gpu_ms for cost in costs
    )

    def order(one: Allocated) -> tuple[float, float, str, str]:
        cost = one.unused_cost
        amount = sum(cost.amounts.values()) if is_priced and cost is not None else 0
        return (-amount, -one.unused_gpu_ms, one.source, one.owner or "")

    return tuple(sorted(found, key=order))


@dataclass(slots=True)
class _Sums:
    """GPU time [us] by use and price, and the shared part of it."""

    us: Counter[tuple[Use, int]] = field(default_factory=Counter)
    shared_us: int = 0

    def add(self, row: PromiseRow) -> None:
        self.us[Use(row.use), row.price] += row.gpu_us
        self.shared_us += row.gpu_us if row.is_shared else 0

    @property
    def uses(self) -> Uses:
        return {use: self._of(use) / 1000 for use in USES}

    def costs(self, prices: Prices) -> CostsByUse | None:
        costs = {
            use: prices.cost(self._of(use), [(price, us) for (of, price), us in self.us.items() if of == use and price])
            for use in USES
        }
        return {use: cost for use, cost in costs.items() if cost is not None} or None

    def _of(self, use: Use) -> int:
        return sum(us for (of, _), us in self.us.items() if of == use)


def _counted(one: Allocated, counts: Counter[tuple[str, str | None, str]]) -> Allocated:
    if one.source not in COUNTED or counts[one.source, one.owner, UNTOLD]:
        return one
    return replace(one, runs=counts[one.source, one.owner, "run"], manuals=counts[one.source, one.owner, "manual"])


def _allocated(source: str, owner: str | None, sums: _Sums, prices: Prices) -> Allocated:
    return Allocated(
        source=source,
        owner=owner,
        allocated_gpu_ms=total(sums.uses),
        shared_gpu_ms=sums.shared_us / 1000,
        uses=sums.uses,
        costs=sums.costs(prices),
    )
