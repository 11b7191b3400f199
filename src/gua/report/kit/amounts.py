"""Formatting of costs: a column per currency beside GPU-hours, as soon as a price matches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Self

from gua.report.costs import Cost, added
from gua.report.kit.figures import NONE, HourFormat, amount, amounts
from gua.report.model import Report

CENTS: Final = 2
WASTED: Final = "wasted"
WASTED_NOTE: Final = "what the idle-held GPU-hours cost, estimated from entered prices"
_WIDEST_CURRENCY: Final = 12
Name = Callable[[str, int], str]
"""Sanitizes a name of unknown origin for its output format and cuts it to a width [columns]."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """The amount columns of a report's tables: one per currency, none where no price matches a card."""

    currencies: tuple[str, ...]

    @classmethod
    def of_report(cls, report: Report) -> Self:
        """Return the columns for a report's currencies."""
        total = added((report.headline.costs or {}).values())
        return cls(tuple(total.amounts) if total else ())

    def titles(self, what: str, name: Name) -> list[str]:
        """Return the column titles, one per currency."""
        return [f"{what} {name(currency, _WIDEST_CURRENCY)}".lstrip() for currency in self.currencies]

    def cells(self, cost: Cost | None, decimals: int = CENTS) -> list[str]:
        """Return a row's amount in each column; ``-`` where none of its time has a price."""
        is_known = cost is not None and (bool(cost.amounts) or not cost.unpriced_gpu_ms)
        values = cost.amounts if cost is not None else {}
        return [amount(values.get(currency, 0) if is_known else None, decimals) for currency in self.currencies]

    def rows(self, costs: Sequence[Cost | None], decimals: int = CENTS) -> list[list[str]]:
        """Return the cells of all rows of a table; each column adds up to the total that :func:`written` prints."""
        cells = [self.cells(cost, decimals) for cost in costs]
        for column, currency in enumerate(self.currencies):
            priced = {
                row: cost.amounts[currency] for row, cost in enumerate(costs) if cost and currency in cost.amounts
            }
            for row, text in zip(priced, amounts([*priced.values()], decimals), strict=True):
                cells[row][column] = text
        return cells


def written(cost: Cost | None, name: Name, decimals: int = CENTS) -> str:
    """Return the amounts with their currencies: ``1,234.50 EUR + 3.00 USD``; ``-`` where there are none."""
    if cost is None or not cost.amounts:
        return NONE
    parts = (
        f"{amount(value, decimals)} {name(currency, _WIDEST_CURRENCY)}" for currency, value in cost.amounts.items()
    )
    return " + ".join(parts)


def sentence(cost: Cost | None, name: Name, hours: HourFormat) -> str | None:
    """Return the cost of GPU time and its hours without a price; ``None`` where no price matches."""
    if cost is None or not cost.amounts:
        return None
    unpriced = f", and {hours.of(cost.unpriced_gpu_ms)} GPU-hours without a price" if cost.unpriced_gpu_ms else ""
    return f"{written(cost, name)} (estimated){unpriced}"
