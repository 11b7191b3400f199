"""Amounts of money as people read them: beside GPU-hours as soon as a price matches, each currency for itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from gua.report.costs import Cost, added
from gua.report.kit.figures import NONE, HourFormat, amount, amounts
from gua.report.model import Report

CENTS: Final = 2
WASTED: Final = "wasted"
WASTED_NOTE: Final = "what the idle-held GPU-hours cost, estimated from prices that somebody entered"
AMOUNT_WIDTH: Final = 14
"""What a column of amounts takes, about [columns]."""
_WIDEST_CURRENCY: Final = 12
Name = Callable[[str, int], str]
"""Makes a name of unknown origin harmless for what it is printed on."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """How a report's tables show amounts: in a column for each currency, in none where no price matches a card."""

    currencies: tuple[str, ...]

    @classmethod
    def of_report(cls, report: Report) -> Amounts:
        """Return the columns for a report's currencies."""
        total = added((report.headline.costs or {}).values())
        return cls(tuple(total.amounts) if total else ())

    def titles(self, what: str, name: Name) -> list[str]:
        """Return the columns' titles, one for each currency."""
        return [f"{what} {name(currency, _WIDEST_CURRENCY)}".lstrip() for currency in self.currencies]

    def cells(self, cost: Cost | None, decimals: int = CENTS) -> list[str]:
        """Return a row's amount in each of the columns; ``-`` where none of its time has a price."""
        is_known = cost is not None and (bool(cost.amounts) or not cost.unpriced_gpu_ms)
        values = cost.amounts if cost is not None else {}
        return [amount(values.get(currency, 0) if is_known else None, decimals) for currency in self.currencies]

    def rows(self, costs: Sequence[Cost | None], decimals: int = CENTS) -> list[list[str]]:
        """Return the cells of rows that are all there is; a column adds up to what :func:`written` says of them."""
        cells = [self.cells(cost, decimals) for cost in costs]
        for column, currency in enumerate(self.currencies):
            priced = {
                row: cost.amounts[currency] for row, cost in enumerate(costs) if cost and currency in cost.amounts
            }
            for row, told in zip(priced, amounts([*priced.values()], decimals), strict=True):
                cells[row][column] = told
        return cells


def written(cost: Cost | None, name: Name, decimals: int = CENTS) -> str:
    """Return the amounts with their currencies: ``1,234.50 EUR + 3.00 USD``; ``-`` where there is none."""
    if cost is None or not cost.amounts:
        return NONE
    parts = (
        f"{amount(value, decimals)} {name(currency, _WIDEST_CURRENCY)}" for currency, value in cost.amounts.items()
    )
    return " + ".join(parts)


def sentence(cost: Cost | None, name: Name, hours: HourFormat) -> str | None:
    """Return what some hours cost, and how many of them have no price; ``None`` where no price matches."""
    if cost is None or not cost.amounts:
        return None
    unpriced = f", and {hours.of(cost.unpriced_gpu_ms)} GPU-hours without a price" if cost.unpriced_gpu_ms else ""
    return f"{written(cost, name)} (estimated){unpriced}"
